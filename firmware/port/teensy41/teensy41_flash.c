/*
 * The Teensy's flash as the store sees it. The running image is never written; what FlexSPI says when
 * something fails goes to the console, since a status has no room for it.
 */
#include "firmware/core/flash.h"
#include "firmware/core/flashmap.h"
#include "firmware/net/say.h"
#include "firmware/port/port.h"
#include "firmware/port/teensy41/flexspi.h"
#include "shared/base/status.h"

#include <stddef.h>

_Static_assert((int)FLASHMAP_ERASE_BYTES == (int)FLEXSPI_SECTOR, "the map's sizes are the chip's");
_Static_assert((int)FLASHMAP_BLOCK_BYTES == (int)FLEXSPI_BLOCK, "the map's sizes are the chip's");
_Static_assert((int)FLASHMAP_PROGRAM_BYTES == (int)FLEXSPI_PAGE, "the map's sizes are the chip's");

static bool allowed(uint32_t offset, uint32_t n)
{
    return offset >= FLASHMAP_IMAGE_B && offset <= FLASHMAP_BYTES && n <= FLASHMAP_BYTES - offset;
}

static int outcome(const char *failed, uint32_t offset)
{
    if (failed == NULL)
        return STATUS_OK;
    say("%s, at %08x", failed, (unsigned)(FLASHMAP_BASE + offset));
    return STATUS_IO_FAILED;
}

static int erase(void *context, uint32_t offset, uint32_t n)
{
    (void)context;
    if (!allowed(offset, n) || offset % n != 0 || (n != FLEXSPI_SECTOR && n != FLEXSPI_BLOCK))
        return STATUS_INVALID_ARGUMENT;
    return outcome(flexspi_erase(offset, n), offset);
}

static int program(void *context, uint32_t offset, const uint8_t *bytes, uint32_t n)
{
    (void)context;
    if (!allowed(offset, n) || n == 0 || offset % FLEXSPI_PAGE + n > FLEXSPI_PAGE)
        return STATUS_INVALID_ARGUMENT;
    return outcome(flexspi_program(offset, bytes, n), offset);
}

static void poll(void *context)
{
    (void)context;
    port_watchdog_feed();
}

const struct board_flash *port_flash(void)
{
    static const struct board_flash flash = {.base = (const uint8_t *)FLASHMAP_BASE,
                                             .bytes = FLASHMAP_BYTES,
                                             .erase_bytes = FLASHMAP_ERASE_BYTES,
                                             .block_bytes = FLASHMAP_BLOCK_BYTES,
                                             .program_bytes = FLASHMAP_PROGRAM_BYTES,
                                             .erase = erase,
                                             .program = program,
                                             .poll = poll};
    return &flash;
}
