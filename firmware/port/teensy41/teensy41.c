/*
 * A Teensy 4.1 as a board: from the LED as the first sign of life to a running clock, each step a line on the
 * console. A step that fails is named there for a minute, and is the reason that the next start gives. Time
 * is a timer on the crystal, widened to 64 bits by the tick, so that neither sleeping nor a long erase with
 * interrupts masked loses any.
 */
#include "firmware/port/teensy41/teensy41.h"

#include "firmware/core/led.h"
#include "firmware/net/say.h"
#include "firmware/port/m7/m7.h"
#include "firmware/port/port.h"
#include "firmware/port/teensy41/chip.h"
#include "firmware/port/teensy41/clock.h"
#include "firmware/port/teensy41/console.h"
#include "firmware/port/teensy41/reg.h"
#include "firmware/port/teensy41/rt1062.h"
#include "firmware/port/teensy41/trng.h"
#include "shared/base/status.h"
#include "shared/wire/wire.h"

#include <stddef.h>
#include <string.h>

#define SYSTICK_CTRL 0xE000E010u
#define SYSTICK_LOAD 0xE000E014u
#define SYSTICK_VALUE 0xE000E018u
#define AIRCR 0xE000ED0Cu

enum {
    TICK_HZ = 1000,
    CACHE_SETS = 256,
    CACHE_WAYS = 4,
    STAY_MS = 60000,
    STAY_SAY_MS = 5000,
    STAY_STEP_MS = 50
};

const char port_firmware[] = "shoal-board teensy41 " SHOAL_FIRMWARE_VERSION;
const uint8_t port_kind = WIRE_KIND_TEENSY41;

extern uint8_t __dma_start[];

static enum port_cause cause;
static uint64_t now_us; /* as of the last look at the timer */
static bool ticking;
static volatile enum led led = LED_STARTING;

static uint32_t mask(void)
{
    uint32_t before;
    __asm volatile("mrs %0, primask\n cpsid i" : "=r"(before)::"memory");
    return before;
}

static void unmask(uint32_t before)
{
    __asm volatile("msr primask, %0" ::"r"(before) : "memory");
}

uint64_t port_now_us(void)
{
    uint32_t interrupts = mask();
    now_us += (uint32_t)(chip_timer() - (uint32_t)now_us);
    uint64_t now = now_us;
    unmask(interrupts);
    return now;
}

void m7_tick(void)
{
    (void)port_now_us();
    console_poll();
    chip_led(led_lit(led, (uint32_t)(now_us / 1000)));
}

/* Before the tick runs, and when it cannot come, a line is sent at once. */
void port_console(const char *text, uint32_t n)
{
    uint32_t interrupts = mask(), exception;
    __asm volatile("mrs %0, ipsr" : "=r"(exception));
    console_write(text, n);
    if (!ticking || exception != 0)
        console_flush();
    unmask(interrupts);
}

/* The caches hold rubbish after power-on: each line of the data cache is dropped by set and way. */
static void start_caches(void)
{
    if (!(reg_read(SCB_CCR) & SCB_CCR_DATA_CACHE))
        for (uint32_t set = 0; set < CACHE_SETS; set++)
            for (uint32_t way = 0; way < CACHE_WAYS; way++)
                reg_write(SCB_DCISW, way << 30 | set << 5);
    reg_write(SCB_ICIALLU, 0);
    reg_barrier();
    reg_set(SCB_CCR, SCB_CCR_CACHES);
    reg_barrier();
}

/* By the timer or by the core's cycles, whichever comes first: one of them may be what failed. */
static void pause_ms(uint32_t ms)
{
    uint32_t us = chip_timer(), cycles = reg_cycles();
    while (chip_timer() - us < ms * 1000 && reg_cycles() - cycles < ms * 1000 * REG_CYCLES_PER_US) {
    }
}

/* For a minute the LED and the console say what failed; then the board starts anew. */
static _Noreturn void stay(const char *what, const char *failed)
{
    for (uint32_t ms = 0; ms < STAY_MS; ms += STAY_STEP_MS) {
        if (ms % STAY_SAY_MS == 0)
            say("%s: failed: %s", what, failed);
        chip_led(led_lit(LED_FAULT, ms));
        pause_ms(STAY_STEP_MS);
    }
    port_die(failed);
}

