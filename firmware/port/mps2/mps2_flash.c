/*
 * The flash of the emulated board: QEMU's 16 MB at 0x60000000, which lie in a file of the host, so what is
 * written outlives the process. The MPU makes them constant but in here; programming clears bits and sets
 * none, as real flash.
 */
#include "firmware/core/flash.h"
#include "firmware/core/flashmap.h"
#include "firmware/port/m7/m7.h"
#include "firmware/port/port.h"
#include "shared/base/status.h"

#include <string.h>

enum { ERASE_US = 45000, ERASE_BLOCK_US = 150000, PROGRAM_US = 1000 };

/* The network's interrupt or the tick ends each wait. */
static void take(uint32_t us)
{
    for (uint64_t end = port_now_us() + us; port_now_us() < end;)
        port_wait(us);
}

static uint8_t *at(uint32_t offset)
{
    return (uint8_t *)(FLASHMAP_BASE + offset);
}

/* The running image is never written: like the RT1062's, its flash cannot be read meanwhile. */
static bool allowed(uint32_t offset, uint32_t n)
{
    return offset >= FLASHMAP_IMAGE_B && offset <= FLASHMAP_BYTES && n <= FLASHMAP_BYTES - offset;
}

static int erase(void *context, uint32_t offset, uint32_t n)
{
    (void)context;
    if (!allowed(offset, n))
        return STATUS_INVALID_ARGUMENT;
    m7_flash_writable(true);
    memset(at(offset), 0xFF, n);
    m7_flash_writable(false);
    take(n >= FLASHMAP_BLOCK_BYTES ? ERASE_BLOCK_US : ERASE_US);
    return STATUS_OK;
}

static int program(void *context, uint32_t offset, const uint8_t *bytes, uint32_t n)
{
    (void)context;
    if (!allowed(offset, n))
        return STATUS_INVALID_ARGUMENT;
    m7_flash_writable(true);
    for (uint32_t i = 0; i < n; i++)
        at(offset)[i] &= bytes[i];
    m7_flash_writable(false);
    take(PROGRAM_US);
    return STATUS_OK;
}

const struct board_flash *port_flash(void)
{
    static const struct board_flash flash = {.base = (const uint8_t *)FLASHMAP_BASE,
                                             .bytes = FLASHMAP_BYTES,
                                             .erase_bytes = FLASHMAP_ERASE_BYTES,
                                             .block_bytes = FLASHMAP_BLOCK_BYTES,
                                             .program_bytes = FLASHMAP_PROGRAM_BYTES,
                                             .erase = erase,
                                             .program = program};
    return &flash;
}
