/* See the header. Everything of an ELF file is checked against its size before it is followed. */
#include "server/provision/image.h"

#include "firmware/core/flashmap.h"
#include "firmware/core/provision.h"
#include "shared/base/le.h"

#include <string.h>

enum { ELF_HEADER = 52, PROGRAM_HEADER = 32, LOAD = 1, MACHINE_ARM = 40 };

static int malformed(struct error *error, const char *what)
{
    return error_set(error, STATUS_INVALID_ARGUMENT, "the ELF file %s", what);
}

static int read_elf(struct ihex *image, const uint8_t *bytes, size_t n, struct error *error)
{
    if (n < ELF_HEADER || bytes[4] != 1 || bytes[5] != 1 || le_get16(bytes + 18) != MACHINE_ARM)
        return malformed(error, "is not for a 32-bit ARM");
    uint32_t table = le_get32(bytes + 28), size = le_get16(bytes + 42), count = le_get16(bytes + 44);
    if (size < PROGRAM_HEADER || table > n || (uint64_t)size * count > n - table)
        return malformed(error, "has its program headers beyond its end");
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *header = bytes + table + (size_t)i * size;
        uint32_t offset = le_get32(header + 4), address = le_get32(header + 12),
                 filled = le_get32(header + 16);
        if (le_get32(header) != LOAD || filled == 0)
            continue;
        if (offset > n || filled > n - offset)
            return malformed(error, "has a segment beyond its end");
        int status = ihex_add(image, address, bytes + offset, filled, error);
        if (status < 0)
            return status;
    }
    image->has_start = true;
    image->start = le_get32(bytes + 24);
    return STATUS_OK;
}

static int check_place(const struct ihex *image, struct error *error)
{
    uint32_t first = FLASHMAP_BASE + FLASHMAP_IMAGE_A, end = first + FLASHMAP_IMAGE_BYTES;
    if (image->n_runs == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "the image is empty");
    for (size_t i = 0; i < image->n_runs; i++) {
        const struct ihex_run *run = &image->runs[i];
        uint64_t last = (uint64_t)run->address + run->n - 1;
        if (run->address < first || last >= end)
            return error_set(
                error, STATUS_INVALID_ARGUMENT,
                "the byte at 0x%08llx lies outside of the firmware's place in the flash, 0x%08x to "
                "0x%08x",
                run->address < first || run->address >= end ? (unsigned long long)run->address
                                                            : (unsigned long long)end,
                first, end - 1);
    }
    return STATUS_OK;
}

/* Whether a provisioning page lies there, and not a firmware that is too long. */
static bool has_page(const struct ihex *image)
{
    uint32_t page = FLASHMAP_BASE + FLASHMAP_PROVISION;
    for (size_t i = 0; i < image->n_runs; i++) {
        const struct ihex_run *run = &image->runs[i];
        if (run->address <= page && run->n >= PROVISION_BYTES &&
            page - run->address <= run->n - PROVISION_BYTES)
            return memcmp(run->bytes + (page - run->address), PROVISION_MAGIC, 4) == 0;
    }
    return false;
}

int image_read(struct ihex *image, const uint8_t *bytes, size_t n, struct error *error)
{
    static const uint8_t elf[4] = {0x7F, 'E', 'L', 'F'};
    int status;
    if (n >= sizeof elf && memcmp(bytes, elf, sizeof elf) == 0)
        status = read_elf(image, bytes, n, error);
    else if (n > 0 && bytes[0] == ':')
        status = ihex_parse(image, (const char *)bytes, n, error);
    else if (n > FLASHMAP_IMAGE_BYTES)
        status =
            error_set(error, STATUS_INVALID_ARGUMENT,
                      "%zu bytes are more than the %d that a firmware may have", n, FLASHMAP_IMAGE_BYTES);
    else
        status = ihex_add(image, FLASHMAP_BASE + FLASHMAP_IMAGE_A, bytes, (uint32_t)n, error);
    if (status == STATUS_OK && has_page(image))
        status = ihex_cut(image, FLASHMAP_BASE + FLASHMAP_PROVISION, FLASHMAP_PROVISION_BYTES, error);
    return status == STATUS_OK ? check_place(image, error) : status;
}
