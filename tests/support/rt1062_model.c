/*
 * The fake registers: plain ones keep what is written; a few act. Time moves with each look. What no driver
 * may do (an erase off its borders, a command to the flash by the ROM's sequence) is kept as `wrong`.
 */
#include "tests/support/rt1062_model.h"

#include "firmware/port/teensy41/enet_regs.h"
#include "firmware/port/teensy41/reg.h"
#include "firmware/port/teensy41/rt1062.h"

#include <string.h>

struct chip_model chip_model;

static void wrong(const char *what)
{
    if (chip_model.wrong == NULL)
        chip_model.wrong = what;
}

bool chip_model_nor_busy(void)
{
    return chip_model.cycles < chip_model.nor_busy_until || chip_model.never_ready;
}

uint32_t *chip_model_reg(uint32_t address)
{
    static uint32_t last; /* found last time: loops look at one register */
    if (last < chip_model.n && chip_model.regs[last].address == address)
        return &chip_model.regs[last].value;
    for (uint32_t i = 0; i < chip_model.n; i++)
        if (chip_model.regs[i].address == address) {
            last = i;
            return &chip_model.regs[i].value;
        }
    if (chip_model.n == CHIP_MODEL_REGISTERS) {
        wrong("more registers than the model has room for");
        return &chip_model.regs[0].value;
    }
    chip_model.regs[chip_model.n].address = address;
    chip_model.regs[chip_model.n].value = 0;
    return &chip_model.regs[chip_model.n++].value;
}

static void tick(void)
{
    chip_model.looks++;
    if (!chip_model.clock_stands)
        chip_model.cycles += chip_model.look_cycles;
}

uint32_t reg_cycles(void)
{
    tick();
    return (uint32_t)chip_model.cycles;
}

void reg_barrier(void)
{
}

/* ---- clocks ---- */

uint32_t chip_model_core_hz(void)
{
    uint32_t cbcdr = *chip_model_reg(CCM_CBCDR), pll = *chip_model_reg(PLL_ARM);
    if (cbcdr & CBCDR_PERIPH_CLK_SEL)
        return 24000000u;
    if (!(pll & PLL_ENABLE))
        return 0;
    return 12000000u * (pll & PLL_ARM_DIV) / ((*chip_model_reg(CCM_CACRR) & 7) + 1);
}

/* The rules that must hold after every write. */
static void watch_clocks(void)
{
    uint32_t hz = chip_model_core_hz(), ahb = (*chip_model_reg(CCM_CBCDR) >> 10 & 7) + 1,
             ipg = (*chip_model_reg(CCM_CBCDR) >> 8 & 3) + 1;
    if ((*chip_model_reg(DCDC_REG3) & DCDC_REG3_TRG) < DCDC_TRG_1250_MV &&
        hz > chip_model.fastest_without_volts)
        chip_model.fastest_without_volts = hz;
    if (hz / ahb / ipg > 150000000u)
        chip_model.bus_too_fast = true;
}

/* ---- flash behind FlexSPI ---- */

static void nor_command(void)
{
    uint32_t step = *chip_model_reg(FLEXSPI_LUT(60)), code = step & 0xFF,
             offset = *chip_model_reg(FLEXSPI_IPCR0);
    uint32_t n = *chip_model_reg(FLEXSPI_IPCR1) & 0xFFFF;
    bool busy = chip_model_nor_busy();
    if (*chip_model_reg(FLEXSPI_LUTKEY) != FLEXSPI_LUTKEY_VALUE || *chip_model_reg(FLEXSPI_IPCR1) >> 16 != 15)
        wrong("a flash command without the key, or by another sequence than 15");
    *chip_model_reg(FLEXSPI_INTR) |= FLEXSPI_INTR_IPCMDDONE;
    if (code == 0x05) {
        *chip_model_reg(FLEXSPI_RFDR0) = (busy ? 1u : 0u) | (chip_model.enabled ? 2u : 0u);
    } else if (code == 0x99) {
        chip_model.resets++;
        chip_model.never_ready = false;
        chip_model.nor_busy_until = 0;
        chip_model.enabled = false;
    } else if (busy) {
        return; /* a busy flash takes nothing else */
    } else if (code == 0x06) {
        chip_model.enabled = !chip_model.refuses_enable;
    } else if ((code == 0x20 || code == 0xD8) && chip_model.enabled) {
        uint32_t bytes = code == 0x20 ? FLEXSPI_SECTOR : FLEXSPI_BLOCK;
        if (offset % bytes != 0 || offset + bytes > CHIP_MODEL_NOR) {
            wrong("an erase off its borders");
            return;
        }
        memset(chip_model.nor + offset, 0xFF, bytes);
        chip_model.erases++;
        chip_model.enabled = false;
        chip_model.nor_busy_until =
            chip_model.cycles + (code == 0x20 ? 100000u : 1900000u) * (uint64_t)REG_CYCLES_PER_US;
    } else if (code == 0x02 && chip_model.enabled) {
        if (n < 1 || offset % FLEXSPI_PAGE + n > FLEXSPI_PAGE || offset >= CHIP_MODEL_NOR) {
            wrong("a program over the end of its page");
            return;
        }
        *chip_model_reg(FLEXSPI_INTR) &= ~FLEXSPI_INTR_IPCMDDONE; /* not before all its bytes have come */
        *chip_model_reg(FLEXSPI_INTR) |= FLEXSPI_INTR_IPTXWE;
        chip_model.n_fifo = 0;
    }
}

