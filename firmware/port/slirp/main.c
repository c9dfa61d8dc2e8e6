/*
 * The board of the Cortex-M ports as a process: firmware/net with lwIP and mbedTLS unchanged, over libslirp,
 * for tests under the sanitizers. Not for use: shoal-board is the host board.
 *
 *     slirp-board FLASH-FILE
 *
 * The file is its flash (build/emulated_flash makes one). A reboot is a new start of the program. Ends by
 * SIGTERM.
 */
#include "firmware/core/flash.h"
#include "firmware/core/flashmap.h"
#include "firmware/core/provision.h"
#include "firmware/net/net.h"
#include "firmware/net/net_board.h"
#include "firmware/net/net_tls.h"
#include "firmware/net/say.h"
#include "firmware/port/port.h"
#include "firmware/port/slirp/slirp_port.h"
#include "shared/wire/wire.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { ARENA_BYTES = 458752, RESIDENT_BYTES = 262144, FILE_BYTES = 16 << 20 };

const char port_firmware[] = "shoal-board slirp " SHOAL_FIRMWARE_VERSION;
const uint8_t port_kind = WIRE_KIND_MPS2;

static volatile sig_atomic_t told_to_stop;
static char **arguments;
static uint8_t *flash_bytes;

static void on_signal(int number)
{
    (void)number;
    told_to_stop = 1;
}

/* ---- the port ---- */

uint64_t port_now_us(void)
{
    static uint64_t start;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t now = (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
    if (start == 0)
        start = now - 1;
    return now - start;
}

uint64_t port_clock_hz(void)
{
    return 600000000;
}

int port_entropy(uint8_t *out, uint32_t n)
{
    return getrandom(out, n, 0) == (ssize_t)n ? STATUS_OK : STATUS_IO_FAILED;
}

void port_wait(uint32_t us)
{
    slirp_port_pump(us < 1000 ? 0 : 1);
}

void port_console(const char *text, uint32_t n)
{
    fwrite(text, 1, n, stdout);
    fflush(stdout);
}

_Noreturn void port_die(const char *text)
{
    static char program[] = "/proc/self/exe";
    say("%s", text);
    setenv("SLIRP_BOARD_REASON", text, 1);
    execv(program, arguments);
    abort();
}

void port_watchdog_feed(void)
{
}

void port_led(enum led state)
{
    (void)state;
}

int16_t port_temperature(void)
{
    return WIRE_NO_TEMPERATURE;
}

/* ---- flash ---- */

static int erase(void *context, uint32_t offset, uint32_t n)
{
    (void)context;
    memset(flash_bytes + offset, 0xFF, n);
    return STATUS_OK;
}

static int program(void *context, uint32_t offset, const uint8_t *bytes, uint32_t n)
{
    (void)context;
    for (uint32_t i = 0; i < n; i++)
        flash_bytes[offset + i] &= bytes[i];
    return STATUS_OK;
}

static int open_flash(const char *path, struct board_flash *flash)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *map = fd >= 0 ? mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (map == MAP_FAILED)
        return -1;
    close(fd);
    flash_bytes = map;
    *flash = (struct board_flash){.base = flash_bytes,
                                  .bytes = FLASHMAP_BYTES,
                                  .erase_bytes = FLASHMAP_ERASE_BYTES,
                                  .block_bytes = FLASHMAP_BLOCK_BYTES,
                                  .program_bytes = FLASHMAP_PROGRAM_BYTES,
                                  .erase = erase,
                                  .program = program,
                                  .poll = net_board_flash_poll};
    return 0;
}

/* ---- start ---- */

static bool is_stopped(void)
{
    return told_to_stop != 0;
}

static uint32_t no_high_water(void)
{
    return 0;
}

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "slirp-board: %s: %s\n", what, why);
    return 1;
}

int main(int argc, char **argv)
{
    static struct provision provision;
    static struct board_flash flash;
    static _Alignas(16) uint8_t arena[ARENA_BYTES], resident[RESIDENT_BYTES];
    const char *what = "", *reason = getenv("SLIRP_BOARD_REASON");
    arguments = argv;
    if (argc != 2)
        return fail("usage", "slirp-board FLASH-FILE");
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, on_signal);
    if (open_flash(argv[1], &flash) != 0)
        return fail(argv[1], "cannot be opened");
    if (provision_decode(flash.base + FLASHMAP_PROVISION, &provision, &what) != STATUS_OK)
        return fail(argv[1], what);
    say("%s, reset: %s", port_firmware, reason != NULL ? reason : "power on");
    struct net_settings settings = {.hostname = "shoal"};
    if (net_start(port_network(), &settings) != STATUS_OK || net_tls_start() != STATUS_OK)
        return fail("start", "network or randomness");
    struct net_board_config config = {.provision = &provision,
                                      .flash = &flash,
                                      .arena = arena,
                                      .arena_bytes = ARENA_BYTES,
                                      .resident = resident,
                                      .resident_bytes = RESIDENT_BYTES,
                                      .network_bytes = RESIDENT_BYTES,
                                      .stack_bytes = RESIDENT_BYTES,
                                      .reset_reason = reason != NULL ? reason : "power on",
                                      .stack_high_water = no_high_water,
                                      .stop = is_stopped};
    int status = net_board_run(&config);
    slirp_port_end();
    return status == STATUS_OK ? 0 : 1;
}