static void step(const char *what, const char *failed)
{
    if (failed != NULL)
        stay(what, failed);
    say("%s", what);
}

static void start_tick(void)
{
    reg_write(SYSTICK_LOAD, CLOCK_CORE_HZ / TICK_HZ - 1);
    reg_write(SYSTICK_VALUE, 0);
    ticking = true;
    reg_write(SYSTICK_CTRL, 7);
}

void port_start(void)
{
    /* 32 KiB, of which the last eighth is not the controller's (teensy41.ld). */
    const struct m7_region own[] = {{(uint32_t)(uintptr_t)__dma_start, 15, 0x80, M7_DATA_UNCACHED}};
    static const enum port_cause causes[] = {
        [CHIP_RESET_POWER] = PORT_CAUSE_POWER,       [CHIP_RESET_BUTTON] = PORT_CAUSE_POWER,
        [CHIP_RESET_SOFTWARE] = PORT_CAUSE_SOFTWARE, [CHIP_RESET_WATCHDOG] = PORT_CAUSE_WATCHDOG,
        [CHIP_RESET_TEMPERATURE] = PORT_CAUSE_OTHER, [CHIP_RESET_DEBUGGER] = PORT_CAUSE_OTHER,
        [CHIP_RESET_SECURITY] = PORT_CAUSE_OTHER,    [CHIP_RESET_UNKNOWN] = PORT_CAUSE_OTHER,
    };
    chip_led_start();
    chip_cycles_start();
    clock_peripherals();
    console_start();
    cause = causes[chip_reset()];
    step("console", NULL);
    step("timer", chip_timer_start());
    m7_mpu_start(own, sizeof own / sizeof *own);
    start_caches();
    step("memory protection, caches", NULL);
    step("core at 600 MHz", clock_start());
    step("random numbers", trng_start());
    chip_temperature_start();
    start_tick();
}

uint64_t port_clock_hz(void)
{
    return CLOCK_CORE_HZ;
}

int port_entropy(uint8_t *out, uint32_t n)
{
    const char *failed = trng_read(out, n);
    if (failed == NULL)
        return STATUS_OK;
    say("%s", failed);
    return STATUS_IO_FAILED;
}

/* The loader starts when the core stops at this number; the program button does the same. */
static void enter_loader(void)
{
    if (!chip_loader_possible()) {
        say("this board is locked: use its button");
        return;
    }
    say("to the loader");
    (void)mask();
    console_flush();
    __asm volatile("bkpt #251");
}

/* "loader" and return on the console starts the loader, for a board whose button is out of reach. */
static void listen(void)
{
    static const char word[] = "loader";
    static uint32_t matched;
    int byte = console_read();
    if (byte < 0)
        return;
    if (matched == sizeof word - 1 && (byte == '\r' || byte == '\n'))
        enter_loader();
    matched = matched < sizeof word - 1 && byte == word[matched] ? matched + 1 : byte == word[0];
}

void port_wait(uint32_t us)
{
    listen();
    if (us > 0)
        teensy41_net_wait();
}

enum port_cause port_cause(void)
{
    return cause;
}

_Noreturn void port_reset(void)
{
    (void)mask();
    console_flush();
    reg_barrier();
    reg_write(AIRCR, 0x05FA0004u);
    reg_barrier();
    for (;;) {
    }
}

static void on_watchdog(void)
{
    const uint32_t *frame;
    __asm volatile("mrs %0, psp" : "=r"(frame));
    m7_watchdog_bites(frame);
}

void port_watchdog_start(uint32_t ms)
{
    m7_interrupt(CHIP_WATCHDOG_INTERRUPT, on_watchdog, 0);
    chip_watchdog_start(ms);
}

void port_led(enum led state)
{
    led = state;
}

void port_watchdog_feed(void)
{
    chip_watchdog_feed();
}

int16_t port_temperature(void)
{
    int16_t tenths = chip_temperature();
    return tenths == CHIP_NO_TEMPERATURE ? WIRE_NO_TEMPERATURE : tenths;
}
