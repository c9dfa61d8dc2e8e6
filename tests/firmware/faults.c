/*
 * In the place of the board: what must end a start, one thing after another, each by a reset whose reason the
 * next start prints. Ends with a line that says so; that line, and not QEMU's status, is the verdict
 * (faults.sh).
 */
#include "firmware/net/say.h"
#include "firmware/port/m7/m7.h"
#include "firmware/port/m7/m7_parts.h"
#include "firmware/port/port.h"

#include <string.h>

enum { WATCHDOG_MS = 300, SHORT_MS = 1000, THUMB = 1 };

static struct {
    uint32_t magic, step;
} progress __attribute__((section(".keep")));

/* A number that the compiler does not know. */
static uint32_t opaque(uint32_t value)
{
    __asm volatile("" : "+r"(value));
    return value;
}

static void touch(uint32_t address)
{
    (void)*(volatile uint32_t *)opaque(address);
}

static void write_to(uint32_t address)
{
    *(volatile uint32_t *)opaque(address) = 0;
}

static void run_from_data(void)
{
    static const uint16_t code[] = {0x4770}; /* bx lr */
    memcpy(__arena_start, code, sizeof code);
    __asm volatile("dsb\n isb" ::: "memory");
    ((void (*)(void))(uintptr_t)opaque((uint32_t)(uintptr_t)__arena_start | THUMB))();
}

static uint32_t __attribute__((noinline)) deep(uint32_t n)
{
    volatile uint8_t frame[200];
    frame[0] = (uint8_t)n;
    return (opaque(n) != UINT32_MAX ? deep(n + 1) : 0) + frame[0];
}

/* QEMU does not trap a division by zero; this it does. */
static void undefined(void)
{
    __asm volatile("udf #1");
}

static void wait_without_end(void)
{
    port_watchdog_start(WATCHDOG_MS);
    for (;;)
        opaque(0);
}

/* Feeding keeps it from biting. */
static void fed(void)
{
    port_watchdog_start(WATCHDOG_MS);
    for (uint64_t end = port_now_us() + SHORT_MS * 1000; port_now_us() < end;)
        port_watchdog_feed();
    port_die("the watchdog was fed");
}

static void step(uint32_t number)
{
    switch (number) {
    case 0:
        touch(0);
        break;
    case 1:
        touch(0xFC);
        break;
    case 2:
        write_to(0x60010000);
        break;
    case 3:
        write_to(0x00000200); /* ITCM */
        break;
    case 4:
        run_from_data();
        break;
    case 5:
        touch(0x10000000);
        break;
    case 6:
        (void)deep(0);
        break;
    case 7:
        undefined();
        break;
    case 8:
        wait_without_end();
        break;
    case 9:
        fed();
        break;
    case 10:
        port_reset();
    default:
        break;
    }
}

_Noreturn void m7_main(void)
{
    enum { MAGIC = 0x46415553, STEPS = 11 };
    if (progress.magic != MAGIC)
        progress.step = 0;
    progress.magic = MAGIC;
    say("start %u: %s", (unsigned)progress.step, m7_reset_reason());
    if (progress.step < STEPS) {
        step(progress.step++);
        say("nothing happened");
    } else {
        say("faults: done");
    }
    for (;;)
        port_wait(1000);
}