static void nor_take_fifo(void)
{
    uint32_t n = *chip_model_reg(FLEXSPI_IPCR1) & 0xFFFF, offset = *chip_model_reg(FLEXSPI_IPCR0);
    for (uint32_t i = 0; i < 8; i++)
        chip_model.fifo[chip_model.n_fifo++] =
            (uint8_t)(*chip_model_reg(FLEXSPI_TFDR0 + 4 * (i / 4)) >> 8 * (i % 4));
    if (chip_model.n_fifo < n) {
        *chip_model_reg(FLEXSPI_INTR) |= FLEXSPI_INTR_IPTXWE;
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        chip_model.nor[offset + i] &= chip_model.fifo[i];
    chip_model.programs++;
    chip_model.enabled = false;
    chip_model.nor_busy_until = chip_model.cycles + 500u * REG_CYCLES_PER_US;
    *chip_model_reg(FLEXSPI_INTR) |= FLEXSPI_INTR_IPCMDDONE;
}

/* ---- PHY ---- */

static void mdio(uint32_t frame)
{
    uint32_t address = frame >> 23 & 31, reg = frame >> 18 & 31;
    bool here = address == chip_model.phy_at && !chip_model.phy_gone;
    if (frame >> 30 != 1)
        wrong("an MDIO frame without its start");
    if (chip_model.no_mdio)
        return;
    if ((frame >> 28 & 3) == 1) {
        if (here)
            chip_model.phy[reg] = (uint16_t)frame;
    } else {
        uint32_t value = 0xFFFF;
        if (here)
            value = reg == 2   ? chip_model.phy_id >> 16
                    : reg == 3 ? chip_model.phy_id & 0xFFFF
                               : chip_model.phy[reg];
        *chip_model_reg(ENET_BASE + ENET_MMFR) = (frame & 0xFFFF0000u) | value;
    }
    *chip_model_reg(ENET_BASE + ENET_EIR) |= ENET_EIR_MII;
}

/* ---- access ---- */

uint32_t reg_read(uint32_t address)
{
    tick();
    uint32_t value = *chip_model_reg(address);
    switch (address) {
    case CCM_CDHIPR:
        if (chip_model.busy_looks) {
            chip_model.busy_looks--;
            value = CDHIPR_ARM_PODF_BUSY | CDHIPR_PERIPH_CLK_SEL_BUSY | CDHIPR_PERIPH2_CLK_SEL_BUSY |
                    CDHIPR_AHB_PODF_BUSY;
        }
        break;
    case PLL_ARM:
    case PLL_ENET:
        if (value & PLL_ENABLE && !(value & PLL_POWERDOWN))
            value |= PLL_LOCK;
        break;
    case DCDC_REG0:
        value |= DCDC_REG0_STS_DC_OK;
        break;
    case TRNG_MCTL:
        if (value & MCTL_TRNG_ACC && chip_model.cycles >= chip_model.set_at)
            value |= chip_model.failing_sets ? MCTL_ERR : MCTL_ENT_VAL;
        break;
    case DWT_CYCCNT:
        if (*chip_model_reg(DEMCR) & DEMCR_TRCENA && *chip_model_reg(DWT_CTRL) & DWT_CTRL_CYCCNTENA)
            value = (uint32_t)chip_model.cycles;
        break;
    case GPT1_CNT:
        value = *chip_model_reg(GPT1_CR) & GPT_ON ? (uint32_t)(chip_model.cycles / REG_CYCLES_PER_US) : 0;
        break;
    case LPUART6_STAT:
        value = chip_model.cycles >= chip_model.sent_at ? LPUART_STAT_TDRE | LPUART_STAT_TC : 0;
        break;
    default:
        break;
    }
    if (address >= TRNG_ENT(0) && address <= TRNG_ENT(15)) {
        bool valid = *chip_model_reg(TRNG_MCTL) & MCTL_TRNG_ACC && chip_model.cycles >= chip_model.set_at;
        value = !valid ? 0 : chip_model.same_word ? 0x5A5A5A5Au : ++chip_model.word;
        if (address == TRNG_ENT(15)) {
            chip_model.sets += valid;
            chip_model.set_at = chip_model.cycles + 55000u * (uint64_t)REG_CYCLES_PER_US;
        }
    }
    if (address == chip_model.stuck.address)
        value = (value & ~chip_model.stuck.mask) | chip_model.stuck.value;
    return value;
}

static void write_one_to_clear(uint32_t address, uint32_t value)
{
    *chip_model_reg(address) &= ~value;
}

void reg_write(uint32_t address, uint32_t value)
{
    tick();
    if (address == PLL_ARM && !(*chip_model_reg(CCM_CBCDR) & CBCDR_PERIPH_CLK_SEL))
        chip_model.pll_moved_under_core = true;
    switch (address) {
    case FLEXSPI_INTR: {
        bool hand_over = value == FLEXSPI_INTR_IPTXWE && *chip_model_reg(address) & FLEXSPI_INTR_IPTXWE;
        write_one_to_clear(address, value);
        if (hand_over)
            nor_take_fifo();
        return;
    }
    case FLEXSPI_IPCMD:
        nor_command();
        return;
    case FLEXSPI_MCR0:
        *chip_model_reg(address) = value & ~FLEXSPI_MCR0_SWRESET;
        return;
    case SCB_DCIMVAC:
        if (value < 0x60000000u || value >= 0x60000000u + CHIP_MODEL_NOR) {
            wrong("a cache line is dropped that is not of the flash");
            return;
        }
        chip_model.page_hit[(value - 0x60000000u) / FLEXSPI_LINE] = 1;
        return;
    case PLL_ENET_SET:
        *chip_model_reg(PLL_ENET) |= value;
        return;
    case PLL_ENET_CLR:
        *chip_model_reg(PLL_ENET) &= ~value;
        return;
    case TRNG_MCTL:
        if (value & MCTL_ERR && chip_model.failing_sets && *chip_model_reg(address) & MCTL_TRNG_ACC) {
            chip_model.failing_sets--;
            chip_model.set_at = chip_model.cycles + 55000u * (uint64_t)REG_CYCLES_PER_US;
        }
        *chip_model_reg(address) = value & ~MCTL_ERR;
        return;
    case ENET_BASE + ENET_EIR:
    case SRC_SRSR:
        write_one_to_clear(address, value);
        return;
    case ENET_BASE + ENET_MMFR:
        mdio(value);
        return;
    case ENET_BASE + ENET_ECR:
        *chip_model_reg(address) = value & ~ENET_ECR_RESET;
        return;
    case LPUART6_DATA:
        if (chip_model.n_sent == sizeof chip_model.sent) {
            wrong("more text than the model keeps");
            return;
        }
        chip_model.sent[chip_model.n_sent++] = (char)value;
        chip_model.sent_at = chip_model.cycles + 87u * REG_CYCLES_PER_US;
        return;
    case GPIO7_DR_CLEAR:
        if (value & GPIO7_PHY_RESET)
            chip_model.phy_reset_low++;
        break;
    default:
        break;
    }
    *chip_model_reg(address) = value;
    if (address == CCM_CBCDR || address == CCM_CACRR || address == CCM_CBCMR)
        chip_model.busy_looks = 20;
    watch_clocks();
}

void reg_write16(uint32_t address, uint32_t value)
{
    tick();
    if (address == WDOG1_WSR && value == 0xAAAA && *chip_model_reg(address) == 0x5555) {
        if (chip_model.fed_at && chip_model.cycles - chip_model.fed_at > chip_model.longest_unfed)
            chip_model.longest_unfed = chip_model.cycles - chip_model.fed_at;
        chip_model.fed_at = chip_model.cycles;
    }
    *chip_model_reg(address) = value & 0xFFFF;
}

/* The chip as the ROM leaves it: 396 MHz from the core's PLL (792 / 2), 1.15 V, buses by 4. */
void chip_model_reset(void)
{
    static uint8_t nor[CHIP_MODEL_NOR];
    memset(&chip_model, 0, sizeof chip_model);
    memset(nor, 0, sizeof nor);
    chip_model.nor = nor;
    chip_model.look_cycles = 60;
    *chip_model_reg(PLL_ARM) = PLL_ENABLE | 66;
    *chip_model_reg(CCM_CACRR) = 1;
    *chip_model_reg(CCM_CBCDR) = CBCDR_IPG_BY_4;
    *chip_model_reg(DCDC_REG3) = (1150 - 800) / 25;
    chip_model.phy_id = 0x2000A140u;
    chip_model.set_at = 0;
}
