/*
 * QEMU's mps2-an500 as a board: a console on the first serial port, random bytes from the second (QEMU
 * connects it to the host's source), time from SysTick, the watchdog of the CMSDK. No semihosting: the image
 * reaches nothing of the host but serial ports, network and the file that is its flash.
 */
#include "firmware/port/mps2/mps2.h"

#include "firmware/net/net.h"
#include "firmware/net/say.h"
#include "firmware/port/m7/m7.h"
#include "firmware/port/port.h"
#include "shared/wire/wire.h"

#include <stddef.h>

#define SYSTICK_CTRL MPS2_REGISTER(0xE000E010u)
#define SYSTICK_LOAD MPS2_REGISTER(0xE000E014u)
#define SYSTICK_VALUE MPS2_REGISTER(0xE000E018u)
#define AIRCR MPS2_REGISTER(0xE000ED0Cu)

/* Of a serial port. */
enum { UART_DATA = 0x00, UART_STATE = 0x04, UART_CTRL = 0x08, UART_BAUDDIV = 0x10 };
enum { UART_TX_FULL = 1, UART_RX_FULL = 2 };
#define CONSOLE 0x40004000u
#define RANDOM 0x40005000u
/* Of the watchdog. */
enum { WDOG_LOAD = 0x00, WDOG_CTRL = 0x08, WDOG_INTCLR = 0x0C };
#define WATCHDOG 0x40008000u

enum {
    TICK_HZ = 1000,
    ENTROPY_TRIES = 20000000,
    RUNNING = 0x52554E21, /* the mark at a reset that was not ours */
    RESTART = 0x52535421
};

const char port_firmware[] = "shoal-board mps2 " SHOAL_FIRMWARE_VERSION;
const uint8_t port_kind = WIRE_KIND_MPS2;

static volatile uint32_t ticks, wraps;
static uint32_t mark __attribute__((section(".keep")));
static enum port_cause cause;

static volatile uint32_t *at(uint32_t device, uint32_t offset)
{
    return (volatile uint32_t *)(device + offset);
}

void m7_tick(void)
{
    if (++ticks == 0)
        wraps++;
}

void port_start(void)
{
    *at(CONSOLE, UART_BAUDDIV) = 16;
    *at(CONSOLE, UART_CTRL) = 1;
    *at(RANDOM, UART_BAUDDIV) = 16;
    *at(RANDOM, UART_CTRL) = 2;
    SYSTICK_LOAD = MPS2_HZ / TICK_HZ - 1;
    SYSTICK_VALUE = 0;
    SYSTICK_CTRL = 7;
    cause = mark == RUNNING ? PORT_CAUSE_WATCHDOG : mark == RESTART ? PORT_CAUSE_SOFTWARE : PORT_CAUSE_POWER;
    mark = RUNNING;
}

/* The counter may have begun anew before its tick was counted (QEMU delivers it late): then time stands until
 * it is. */
uint64_t port_now_us(void)
{
    static uint64_t last;
    uint32_t high, low, value;
    do {
        high = wraps;
        low = ticks;
        value = SYSTICK_VALUE;
    } while (low != ticks || high != wraps);
    uint64_t now =
        ((uint64_t)high << 32 | low) * 1000 + (MPS2_HZ / TICK_HZ - 1 - value) / (MPS2_HZ / 1000000);
    if (now > last)
        last = now;
    return last;
}

uint64_t port_clock_hz(void)
{
    return MPS2_HZ;
}

int port_entropy(uint8_t *out, uint32_t n)
{
    for (uint32_t tries = 0; n > 0; tries++) {
        if (tries == ENTROPY_TRIES)
            return STATUS_IO_FAILED;
        if (*at(RANDOM, UART_STATE) & UART_RX_FULL) {
            *out++ = (uint8_t)*at(RANDOM, UART_DATA);
            n--;
        }
    }
    return STATUS_OK;
}

void port_wait(uint32_t us)
{
    if (us > 0)
        lan9118_wait();
}

void port_console(const char *text, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        while (*at(CONSOLE, UART_STATE) & UART_TX_FULL) {
        }
        *at(CONSOLE, UART_DATA) = (uint8_t)text[i];
    }
}

enum port_cause port_cause(void)
{
    return cause;
}

_Noreturn void port_reset(void)
{
    mark = RESTART;
    AIRCR = 0x05FA0004u;
    __asm volatile("dsb" ::: "memory");
    for (;;) {
    }
}

/* The first time it runs out it interrupts (NMI, m7_vectors.c), the second time it resets. */
void port_watchdog_start(uint32_t ms)
{
    *at(WATCHDOG, WDOG_LOAD) = ms * (MPS2_HZ / 1000);
    *at(WATCHDOG, WDOG_CTRL) = 3;
}

void port_watchdog_feed(void)
{
    *at(WATCHDOG, WDOG_INTCLR) = 1; /* and begins anew */
}

void port_led(enum led state)
{
    (void)state; /* the console says it */
}

int16_t port_temperature(void)
{
    return WIRE_NO_TEMPERATURE;
}
