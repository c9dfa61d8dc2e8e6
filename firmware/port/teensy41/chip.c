/*
 * Watchdog 1, LED, cycle counter, timer, temperature sensor, fuses, reset cause. Nothing here waits
 * longer than a millisecond.
 *
 * The watchdog's enable is write-once: a crash cannot turn it off. It stands while a debugger holds the core.
 */
#include "firmware/port/teensy41/chip.h"

#include "firmware/port/teensy41/reg.h"
#include "firmware/port/teensy41/rt1062.h"

#include <stddef.h>
#include <string.h>

enum { ALT_GPIO = 5, PAD_LED = 0x10B0, TIMER_TRIES = 1000 };

void chip_cycles_start(void)
{
    reg_set(DEMCR, DEMCR_TRCENA);
    reg_write(DWT_CYCCNT, 0);
    reg_set(DWT_CTRL, DWT_CTRL_CYCCNTENA);
}

void chip_watchdog_start(uint32_t ms)
{
    uint32_t halves = ms < 1000 ? 2 : ms > 128000 ? 256 : (ms + 499) / 500;
    reg_set(CCM_CCGR(3), CCGR3_WDOG1);
    reg_set(CCM_CCGR(5), CCGR5_WDOG3);
    if (reg_read(WDOG3_CS) & WDOG3_CS_EN) {
        uint32_t cs = reg_read(WDOG3_CS);
        reg_write(WDOG3_CNT, WDOG3_UNLOCK);
        reg_write(WDOG3_TOVAL, 0xFFFF);
        reg_write(WDOG3_CS, (cs & ~WDOG3_CS_EN) | WDOG3_CS_UPDATE);
    }
    reg_write16(WDOG1_WMCR, 0); /* the power-down counter that runs from reset */
    reg_write16(WDOG1_WICR, WICR_WIE | 1);
    reg_write16(WDOG1_WCR, (halves - 1) << 8 | WCR_WDA | WCR_SRS | WCR_WDBG | WCR_WDE);
    chip_watchdog_feed();
}

void chip_watchdog_feed(void)
{
    reg_write16(WDOG1_WSR, 0x5555);
    reg_write16(WDOG1_WSR, 0xAAAA);
}

void chip_led_start(void)
{
    for (uint32_t n = 26; n <= 29; n++) /* the fast ports: GPIO2 becomes GPIO7 */
        reg_write(GPR(n), 0xFFFFFFFFu);
    reg_write(MUX_B0_03, ALT_GPIO);
    reg_write(PAD_B0_03, PAD_LED);
    reg_set(GPIO7_GDIR, GPIO7_LED);
    chip_led(true);
}

void chip_led(bool on)
{
    reg_write(on ? GPIO7_DR_SET : GPIO7_DR_CLEAR, GPIO7_LED);
}

void chip_temperature_start(void)
{
    reg_set(CCM_CCGR(2), CCGR2_OCOTP);
    reg_change(TEMPSENSE0, TEMPSENSE0_POWER_DOWN, 0);
    reg_write(TEMPSENSE1, 0x1000); /* again every 0x1000 / 32,768 s */
    reg_set(TEMPSENSE0, TEMPSENSE0_MEASURE);
}

/* A line through the two points that the factory burned: 25 degrees, and `hot` degrees. */
int16_t chip_temperature(void)
{
    uint32_t sense = reg_read(TEMPSENSE0), points = reg_read(OCOTP_ANA1);
    int32_t hot = (int32_t)(points & 0xFF), hot_count = (int32_t)(points >> 8 & 0xFFF);
    int32_t room_count = (int32_t)(points >> 20), count = (int32_t)(sense >> 8 & 0xFFF);
    if (!(sense & TEMPSENSE0_FINISHED) || room_count == hot_count)
        return CHIP_NO_TEMPERATURE;
    int32_t tenths = hot * 10 - (count - hot_count) * (hot - 25) * 10 / (room_count - hot_count);
    return tenths < -1000 || tenths > 2000 ? CHIP_NO_TEMPERATURE : (int16_t)tenths;
}

bool chip_mac(uint8_t mac[6])
{
    reg_set(CCM_CCGR(2), CCGR2_OCOTP);
    uint32_t low = reg_read(OCOTP_MAC0), high = reg_read(OCOTP_MAC1) & 0xFFFF;
    bool burned = (low || high) && !(high >> 8 & 1);
    if (!burned) {
        low = reg_read(OCOTP_CFG0) * 2654435761u ^ reg_read(OCOTP_CFG1);
        high = 0x0200u | (low >> 13 & 0xFF);
    }
    const uint8_t address[6] = {(uint8_t)(high >> 8), (uint8_t)high,       (uint8_t)(low >> 24),
                                (uint8_t)(low >> 16), (uint8_t)(low >> 8), (uint8_t)low};
    memcpy(mac, address, sizeof address);
    return burned;
}

enum chip_reset chip_reset(void)
{
    static const struct {
        uint32_t bits;
        enum chip_reset cause;
    } causes[] = {
        /* The Teensy's loader chip holds the reset line at power-on too: the least telling cause comes last.
         */
        {SRSR_TEMPERATURE, CHIP_RESET_TEMPERATURE}, {SRSR_WATCHDOG | SRSR_WATCHDOG3, CHIP_RESET_WATCHDOG},
        {SRSR_SOFTWARE, CHIP_RESET_SOFTWARE},       {SRSR_SECURITY, CHIP_RESET_SECURITY},
        {SRSR_JTAG, CHIP_RESET_DEBUGGER},           {SRSR_BUTTON, CHIP_RESET_BUTTON},
        {SRSR_POWER_ON, CHIP_RESET_POWER},
    };
    uint32_t status = reg_read(SRC_SRSR);
    reg_write(SRC_SRSR, status);
    for (unsigned i = 0; i < sizeof causes / sizeof *causes; i++)
        if (status & causes[i].bits)
            return causes[i].cause;
    return CHIP_RESET_UNKNOWN;
}

const char *chip_timer_start(void)
{
    reg_set(CCM_CCGR(1), CCGR1_GPT1);
    reg_write(GPT1_CR, 0);
    reg_write(GPT1_IR, 0);
    reg_write(GPT1_PR, GPT_BY_24);
    reg_write(GPT1_CR, GPT_FREE_RUNNING | GPT_FROM_PERCLK | GPT_IN_WAIT | GPT_FROM_ZERO | GPT_ON);
    for (uint32_t i = 0; i < TIMER_TRIES; i++) {
        reg_delay(1);
        if (reg_read(GPT1_CNT) > 1)
            return NULL;
    }
    return "timer does not count";
}

uint32_t chip_timer(void)
{
    return reg_read(GPT1_CNT);
}

bool chip_loader_possible(void)
{
    reg_set(CCM_CCGR(2), CCGR2_OCOTP);
    return !(reg_read(OCOTP_CFG5) & OCOTP_CFG5_LOCKED);
}
