/*
 * The board on QEMU's mcimx6ul-evk, whose Ethernet controller is the RT1062's: the Teensy's enet.c,
 * enet_net.c and phy.c unchanged, below the unchanged lwIP, TLS and board, in place of the port. Only the
 * test image is for this Cortex-A7: console on the first serial port, random bytes from the second, time from
 * the core's timer, flash in RAM. Interrupts are never taken: the GIC is asked after each sleep.
 */
#include "firmware/core/flash.h"
#include "firmware/core/flashmap.h"
#include "firmware/net/say.h"
#include "firmware/port/m7/m7.h"
#include "firmware/port/port.h"
#include "firmware/port/teensy41/enet_net.h"
#include "firmware/port/teensy41/reg.h"
#include "shared/base/status.h"
#include "shared/wire/wire.h"

#include <stddef.h>
#include <string.h>

enum { TIMER_HZ = 62500000, TICK_HZ = 1000, ENET_CLOCK_HZ = 66000000 };
#define ENET1 0x02188000u
/* Of a serial port. */
#define UART1 0x02020000u
#define UART2 0x021E8000u
enum { URXD = 0x00, UTXD = 0x40, UCR1 = 0x80, UCR2 = 0x84, USR2 = 0x98 };
enum { UCR1_ON = 1, UCR2_ON = 7 /* receiver, transmitter, out of reset */, USR2_HAS_BYTE = 1 };
/* The interrupt controller and the two interrupts that end a sleep. */
#define GIC_DISTRIBUTOR 0x00A01000u
#define GIC_CPU 0x00A02000u
enum { GIC_ENABLE = 0x100, GIC_TARGET = 0x800, GICC_MASK = 0x04, GICC_TAKE = 0x0C, GICC_DONE = 0x10 };
enum { INTERRUPT_TIMER = 27, INTERRUPT_ENET1 = 32 + 118, INTERRUPT_NONE = 1023 };
#define FLASH ((uint8_t *)0x90000000u)

const char port_firmware[] = "shoal-board enet " SHOAL_FIRMWARE_VERSION;
const uint8_t port_kind = WIRE_KIND_MPS2;

static struct enet enet;
static struct enet_memory memory;
static uint32_t interrupts, sleeps;

void a7_main(void);
_Noreturn void a7_stopped(uint32_t at, uint32_t address);

/* What firmware/port/m7 gives to m7_main.c. */
const char *m7_reset_reason(void)
{
    return "power on";
}

uint32_t m7_stack_high_water(void)
{
    return 0;
}

uint32_t m7_stack_bytes(void)
{
    return 65536;
}

static uint64_t ticks(void)
{
    uint32_t low, high;
    __asm volatile("mrrc p15, 1, %0, %1, c14" : "=r"(low), "=r"(high));
    return (uint64_t)high << 32 | low;
}

/* For reg.h: as if the core ran at REG_CYCLES_PER_US. */
uint32_t reg_cycles(void)
{
    return (uint32_t)(ticks() * REG_CYCLES_PER_US / (TIMER_HZ / 1000000));
}

uint64_t port_now_us(void)
{
    return ticks() * 1000 / (TIMER_HZ / 1000);
}

uint64_t port_clock_hz(void)
{
    return 600000000;
}

int port_entropy(uint8_t *out, uint32_t n)
{
    while (n > 0) {
        if (!reg_wait(UART2 + USR2, USR2_HAS_BYTE, USR2_HAS_BYTE, 1000000))
            return STATUS_IO_FAILED;
        *out++ = (uint8_t)reg_read(UART2 + URXD);
        n--;
    }
    return STATUS_OK;
}

void port_console(const char *text, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        reg_write(UART1 + UTXD, (uint8_t)text[i]);
}

static void start_timer(void)
{
    __asm volatile("mcr p15, 0, %0, c14, c3, 0" ::"r"(TIMER_HZ / TICK_HZ)); /* CNTV_TVAL */
    __asm volatile("mcr p15, 0, %0, c14, c3, 1" ::"r"(1));                  /* CNTV_CTL */
}

