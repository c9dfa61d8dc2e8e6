/*
 * What every user of the flash needs. Bytes go through a page of RAM, since a flash that is being programmed
 * cannot be read. Everything is read back: a device that says "done" and lies is found here, not when the
 * bytes are wanted.
 */
#include "firmware/core/flash.h"

#include "shared/base/status.h"

#include <stddef.h>
#include <string.h>

enum { COPY = 256 };

bool flash_valid(const struct board_flash *flash)
{
    return flash->base != NULL && (uintptr_t)flash->base % 16 == 0 && flash->erase != NULL &&
           flash->program != NULL && flash->erase_bytes >= COPY && flash->bytes > 0 &&
           flash->bytes % flash->erase_bytes == 0 && flash->block_bytes % flash->erase_bytes == 0 &&
           flash->program_bytes > 0 && flash->erase_bytes % flash->program_bytes == 0;
}

void flash_poll(const struct board_flash *flash)
{
    if (flash->poll != NULL)
        flash->poll(flash->context);
}

bool flash_blank(const struct board_flash *flash, uint32_t offset, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (flash->base[offset + i] != 0xFF)
            return false;
    return true;
}

int flash_erase(const struct board_flash *flash, uint32_t offset, uint32_t n)
{
    if (offset % flash->erase_bytes != 0 || n % flash->erase_bytes != 0 || offset > flash->bytes ||
        n > flash->bytes - offset)
        return STATUS_INVALID_ARGUMENT;
    for (uint32_t end = offset + n; offset < end;) {
        uint32_t size = flash->erase_bytes, block = flash->block_bytes;
        if (block > size && offset % block == 0 && end - offset >= block)
            size = block;
        int status = flash->erase(flash->context, offset, size);
        if (status < 0)
            return status;
        flash_poll(flash);
        if (!flash_blank(flash, offset, size))
            return STATUS_IO_FAILED;
        offset += size;
    }
    return STATUS_OK;
}

int flash_program(const struct board_flash *flash, uint32_t offset, const uint8_t *bytes, uint32_t n)
{
    uint8_t page[COPY];
    if (offset > flash->bytes || n > flash->bytes - offset)
        return STATUS_INVALID_ARGUMENT;
    while (n > 0) {
        uint32_t size = flash->program_bytes - offset % flash->program_bytes;
        size = size < n ? size : n;
        size = size < COPY ? size : COPY;
        memcpy(page, bytes, size);
        int status = flash->program(flash->context, offset, page, size);
        if (status < 0)
            return status;
        if (memcmp(flash->base + offset, page, size) != 0)
            return STATUS_IO_FAILED;
        flash_poll(flash);
        offset += size;
        bytes += size;
        n -= size;
    }
    return STATUS_OK;
}

uint32_t flash_crc32(uint32_t crc, const uint8_t *bytes, uint32_t n)
{
    static const uint32_t of_nibble[16] = {
        0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4, 0x4DB26158, 0x5005713C,
        0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C, 0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C};
    crc = ~crc;
    for (uint32_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ of_nibble[crc & 15];
        crc = crc >> 4 ^ of_nibble[crc & 15];
    }
    return ~crc;
}
