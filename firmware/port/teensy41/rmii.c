/*
 * Pads first, clock next, then the reset: the PHY samples address (0) and modes (auto-MDIX, RMII slave) from
 * the pulls of its own output pins at the end of the reset, and its 50 MHz come from the RT1062.
 */
#include "firmware/port/teensy41/rmii.h"

#include "firmware/port/teensy41/reg.h"
#include "firmware/port/teensy41/rt1062.h"

enum {
    PAD_PULL_DOWN = 0x30E9,
    PAD_PULL_UP = 0xB0E9,
    PAD_CLOCK = 0x0031,
    ALT_ENET = 3,
    ALT_MDIO = 0,
    ALT_GPIO = 5,
    ALT_CLOCK_OUT = 6 | 0x10, /* and read back: the controller clocks itself with it */
    RESET_LOW_US = 1000,
    READY_US = 50000 /* from the reset's end to the first MDIO transfer: 2 ms by the data sheet, with room */
};

void rmii_start(void)
{
    static const struct {
        uint8_t pin, alt;
        uint16_t pad;
    } pins[] = {
        {4, ALT_ENET, PAD_PULL_DOWN},   /* RXD0: address bit 0 */
        {5, ALT_ENET, PAD_PULL_UP},     /* RXD1: slave */
        {6, ALT_ENET, PAD_PULL_DOWN},   /* CRS_DV: address bit 1 */
        {7, ALT_ENET, PAD_PULL_UP},     /* TXD0 */
        {8, ALT_ENET, PAD_PULL_UP},     /* TXD1 */
        {9, ALT_ENET, PAD_PULL_UP},     /* TX_EN */
        {10, ALT_CLOCK_OUT, PAD_CLOCK}, /* 50 MHz */
        {11, ALT_ENET, PAD_PULL_DOWN},  /* RX_ER: auto-MDIX */
        {14, ALT_MDIO, PAD_PULL_UP},    /* MDC */
        {15, ALT_MDIO, PAD_PULL_UP},    /* MDIO */
    };
    reg_change(GPR(1), GPR1_ENET1_CLK_SEL | GPR1_ENET_IPG_CLK_S_EN, GPR1_ENET1_TX_CLK_DIR);
    reg_write(MUX_B0_14, ALT_GPIO);
    reg_write(MUX_B0_15, ALT_GPIO);
    reg_set(GPIO7_GDIR, GPIO7_PHY_RESET | GPIO7_PHY_POWER);
    reg_write(GPIO7_DR_SET, GPIO7_PHY_POWER);
    reg_write(GPIO7_DR_CLEAR, GPIO7_PHY_RESET);
    for (unsigned i = 0; i < sizeof pins / sizeof *pins; i++) {
        reg_write(PAD_B1(pins[i].pin), pins[i].pad);
        reg_write(MUX_B1(pins[i].pin), pins[i].alt);
    }
    reg_write(SELECT_ENET_MDIO, 2);
    reg_write(SELECT_ENET_RXD0, 1);
    reg_write(SELECT_ENET_RXD1, 1);
    reg_write(SELECT_ENET_RXEN, 1);
    reg_write(SELECT_ENET_RXERR, 1);
    reg_write(SELECT_ENET_RMII_CLOCK, 1);
    reg_delay(RESET_LOW_US);
    reg_write(GPIO7_DR_SET, GPIO7_PHY_RESET);
    reg_delay(READY_US);
}