/* Until a frame's interrupt or the tick. */
void port_wait(uint32_t us)
{
    if (us == 0)
        return;
    start_timer();
    enet_interrupt(&enet, true);
    if (!enet_waiting(&enet)) {
        sleeps++;
        __asm volatile("dsb\n wfi" ::: "memory");
    }
    for (;;) {
        uint32_t number = reg_read(GIC_CPU + GICC_TAKE);
        if ((number & 0x3FF) == INTERRUPT_NONE)
            break;
        if ((number & 0x3FF) == INTERRUPT_ENET1) {
            interrupts++;
            enet_interrupt(&enet, false);
        } else {
            __asm volatile("mcr p15, 0, %0, c14, c3, 1" ::"r"(0));
        }
        reg_write(GIC_CPU + GICC_DONE, number);
    }
}

enum port_cause port_cause(void)
{
    return PORT_CAUSE_POWER;
}

_Noreturn void port_reset(void)
{
    for (;;) {
    }
}

_Noreturn void port_die(const char *text)
{
    say("died: %s", text);
    port_reset();
}

_Noreturn void a7_stopped(uint32_t at, uint32_t address)
{
    say("died: exception near %08x, address %08x", (unsigned)at, (unsigned)address);
    port_reset();
}

void port_watchdog_start(uint32_t ms)
{
    (void)ms;
}

/* What the driver did, now and then: the test reads it. */
void port_watchdog_feed(void)
{
    static uint64_t next_us;
    if (port_now_us() < next_us)
        return;
    next_us = port_now_us() + 500000;
    say("enet: received %u, sent %u, damaged %u, refused %u, restarts %u, interrupts %u of %u sleeps",
        (unsigned)enet.received, (unsigned)enet.sent, (unsigned)enet.damaged, (unsigned)enet.refused,
        (unsigned)enet.restarts, (unsigned)interrupts, (unsigned)sleeps);
}

void port_led(enum led state)
{
    (void)state;
}

int16_t port_temperature(void)
{
    return WIRE_NO_TEMPERATURE;
}

static int start(void *context, uint8_t mac[NET_MAC_BYTES])
{
    static const uint8_t address[NET_MAC_BYTES] = {0x52, 0x54, 0x00, 0x12, 0x34, 0x56};
    memcpy(mac, address, sizeof address);
    const char *failed = enet_start(context, ENET1, &memory, mac, ENET_CLOCK_HZ);
    if (failed != NULL) {
        say("Ethernet failed: %s", failed);
        return STATUS_IO_FAILED;
    }
    say("PHY %08x at address %u", (unsigned)enet.phy.id, (unsigned)enet.phy.address);
    return STATUS_OK;
}

const struct net_driver *port_network(void)
{
    static const struct net_driver driver = {&enet, start, enet_net_send, enet_net_receive, enet_net_link_up};
    return &driver;
}

static int erase(void *context, uint32_t offset, uint32_t n)
{
    (void)context;
    memset(FLASH + offset, 0xFF, n);
    return STATUS_OK;
}

static int program(void *context, uint32_t offset, const uint8_t *bytes, uint32_t n)
{
    (void)context;
    for (uint32_t i = 0; i < n; i++)
        FLASH[offset + i] &= bytes[i];
    return STATUS_OK;
}

const struct board_flash *port_flash(void)
{
    static const struct board_flash flash = {.base = FLASH,
                                             .bytes = FLASHMAP_BYTES,
                                             .erase_bytes = FLASHMAP_ERASE_BYTES,
                                             .block_bytes = FLASHMAP_BLOCK_BYTES,
                                             .program_bytes = FLASHMAP_PROGRAM_BYTES,
                                             .erase = erase,
                                             .program = program};
    return &flash;
}

void a7_main(void)
{
    reg_write(UART1 + UCR1, UCR1_ON);
    reg_write(UART1 + UCR2, UCR2_ON);
    reg_write(UART2 + UCR1, UCR1_ON);
    reg_write(UART2 + UCR2, UCR2_ON);
    reg_write(GIC_DISTRIBUTOR + GIC_ENABLE, 1u << INTERRUPT_TIMER);
    reg_write(GIC_DISTRIBUTOR + GIC_ENABLE + INTERRUPT_ENET1 / 32 * 4, 1u << INTERRUPT_ENET1 % 32);
    reg_change(GIC_DISTRIBUTOR + GIC_TARGET + INTERRUPT_ENET1 / 4 * 4, 0xFFu << INTERRUPT_ENET1 % 4 * 8,
               1u << INTERRUPT_ENET1 % 4 * 8);
    reg_write(GIC_CPU + GICC_MASK, 0xFF);
    reg_write(GIC_CPU, 1);
    reg_write(GIC_DISTRIBUTOR, 1);
    m7_main();
}
