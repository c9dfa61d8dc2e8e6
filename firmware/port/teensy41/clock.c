/*
 * Clocks of the RT1062. Order matters: voltage before speed; the core stands on the crystal while its PLL is
 * changed; dividers are set before the core returns to the PLL, so that no bus is ever above its limit. The
 * flash's clock is the ROM's and stays. Each wait has a limit, and its failure a name.
 */
#include "firmware/port/teensy41/clock.h"

#include "firmware/port/teensy41/reg.h"
#include "firmware/port/teensy41/rt1062.h"

#include <stddef.h>

enum { VOLTAGE_US = 10000, HANDSHAKE_US = 1000, PLL_US = 10000, PLL_ARM_1200_MHZ = 100 };

void clock_peripherals(void)
{
    reg_change(CCM_CSCMR1, CSCMR1_PERCLK_PODF, CSCMR1_PERCLK_OSC);
    reg_change(CCM_CSCDR1, CSCDR1_UART_PODF, CSCDR1_UART_OSC);
    /* The ROM leaves its timers running. */
    reg_set(CCM_CCGR(1), CCGR1_PIT);
    reg_write(PIT_MCR, 0);
    for (uint32_t i = 0; i < 4; i++)
        reg_write(PIT_TCTRL(i), 0);
    /* A sleep (WFI) must not stop the buses: the Ethernet controller goes on writing to RAM. */
    reg_change(CCM_CLPCR, CLPCR_LPM, 0);
    /* The references keep to the bandgap: less noise in the PLLs. */
    reg_write(PMU_MISC0_SET, PMU_MISC0_SELFBIAS_OFF);
}

static const char *raise_voltage(void)
{
    reg_set(CCM_CCGR(6), CCGR6_DCDC);
    if ((reg_read(DCDC_REG3) & DCDC_REG3_TRG) >= DCDC_TRG_1250_MV)
        return NULL;
    reg_change(DCDC_REG3, DCDC_REG3_TRG, DCDC_TRG_1250_MV);
    if (!reg_wait(DCDC_REG0, DCDC_REG0_STS_DC_OK, DCDC_REG0_STS_DC_OK, VOLTAGE_US))
        return "core voltage does not settle at 1.25 V";
    return NULL;
}

static const char *stand_on_crystal(void)
{
    reg_change(CCM_CBCDR, CBCDR_PERIPH_CLK2_PODF, 0);
    reg_change(CCM_CBCMR, CBCMR_PERIPH_CLK2_SEL, CBCMR_PERIPH_CLK2_OSC);
    if (!reg_wait(CCM_CDHIPR, CDHIPR_PERIPH2_CLK_SEL_BUSY, 0, HANDSHAKE_US))
        return "clock does not select the crystal";
    reg_set(CCM_CBCDR, CBCDR_PERIPH_CLK_SEL);
    if (!reg_wait(CCM_CDHIPR, CDHIPR_PERIPH_CLK_SEL_BUSY, 0, HANDSHAKE_US))
        return "core does not move to the crystal";
    return NULL;
}

static const char *start_core_pll(void)
{
    reg_write(PLL_ARM, PLL_POWERDOWN);
    reg_write(PLL_ARM, PLL_ENABLE | PLL_ARM_1200_MHZ);
    if (!reg_wait(PLL_ARM, PLL_LOCK, PLL_LOCK, PLL_US))
        return "core PLL does not lock";
    return NULL;
}

static const char *set_dividers(void)
{
    reg_write(CCM_CACRR, 1);
    if (!reg_wait(CCM_CDHIPR, CDHIPR_ARM_PODF_BUSY, 0, HANDSHAKE_US))
        return "core divider does not take";
    reg_change(CCM_CBCDR, CBCDR_AHB_PODF, 0);
    if (!reg_wait(CCM_CDHIPR, CDHIPR_AHB_PODF_BUSY, 0, HANDSHAKE_US))
        return "bus divider does not take";
    reg_change(CCM_CBCDR, CBCDR_IPG_PODF, CBCDR_IPG_BY_4);
    return NULL;
}

static const char *stand_on_pll(void)
{
    reg_set(CCM_CBCMR, CBCMR_PRE_PERIPH_ARM_PLL);
    reg_change(CCM_CBCDR, CBCDR_PERIPH_CLK_SEL, 0);
    if (!reg_wait(CCM_CDHIPR, CDHIPR_PERIPH_CLK_SEL_BUSY, 0, HANDSHAKE_US))
        return "core does not move to its PLL";
    return NULL;
}

const char *clock_start(void)
{
    static const char *(*const steps[])(void) = {raise_voltage, stand_on_crystal, start_core_pll,
                                                 set_dividers, stand_on_pll};
    for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++) {
        const char *failed = steps[i]();
        if (failed)
            return failed;
    }
    return NULL;
}

const char *clock_ethernet(void)
{
    reg_set(CCM_CCGR(1), CCGR1_ENET);
    reg_write(PLL_ENET_CLR, PLL_POWERDOWN | PLL_BYPASS | PLL_ENET_DIV);
    reg_write(PLL_ENET_SET, PLL_ENABLE | PLL_BYPASS | PLL_ENET_25M_REF_EN | PLL_ENET_DIV_50_MHZ);
    if (!reg_wait(PLL_ENET, PLL_LOCK, PLL_LOCK, PLL_US))
        return "Ethernet PLL does not lock";
    reg_write(PLL_ENET_CLR, PLL_BYPASS);
    return NULL;
}
