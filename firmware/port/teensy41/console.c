/*
 * LPUART6 from the 24 MHz crystal, so that its rate does not change when the core's does. The ring has one
 * writer, the program, and one reader, the tick: each moves its own end only. Who flushes masks the tick.
 */
#include "firmware/port/teensy41/console.h"

#include "firmware/port/teensy41/reg.h"
#include "firmware/port/teensy41/rt1062.h"

enum {
    FLUSH_US = 250000,
    ALT_LPUART6 = 2,
    PAD_SERIAL = 0x10B0 /* as at reset: 100 MHz, drive R0/6, keeper */
};

static uint8_t ring[CONSOLE_RING];
static volatile uint32_t put, got;
static uint32_t dropped;

void console_start(void)
{
    put = got = dropped = 0;
    reg_set(CCM_CCGR(3), CCGR3_LPUART6);
    reg_write(MUX_AD_B0_02, ALT_LPUART6);
    reg_write(MUX_AD_B0_03, ALT_LPUART6);
    reg_write(PAD_AD_B0_02, PAD_SERIAL);
    reg_write(PAD_AD_B0_03, PAD_SERIAL);
    reg_write(SELECT_LPUART6_TX, 1);
    reg_write(SELECT_LPUART6_RX, 1);
    reg_write(LPUART6_CTRL, 0);
    reg_write(LPUART6_BAUD, LPUART_BAUD_115200);
    reg_write(LPUART6_FIFO, LPUART_FIFO_TXFE | LPUART_FIFO_RXFE);
    reg_write(LPUART6_CTRL, LPUART_CTRL_TE | LPUART_CTRL_RE);
}

void console_write(const char *bytes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (put - got == CONSOLE_RING) {
            dropped++;
            continue;
        }
        ring[put % CONSOLE_RING] = (uint8_t)bytes[i];
        put = put + 1;
    }
}

void console_poll(void)
{
    /* With its FIFO on, TDRE says that there is room in it. */
    for (int i = 0; i < 4 && got != put && reg_read(LPUART6_STAT) & LPUART_STAT_TDRE; i++) {
        reg_write(LPUART6_DATA, ring[got % CONSOLE_RING]);
        got = got + 1;
    }
}

void console_flush(void)
{
    uint32_t start = reg_cycles();
    for (uint32_t looks = 0; got != put && looks < FLUSH_US * (REG_CYCLES_PER_US / REG_LOOK_CYCLES);
         looks++) {
        console_poll();
        if (reg_cycles() - start >= FLUSH_US * REG_CYCLES_PER_US)
            break;
    }
    (void)reg_wait(LPUART6_STAT, LPUART_STAT_TC, LPUART_STAT_TC, 2000);
}

uint32_t console_dropped(void)
{
    return dropped;
}

int console_read(void)
{
    uint32_t status = reg_read(LPUART6_STAT);
    if (status & LPUART_STAT_OVERRUN)
        reg_write(LPUART6_STAT, LPUART_STAT_OVERRUN);
    return status & LPUART_STAT_RDRF ? (int)(reg_read(LPUART6_DATA) & 0xFF) : -1;
}
