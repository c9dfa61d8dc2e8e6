/*
 * See the header. The emulation also judges: a call that a real device's driver would not take (wrong size,
 * over a page, from the flash itself) ends the program.
 */
#include "tests/support/nor_flash.h"

#include "shared/base/status.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* True while the power is on; the step at which it goes is half done by the caller. */
static bool power(struct nor_flash *nor, bool *interrupted)
{
    nor->steps += !nor->off;
    *interrupted = !nor->off && nor->steps == nor->cut_at;
    nor->off = nor->off || *interrupted;
    return !nor->off || *interrupted;
}

static bool is_bad(const struct nor_flash *nor, uint32_t offset)
{
    for (uint32_t i = 0; i < nor->n_bad; i++)
        if (nor->bad[i] == offset / nor->flash.erase_bytes)
            return true;
    return false;
}

static int erase(void *context, uint32_t offset, uint32_t n)
{
    struct nor_flash *nor = context;
    bool interrupted, failed = false;
    assert(n == nor->flash.erase_bytes || (n == nor->flash.block_bytes && n > 0));
    assert(offset % n == 0 && offset <= nor->flash.bytes && n <= nor->flash.bytes - offset);
    if (!power(nor, &interrupted))
        return STATUS_IO_FAILED;
    uint32_t done = n;
    if (interrupted)
        switch (prng_range(&nor->prng, 0, 3)) {
        case 0: /* garbage */
            for (uint32_t i = 0; i < n; i++)
                nor->bytes[offset + i] = (uint8_t)prng_next(&nor->prng);
            done = 0;
            break;
        case 1: /* bits on their way to one */
            for (uint32_t i = 0; i < n; i++)
                nor->bytes[offset + i] |= (uint8_t)prng_next(&nor->prng);
            done = 0;
            break;
        case 2: /* not even begun, or begun */
            done = (uint32_t)prng_range(&nor->prng, 0, (int32_t)n);
            break;
        default:;
        }
    memset(nor->bytes + offset, 0xFF, done);
    nor->erased_blocks++;
    for (uint32_t at = offset; at < offset + n; at += nor->flash.erase_bytes) {
        nor->wear[at / nor->flash.erase_bytes]++;
        if (nor->bad_erases && is_bad(nor, at)) {
            nor->bytes[at + nor->flash.erase_bytes / 3] = 0x5A;
            failed = true;
        }
    }
    return interrupted || (failed && nor->bad_says_so) ? STATUS_IO_FAILED : 0;
}

static int program(void *context, uint32_t offset, const uint8_t *bytes, uint32_t n)
{
    struct nor_flash *nor = context;
    bool interrupted;
    assert(n > 0 && n <= nor->flash.program_bytes && offset < nor->flash.bytes);
    assert(offset / nor->flash.program_bytes == (offset + n - 1) / nor->flash.program_bytes);
    assert(bytes + n <= nor->bytes || bytes >= nor->bytes + nor->flash.bytes);
    if (!power(nor, &interrupted))
        return STATUS_IO_FAILED;
    uint32_t done = interrupted ? (uint32_t)prng_range(&nor->prng, 0, (int32_t)n) : n;
    for (uint32_t i = 0; i < done; i++)
        nor->bytes[offset + i] &= bytes[i];
    if (interrupted && done < n)
        nor->bytes[offset + done] &= (uint8_t)(bytes[done] | prng_next(&nor->prng));
    if (is_bad(nor, offset))
        nor->bytes[offset + n - 1] = (uint8_t)~bytes[n - 1];
    return interrupted || (is_bad(nor, offset) && nor->bad_says_so) ? STATUS_IO_FAILED : 0;
}

static void poll(void *context)
{
    struct nor_flash *nor = context;
    nor->polls++;
}

void nor_flash_new(struct nor_flash *nor, uint32_t bytes, uint32_t erase_bytes, uint32_t block_bytes)
{
    memset(nor, 0, sizeof *nor);
    nor->bytes = aligned_alloc(16, bytes);
    nor->wear = calloc(bytes / erase_bytes, sizeof *nor->wear);
    assert(nor->bytes != NULL && nor->wear != NULL);
    memset(nor->bytes, 0xFF, bytes);
    nor->prng = prng_seed(bytes);
    nor->bad_erases = true;
    nor->flash = (struct board_flash){.context = nor,
                                      .base = nor->bytes,
                                      .bytes = bytes,
                                      .erase_bytes = erase_bytes,
                                      .block_bytes = block_bytes,
                                      .program_bytes = 256,
                                      .erase = erase,
                                      .program = program,
                                      .poll = poll};
}

void nor_flash_free(struct nor_flash *nor)
{
    free(nor->bytes);
    free(nor->wear);
    nor->bytes = NULL;
}

void nor_flash_power(struct nor_flash *nor, uint64_t in)
{
    nor->off = false;
    nor->cut_at = in > 0 ? nor->steps + in : 0;
}

void nor_flash_bad(struct nor_flash *nor, uint32_t erase_block)
{
    assert(nor->n_bad < NOR_FLASH_BAD_MAX);
    nor->bad[nor->n_bad++] = erase_block;
}
