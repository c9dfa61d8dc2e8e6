/*
 * The Teensy 4.1's drivers against a file of fake registers: a model of the parts of the RT1062, of its flash
 * and of a PHY that the drivers speak to, as far as the public register descriptions say. What the model
 * cannot show is whether it is right: docs/hardware.md has the list. What it does show: the order of steps,
 * that no ready bit is waited for without end, and that each failure has a name.
 */
#include "firmware/port/teensy41/chip.h"
#include "firmware/port/teensy41/clock.h"
#include "firmware/port/teensy41/console.h"
#include "firmware/port/teensy41/enet.h"
#include "firmware/port/teensy41/enet_regs.h"
#include "firmware/port/teensy41/flexspi.h"
#include "firmware/port/teensy41/reg.h"
#include "firmware/port/teensy41/rmii.h"
#include "firmware/port/teensy41/rt1062.h"
#include "firmware/port/teensy41/trng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

enum { REGISTERS = 1024, NOR_BYTES = 1 << 18, LOOK_CYCLES = 60 };

/* A bit that never comes (or never goes): what the hardware would do when it is broken. */
struct stuck {
    uint32_t address, mask, value;
};

static struct {
    struct {
        uint32_t address, value;
    } regs[REGISTERS];
    uint32_t n;
    uint64_t cycles;
    bool clock_stands;
    uint64_t looks; /* every access */
    struct stuck stuck;
    /* clocks */
    uint32_t busy_looks;
    uint32_t fastest_without_volts; /* Hz */
    bool pll_moved_under_core, bus_too_fast;
    /* watchdog */
    uint64_t fed_at, longest_unfed; /* cycles */
    /* random numbers */
    uint32_t word, failing_sets, sets;
    bool same_word;
    uint64_t set_at;
    /* flash */
    uint8_t nor[NOR_BYTES];
    bool enabled, refuses_enable, never_ready;
    uint64_t nor_busy_until;
    uint8_t fifo[FLEXSPI_PAGE + 8];
    uint32_t n_fifo, resets;
    uint8_t page_hit[NOR_BYTES / FLEXSPI_LINE]; /* lines dropped from the data cache */
    /* PHYs */
    uint32_t phy_at, phy_id;
    uint16_t phy[32];
    bool no_mdio, phy_gone;
    uint32_t phy_reset_low;
    /* console */
    char sent[4096];
    uint32_t n_sent;
    uint64_t sent_at;
} fake;

static uint32_t *slot(uint32_t address)
{
    static uint32_t last; /* found last time: loops look at one register */
    if (last < fake.n && fake.regs[last].address == address)
        return &fake.regs[last].value;
    for (uint32_t i = 0; i < fake.n; i++)
        if (fake.regs[i].address == address) {
            last = i;
            return &fake.regs[i].value;
        }
    assert_true(fake.n < REGISTERS);
    fake.regs[fake.n].address = address;
    fake.regs[fake.n].value = 0;
    return &fake.regs[fake.n++].value;
}

static void tick(void)
{
    fake.looks++;
    if (!fake.clock_stands)
        fake.cycles += LOOK_CYCLES;
    assert_true(fake.looks < 3000000000u);
}

uint32_t reg_cycles(void)
{
    tick();
    return (uint32_t)fake.cycles;
}

void reg_barrier(void)
{
}

/* ---- clocks ---- */

static uint32_t core_hz(void)
{
    uint32_t cbcdr = *slot(CCM_CBCDR), pll = *slot(PLL_ARM);
    if (cbcdr & CBCDR_PERIPH_CLK_SEL)
        return 24000000u;
    if (!(pll & PLL_ENABLE))
        return 0;
    return 12000000u * (pll & PLL_ARM_DIV) / ((*slot(CCM_CACRR) & 7) + 1);
}

/* The rules that must hold after every write. */
static void watch_clocks(void)
{
    uint32_t hz = core_hz(), ahb = (*slot(CCM_CBCDR) >> 10 & 7) + 1, ipg = (*slot(CCM_CBCDR) >> 8 & 3) + 1;
    if ((*slot(DCDC_REG3) & DCDC_REG3_TRG) < DCDC_TRG_1250_MV && hz > fake.fastest_without_volts)
        fake.fastest_without_volts = hz;
    if (hz / ahb / ipg > 150000000u)
        fake.bus_too_fast = true;
}

/* ---- flash behind FlexSPI ---- */

static void nor_command(void)
{
    uint32_t step = *slot(FLEXSPI_LUT(60)), code = step & 0xFF, offset = *slot(FLEXSPI_IPCR0);
    uint32_t n = *slot(FLEXSPI_IPCR1) & 0xFFFF;
    bool busy = fake.cycles < fake.nor_busy_until || fake.never_ready;
    assert_int_equal(*slot(FLEXSPI_LUTKEY), FLEXSPI_LUTKEY_VALUE);
    assert_int_equal(*slot(FLEXSPI_IPCR1) >> 16, 15);
    *slot(FLEXSPI_INTR) |= FLEXSPI_INTR_IPCMDDONE;
    if (code == 0x05) {
        *slot(FLEXSPI_RFDR0) = (busy ? 1u : 0u) | (fake.enabled ? 2u : 0u);
    } else if (code == 0x99) {
        fake.resets++;
        fake.never_ready = false;
        fake.nor_busy_until = 0;
        fake.enabled = false;
    } else if (busy) {
        return; /* a busy flash takes nothing else */
    } else if (code == 0x06) {
        fake.enabled = !fake.refuses_enable;
    } else if ((code == 0x20 || code == 0xD8) && fake.enabled) {
        uint32_t bytes = code == 0x20 ? FLEXSPI_SECTOR : FLEXSPI_BLOCK;
        assert_true(offset % bytes == 0 && offset + bytes <= NOR_BYTES);
        memset(fake.nor + offset, 0xFF, bytes);
        fake.enabled = false;
        fake.nor_busy_until = fake.cycles + (code == 0x20 ? 100000u : 1900000u) * (uint64_t)REG_CYCLES_PER_US;
    } else if (code == 0x02 && fake.enabled) {
        assert_true(n >= 1 && offset % FLEXSPI_PAGE + n <= FLEXSPI_PAGE);
        *slot(FLEXSPI_INTR) &= ~FLEXSPI_INTR_IPCMDDONE; /* not before all its bytes have come */
        *slot(FLEXSPI_INTR) |= FLEXSPI_INTR_IPTXWE;
        fake.n_fifo = 0;
    }
}

static void nor_take_fifo(void)
{
    uint32_t n = *slot(FLEXSPI_IPCR1) & 0xFFFF, offset = *slot(FLEXSPI_IPCR0);
    for (uint32_t i = 0; i < 8; i++)
        fake.fifo[fake.n_fifo++] = (uint8_t)(*slot(FLEXSPI_TFDR0 + 4 * (i / 4)) >> 8 * (i % 4));
    if (fake.n_fifo < n) {
        *slot(FLEXSPI_INTR) |= FLEXSPI_INTR_IPTXWE;
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        fake.nor[offset + i] &= fake.fifo[i];
    fake.enabled = false;
    fake.nor_busy_until = fake.cycles + 500u * REG_CYCLES_PER_US;
    *slot(FLEXSPI_INTR) |= FLEXSPI_INTR_IPCMDDONE;
}

/* ---- PHY ---- */

static void mdio(uint32_t frame)
{
    uint32_t address = frame >> 23 & 31, reg = frame >> 18 & 31;
    bool here = address == fake.phy_at && !fake.phy_gone;
    assert_int_equal(frame >> 30, 1);
    if (fake.no_mdio)
        return;
    if ((frame >> 28 & 3) == 1) {
        if (here)
            fake.phy[reg] = (uint16_t)frame;
    } else {
        uint32_t value = 0xFFFF;
        if (here)
            value = reg == 2 ? fake.phy_id >> 16 : reg == 3 ? fake.phy_id & 0xFFFF : fake.phy[reg];
        *slot(ENET_BASE + ENET_MMFR) = (frame & 0xFFFF0000u) | value;
    }
    *slot(ENET_BASE + ENET_EIR) |= ENET_EIR_MII;
}

/* ---- access ---- */

uint32_t reg_read(uint32_t address)
{
    tick();
    uint32_t value = *slot(address);
    switch (address) {
    case CCM_CDHIPR:
        if (fake.busy_looks) {
            fake.busy_looks--;
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
        if (value & MCTL_TRNG_ACC && fake.cycles >= fake.set_at)
            value |= fake.failing_sets ? MCTL_ERR : MCTL_ENT_VAL;
        break;
    case GPT1_CNT:
        value = *slot(GPT1_CR) & GPT_ON ? (uint32_t)(fake.cycles / REG_CYCLES_PER_US) : 0;
        break;
    case LPUART6_STAT:
        value = fake.cycles >= fake.sent_at ? LPUART_STAT_TDRE | LPUART_STAT_TC : 0;
        break;
    default:
        break;
    }
    if (address >= TRNG_ENT(0) && address <= TRNG_ENT(15)) {
        bool valid = *slot(TRNG_MCTL) & MCTL_TRNG_ACC && fake.cycles >= fake.set_at;
        value = !valid ? 0 : fake.same_word ? 0x5A5A5A5Au : ++fake.word;
        if (address == TRNG_ENT(15)) {
            fake.sets += valid;
            fake.set_at = fake.cycles + 55000u * (uint64_t)REG_CYCLES_PER_US;
        }
    }
    if (address == fake.stuck.address)
        value = (value & ~fake.stuck.mask) | fake.stuck.value;
    return value;
}

static void write_one_to_clear(uint32_t address, uint32_t value)
{
    *slot(address) &= ~value;
}

void reg_write(uint32_t address, uint32_t value)
{
    tick();
    if (address == PLL_ARM && !(*slot(CCM_CBCDR) & CBCDR_PERIPH_CLK_SEL))
        fake.pll_moved_under_core = true;
    switch (address) {
    case FLEXSPI_INTR: {
        bool hand_over = value == FLEXSPI_INTR_IPTXWE && *slot(address) & FLEXSPI_INTR_IPTXWE;
        write_one_to_clear(address, value);
        if (hand_over)
            nor_take_fifo();
        return;
    }
    case FLEXSPI_IPCMD:
        nor_command();
        return;
    case FLEXSPI_MCR0:
        *slot(address) = value & ~FLEXSPI_MCR0_SWRESET;
        return;
    case SCB_DCIMVAC:
        assert_true(value >= 0x60000000u && value < 0x60000000u + NOR_BYTES);
        fake.page_hit[(value - 0x60000000u) / FLEXSPI_LINE] = 1;
        return;
    case PLL_ENET_SET:
        *slot(PLL_ENET) |= value;
        return;
    case PLL_ENET_CLR:
        *slot(PLL_ENET) &= ~value;
        return;
    case TRNG_MCTL:
        if (value & MCTL_ERR && fake.failing_sets && *slot(address) & MCTL_TRNG_ACC) {
            fake.failing_sets--;
            fake.set_at = fake.cycles + 55000u * (uint64_t)REG_CYCLES_PER_US;
        }
        *slot(address) = value & ~MCTL_ERR;
        return;
    case ENET_BASE + ENET_EIR:
    case SRC_SRSR:
        write_one_to_clear(address, value);
        return;
    case ENET_BASE + ENET_MMFR:
        mdio(value);
        return;
    case ENET_BASE + ENET_ECR:
        *slot(address) = value & ~ENET_ECR_RESET;
        return;
    case LPUART6_DATA:
        assert_true(fake.n_sent < sizeof fake.sent);
        fake.sent[fake.n_sent++] = (char)value;
        fake.sent_at = fake.cycles + 87u * REG_CYCLES_PER_US;
        return;
    case GPIO7_DR_CLEAR:
        if (value & GPIO7_PHY_RESET)
            fake.phy_reset_low++;
        break;
    default:
        break;
    }
    *slot(address) = value;
    if (address == CCM_CBCDR || address == CCM_CACRR || address == CCM_CBCMR)
        fake.busy_looks = 20;
    watch_clocks();
}

void reg_write16(uint32_t address, uint32_t value)
{
    tick();
    if (address == WDOG1_WSR && value == 0xAAAA && *slot(address) == 0x5555) {
        if (fake.fed_at && fake.cycles - fake.fed_at > fake.longest_unfed)
            fake.longest_unfed = fake.cycles - fake.fed_at;
        fake.fed_at = fake.cycles;
    }
    *slot(address) = value & 0xFFFF;
}

/* The chip as the ROM leaves it: 396 MHz from the core's PLL (792 / 2), 1.15 V, buses by 4. */
static void new_chip(void)
{
    memset(&fake, 0, sizeof fake);
    memset(fake.nor, 0, sizeof fake.nor);
    *slot(PLL_ARM) = PLL_ENABLE | 66;
    *slot(CCM_CACRR) = 1;
    *slot(CCM_CBCDR) = CBCDR_IPG_BY_4;
    *slot(DCDC_REG3) = (1150 - 800) / 25;
    fake.phy_id = 0x2000A140u;
    fake.set_at = 0;
}

static void stick(uint32_t address, uint32_t mask, uint32_t value)
{
    fake.stuck = (struct stuck){address, mask, value};
}

/* ---- tests ---- */

static void clock_start_reaches_600_mhz_with_the_volts_first(void **state)
{
    (void)state;
    new_chip();
    clock_peripherals();
    assert_null(clock_start());
    assert_int_equal(core_hz(), CLOCK_CORE_HZ);
    assert_int_equal(core_hz() / ((*slot(CCM_CBCDR) >> 8 & 3) + 1), CLOCK_IPG_HZ);
    assert_int_equal(*slot(DCDC_REG3) & DCDC_REG3_TRG, 18);
    assert_int_equal(*slot(CCM_CBCMR) >> 18 & 3, 3);
    assert_true(fake.fastest_without_volts <= 396000000u);
    assert_false(fake.pll_moved_under_core);
    assert_false(fake.bus_too_fast);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(*slot(PIT_TCTRL(i)), 0);
}

static void every_ready_bit_of_the_clocks_has_a_limit_and_a_name(void **state)
{
    (void)state;
    static const struct {
        struct stuck stuck;
        const char *says;
    } cases[] = {
        {{DCDC_REG0, DCDC_REG0_STS_DC_OK, 0}, "voltage"},
        {{CCM_CDHIPR, CDHIPR_PERIPH2_CLK_SEL_BUSY, CDHIPR_PERIPH2_CLK_SEL_BUSY}, "select the crystal"},
        {{CCM_CDHIPR, CDHIPR_PERIPH_CLK_SEL_BUSY, CDHIPR_PERIPH_CLK_SEL_BUSY}, "move to the crystal"},
        {{PLL_ARM, PLL_LOCK, 0}, "core PLL"},
        {{CCM_CDHIPR, CDHIPR_ARM_PODF_BUSY, CDHIPR_ARM_PODF_BUSY}, "core divider"},
        {{CCM_CDHIPR, CDHIPR_AHB_PODF_BUSY, CDHIPR_AHB_PODF_BUSY}, "bus divider"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int stands = 0; stands < 2; stands++) {
            new_chip();
            fake.clock_stands = stands;
            stick(cases[i].stuck.address, cases[i].stuck.mask, cases[i].stuck.value);
            const char *failed = clock_start();
            assert_non_null(failed);
            assert_non_null(strstr(failed, cases[i].says));
            assert_true(fake.cycles < 50000u * (uint64_t)REG_CYCLES_PER_US);
            assert_true(core_hz() <= 396000000u);
        }
    new_chip();
    stick(PLL_ENET, PLL_LOCK, 0);
    assert_non_null(strstr(clock_ethernet(), "Ethernet PLL"));
}

static void ethernet_clock_ends_as_the_data_say(void **state)
{
    (void)state;
    new_chip();
    assert_null(clock_ethernet());
    assert_int_equal(reg_read(PLL_ENET), 0x80202001u);
    assert_true(*slot(CCM_CCGR(1)) & CCGR1_ENET);
}

static void flash_erases_and_programs_and_drops_the_cache(void **state)
{
    (void)state;
    uint8_t page[FLEXSPI_PAGE];
    for (uint32_t i = 0; i < sizeof page; i++)
        page[i] = (uint8_t)(i * 7 + 1);
    new_chip();
    assert_null(flexspi_erase(0x11000, FLEXSPI_SECTOR));
    for (uint32_t i = 0x11000; i < 0x12000; i++)
        assert_int_equal(fake.nor[i], 0xFF);
    assert_int_equal(fake.nor[0x10FFF], 0);
    assert_int_equal(fake.nor[0x12000], 0);
    for (uint32_t i = 0x11000 / FLEXSPI_LINE; i < 0x12000 / FLEXSPI_LINE; i++)
        assert_int_equal(fake.page_hit[i], 1);
    static const struct {
        uint32_t at, n;
    } parts[] = {{0x11000, 256}, {0x11101, 1}, {0x11203, 9}, {0x113F0, 16}, {0x11400, 255}};
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) {
        memset(fake.page_hit, 0, sizeof fake.page_hit);
        assert_null(flexspi_program(parts[i].at, page, parts[i].n));
        assert_memory_equal(fake.nor + parts[i].at, page, parts[i].n);
        assert_int_equal(fake.page_hit[parts[i].at / FLEXSPI_LINE], 1);
        assert_int_equal(fake.page_hit[(parts[i].at + parts[i].n - 1) / FLEXSPI_LINE], 1);
    }
    assert_int_equal(fake.nor[0x11100], 0xFF);
    assert_int_equal(fake.nor[0x11102], 0xFF);
    assert_int_equal(fake.nor[0x1120C], 0xFF);
    assert_null(flexspi_erase(0x10000, FLEXSPI_BLOCK));
    assert_int_equal(fake.nor[0x10000], 0xFF);
    assert_int_equal(fake.nor[0x1FFFF], 0xFF);
    assert_int_equal(fake.nor[0x20000], 0);
    assert_int_equal(fake.resets, 0);
}

static void a_long_erase_feeds_the_watchdog(void **state)
{
    (void)state;
    new_chip();
    assert_null(flexspi_erase(0, FLEXSPI_BLOCK)); /* 1.9 s */
    assert_true(fake.cycles > 1900000u * (uint64_t)REG_CYCLES_PER_US);
    assert_true(fake.longest_unfed > 0);
    assert_true(fake.longest_unfed < 10000u * (uint64_t)REG_CYCLES_PER_US);
}

static void a_flash_that_does_not_answer_is_named_and_reset(void **state)
{
    (void)state;
    uint8_t byte = 0;
    new_chip();
    fake.never_ready = true;
    assert_non_null(strstr(flexspi_program(0, &byte, 1), "busy before"));
    assert_int_equal(fake.resets, 1);
    new_chip();
    fake.refuses_enable = true;
    assert_non_null(strstr(flexspi_erase(0, FLEXSPI_SECTOR), "write enable"));
    new_chip();
    stick(FLEXSPI_INTR, FLEXSPI_INTR_IPCMDDONE, 0);
    assert_non_null(flexspi_erase(0, FLEXSPI_SECTOR));
    new_chip();
    stick(FLEXSPI_INTR, FLEXSPI_INTR_IPCMDERR, FLEXSPI_INTR_IPCMDERR);
    assert_non_null(flexspi_program(0, &byte, 1));
    new_chip();
    stick(FLEXSPI_MCR0, FLEXSPI_MCR0_SWRESET, FLEXSPI_MCR0_SWRESET);
    assert_non_null(strstr(flexspi_erase(0, FLEXSPI_SECTOR), "FlexSPI does not come out"));
    /* The erase began, and its end is never seen. */
    new_chip();
    stick(FLEXSPI_RFDR0, 1, 0);
    stick(FLEXSPI_RFDR0, 0, 0);
    fake.clock_stands = true;
    fake.nor_busy_until = UINT64_MAX;
    assert_non_null(strstr(flexspi_erase(0, FLEXSPI_SECTOR), "busy"));
    assert_int_equal(fake.resets, 1);
}

static void random_sets_are_used_once_and_the_first_is_thrown_away(void **state)
{
    (void)state;
    uint8_t bytes[200], more[64];
    new_chip();
    assert_null(trng_start());
    assert_int_equal(*slot(TRNG_SDCTL), (3200u << 16) | 2500u);
    uint32_t sets = fake.sets;
    assert_true(sets >= 1);
    assert_null(trng_read(bytes, sizeof bytes));
    assert_int_equal(fake.sets, sets + 4);
    assert_null(trng_read(more, sizeof more));
    assert_int_equal(fake.sets, sets + 5);
    /* The model counts its words up: no word comes twice, none is left from the ROM's set. */
    for (uint32_t i = 0; i + 4 < sizeof bytes; i += 4)
        assert_memory_not_equal(bytes + i, bytes + i + 4, 4);
    assert_memory_not_equal(bytes, more, sizeof more);
}

static void a_failing_random_generator_gives_no_bytes(void **state)
{
    (void)state;
    uint8_t bytes[32];
    new_chip();
    assert_null(trng_start());
    fake.failing_sets = 1;
    assert_null(trng_read(bytes, sizeof bytes)); /* once is chance */
    fake.failing_sets = 100;
    assert_non_null(strstr(trng_read(bytes, sizeof bytes), "its own tests"));
    fake.failing_sets = 0;
    fake.same_word = true;
    assert_non_null(strstr(trng_read(bytes, sizeof bytes), "again and again"));
    fake.same_word = false;
    stick(TRNG_MCTL, MCTL_ENT_VAL, 0);
    assert_non_null(strstr(trng_read(bytes, sizeof bytes), "no set"));
    new_chip();
    stick(TRNG_MCTL, MCTL_ENT_VAL | MCTL_ERR, 0);
    fake.clock_stands = true;
    assert_non_null(strstr(trng_start(), "no set"));
}

static struct enet_memory memory;
static const uint8_t address[6] = {0x04, 0xE9, 0xE5, 1, 2, 3};

static void the_phy_is_found_at_any_address_and_told_by_its_id(void **state)
{
    (void)state;
    struct phy phy;
    static const uint32_t at[] = {0, 1, 2, 31};
    for (unsigned i = 0; i < sizeof at / sizeof *at; i++) {
        new_chip();
        fake.phy_at = at[i];
        assert_null(phy_start(&phy, ENET_BASE, CLOCK_IPG_HZ));
        assert_int_equal(phy.address, at[i]);
        assert_int_equal(phy.id, 0x2000A140u);
        assert_int_equal(fake.phy[0x17], 0x0081);
        assert_int_equal(fake.phy[0x18], 0x0280);
        assert_int_equal(fake.phy[0], 0x1200);
        /* 150 MHz / (2 * 30) = 2.5 MHz */
        assert_int_equal(*slot(ENET_BASE + ENET_MSCR) >> 1 & 0x3F, 29);
    }
    new_chip();
    fake.phy_at = 2;
    fake.phy_id = 0x0007C0D1u; /* QEMU's */
    assert_null(phy_start(&phy, ENET_BASE, CLOCK_IPG_HZ));
    assert_int_equal(fake.phy[0x17], 0);
    assert_int_equal(fake.phy[0], 0x1200);
}

static void a_silent_mdio_bus_and_an_empty_one_are_told_apart(void **state)
{
    (void)state;
    struct phy phy;
    new_chip();
    fake.no_mdio = true;
    assert_non_null(strstr(phy_start(&phy, ENET_BASE, CLOCK_IPG_HZ), "MDIO does not end"));
    new_chip();
    fake.phy_gone = true;
    assert_non_null(strstr(phy_start(&phy, ENET_BASE, CLOCK_IPG_HZ), "no PHY answers"));
    new_chip();
    fake.clock_stands = fake.no_mdio = true;
    assert_non_null(phy_start(&phy, ENET_BASE, CLOCK_IPG_HZ));
}

static void the_link_is_the_best_that_both_sides_offer(void **state)
{
    (void)state;
    static const struct {
        uint16_t status, partner;
        bool up, fast, full;
    } cases[] = {
        {0x7809, 0, false, false, false},      /* no cable */
        {0x780D, 0x01E1, false, false, false}, /* link, not yet negotiated */
        {0x782D, 0x01E1, true, true, true},    /* all */
        {0x782D, 0x00A1, true, true, false},   /* 100 half, 10 half */
        {0x782D, 0x0061, true, false, true},   /* 10 full */
        {0x782D, 0x0021, true, false, false},  /* 10 half */
        {0x782D, 0x0001, false, false, false}, /* nothing in common */
        {0xFFFF, 0x01E1, false, false, false}, /* PHY gone */
    };
    struct phy phy;
    new_chip();
    assert_null(phy_start(&phy, ENET_BASE, CLOCK_IPG_HZ));
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake.phy[1] = cases[i].status;
        fake.phy[5] = cases[i].partner;
        struct phy before = phy;
        bool changed = phy_poll(&phy);
        assert_int_equal(phy.up, cases[i].up);
        assert_int_equal(phy.fast, cases[i].fast);
        assert_int_equal(phy.full, cases[i].full);
        assert_int_equal(changed, before.up != phy.up || before.fast != phy.fast || before.full != phy.full);
        assert_false(phy_poll(&phy));
    }
    fake.phy[1] = 0x782D, fake.phy[5] = 0x01E1;
    assert_true(phy_poll(&phy));
    fake.no_mdio = true;
    assert_true(phy_poll(&phy));
    assert_false(phy.up);
}

static void start_ethernet(struct enet *enet, uint16_t partner)
{
    new_chip();
    fake.phy[1] = 0x782D;
    fake.phy[5] = partner;
    assert_null(enet_start(enet, ENET_BASE, &memory, address, CLOCK_IPG_HZ));
}

static void the_controller_follows_the_link(void **state)
{
    (void)state;
    struct enet enet;
    start_ethernet(&enet, 0x01E1);
    assert_null(enet_send_buffer(&enet));
    assert_true(enet_poll_link(&enet));
    assert_true(*slot(ENET_BASE + ENET_ECR) & ENET_ECR_ENABLE);
    assert_true(*slot(ENET_BASE + ENET_TCR) & ENET_TCR_FULL_DUPLEX);
    assert_false(*slot(ENET_BASE + ENET_RCR) & ENET_RCR_10_MBIT);
    assert_int_equal(*slot(ENET_BASE + ENET_PALR), 0x04E9E501u);
    assert_int_equal(*slot(ENET_BASE + ENET_PAUR), 0x02038808u);
    assert_non_null(enet_send_buffer(&enet));
    fake.phy[5] = 0x0021;
    assert_true(enet_poll_link(&enet));
    assert_false(*slot(ENET_BASE + ENET_TCR) & ENET_TCR_FULL_DUPLEX);
    assert_true(*slot(ENET_BASE + ENET_RCR) & ENET_RCR_10_MBIT);
    fake.phy[1] = 0x7809;
    assert_false(enet_poll_link(&enet));
    assert_false(*slot(ENET_BASE + ENET_ECR) & ENET_ECR_ENABLE);
    assert_null(enet_send_buffer(&enet));
    fake.phy[1] = 0x782D;
    assert_true(enet_poll_link(&enet));
    *slot(ENET_BASE + ENET_EIR) |= ENET_EIR_EBERR;
    assert_true(enet_poll_link(&enet));
    assert_int_equal(enet.restarts, 1);
    new_chip();
    stick(ENET_BASE + ENET_ECR, ENET_ECR_RESET, ENET_ECR_RESET);
    assert_non_null(strstr(enet_start(&enet, ENET_BASE, &memory, address, CLOCK_IPG_HZ), "reset"));
}

static void a_full_send_ring_refuses_and_does_not_wait(void **state)
{
    (void)state;
    struct enet enet;
    start_ethernet(&enet, 0x01E1);
    assert_true(enet_poll_link(&enet));
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < ENET_TX; i++) {
            uint8_t *buffer = enet_send_buffer(&enet);
            assert_ptr_equal(buffer, memory.tx_buffer[i]);
            enet_send(&enet, 60 + i);
            assert_int_equal(memory.tx[i].length, 60 + i);
            assert_int_equal(memory.tx[i].flags, 0x8C00 | (i == ENET_TX - 1 ? 0x2000 : 0));
        }
        uint64_t looks = fake.looks;
        assert_null(enet_send_buffer(&enet));
        assert_int_equal(fake.looks, looks);
        for (uint32_t i = 0; i < ENET_TX; i++)
            memory.tx[i].flags &= 0x7FFF; /* the controller has sent them */
    }
    assert_int_equal(enet.sent, 3 * ENET_TX);
    assert_int_equal(enet.refused, 3);
}

static void arrive(uint32_t i, uint16_t length, uint16_t flags)
{
    memory.rx[i].length = length;
    memory.rx[i].flags = (uint16_t)(flags | (memory.rx[i].flags & ENET_RX_WRAP));
}

static void damaged_frames_are_dropped_and_good_ones_lose_their_check_sequence(void **state)
{
    (void)state;
    struct enet enet;
    uint32_t n = 0;
    start_ethernet(&enet, 0x01E1);
    assert_true(enet_poll_link(&enet));
    assert_null(enet_receive(&enet, &n));
    arrive(0, 64, ENET_RX_LAST | 0x04);   /* check sequence */
    arrive(1, 64, ENET_RX_LAST | 0x02);   /* overrun */
    arrive(2, 1520, ENET_RX_LAST);        /* longer than a frame */
    arrive(3, 17, ENET_RX_LAST);          /* shorter than a header */
    arrive(4, 1536, 0);                   /* goes on in the next buffer */
    arrive(5, 1518, ENET_RX_LAST | 0x20); /* too long, says the controller */
    arrive(6, 64, ENET_RX_LAST);
    arrive(7, 1518, ENET_RX_LAST);
    assert_ptr_equal(enet_receive(&enet, &n), memory.rx_buffer[6]);
    assert_int_equal(n, 60);
    assert_int_equal(enet.damaged, 6);
    *slot(ENET_BASE + ENET_RDAR) = 0;
    enet_release(&enet);
    assert_int_equal(*slot(ENET_BASE + ENET_RDAR), ENET_ACTIVE);
    assert_ptr_equal(enet_receive(&enet, &n), memory.rx_buffer[7]);
    assert_int_equal(n, 1514);
    enet_release(&enet);
    assert_null(enet_receive(&enet, &n));
    assert_int_equal(enet.received, 2);
    for (uint32_t i = 0; i < ENET_RX; i++)
        assert_int_equal(memory.rx[i].flags, ENET_RX_EMPTY | (i == ENET_RX - 1 ? ENET_RX_WRAP : 0));
}

static void pads_are_set_before_the_phy_leaves_its_reset(void **state)
{
    (void)state;
    new_chip();
    rmii_start();
    assert_int_equal(fake.phy_reset_low, 1);
    assert_int_equal(*slot(MUX_B1(10)), 0x16);
    assert_int_equal(*slot(PAD_B1(4)), 0x30E9);
    assert_int_equal(*slot(PAD_B1(15)), 0xB0E9);
    assert_int_equal(*slot(MUX_B1(15)), 0);
    assert_int_equal(*slot(GPIO7_DR_SET), GPIO7_PHY_RESET);
    /* The last thing written but for the delay: every pad is older. */
    assert_int_equal(fake.regs[fake.n - 1].address, SELECT_ENET_RMII_CLOCK);
    assert_true(fake.cycles >= 50000u * (uint64_t)REG_CYCLES_PER_US);
}

static void the_console_never_waits_and_counts_what_it_drops(void **state)
{
    (void)state;
    char line[CONSOLE_RING * 2];
    memset(line, 'x', sizeof line);
    new_chip();
    console_start();
    console_write("hello\n", 6);
    console_flush();
    assert_int_equal(fake.n_sent, 6);
    assert_memory_equal(fake.sent, "hello\n", 6);
    stick(LPUART6_STAT, LPUART_STAT_TDRE | LPUART_STAT_TC, 0);
    uint64_t before = fake.cycles;
    console_write(line, sizeof line);
    assert_int_equal(console_dropped(), CONSOLE_RING);
    assert_true(fake.cycles - before < 1000u * (uint64_t)REG_CYCLES_PER_US);
    console_flush();
    assert_true(fake.cycles - before < 300000u * (uint64_t)REG_CYCLES_PER_US);
    fake.clock_stands = true;
    console_flush();
}

static void the_watchdog_is_on_for_8_seconds_and_its_sequence_is_right(void **state)
{
    (void)state;
    new_chip();
    *slot(WDOG3_CS) = WDOG3_CS_EN;
    chip_watchdog_start(8000);
    assert_int_equal(*slot(WDOG1_WCR) >> 8, 15);
    assert_int_equal(*slot(WDOG1_WCR) & 0x37, WCR_WDA | WCR_SRS | WCR_WDE | WCR_WDBG);
    assert_false(*slot(WDOG3_CS) & WDOG3_CS_EN);
    assert_int_equal(*slot(WDOG1_WSR), 0xAAAA);
}

static void temperature_is_a_line_through_two_burned_points(void **state)
{
    (void)state;
    new_chip();
    *slot(OCOTP_ANA1) = 0x55F4A369u; /* 25 degrees at 0x55F, 0x69 = 105 degrees at 0x4A3 */
    chip_temperature_start();
    assert_int_equal(chip_temperature(), CHIP_NO_TEMPERATURE);
    *slot(TEMPSENSE0) |= TEMPSENSE0_FINISHED | 0x55Fu << 8;
    assert_int_equal(chip_temperature(), 250);
    *slot(TEMPSENSE0) = TEMPSENSE0_FINISHED | 0x4A3u << 8;
    assert_int_equal(chip_temperature(), 1050);
    *slot(TEMPSENSE0) = TEMPSENSE0_FINISHED | 0x501u << 8;
    assert_int_equal(chip_temperature(), 650);
    *slot(OCOTP_ANA1) = 0;
    assert_int_equal(chip_temperature(), CHIP_NO_TEMPERATURE);
}

static void blank_fuses_give_a_local_address(void **state)
{
    (void)state;
    uint8_t mac[6];
    new_chip();
    *slot(OCOTP_MAC0) = 0xE50A0B0Cu;
    *slot(OCOTP_MAC1) = 0x000004E9u;
    assert_true(chip_mac(mac));
    assert_memory_equal(mac, "\x04\xE9\xE5\x0A\x0B\x0C", 6);
    new_chip();
    *slot(OCOTP_CFG0) = 0x12345678;
    assert_false(chip_mac(mac));
    assert_int_equal(mac[0] & 3, 2); /* local, one station */
}

static void the_reset_reason_is_told_once(void **state)
{
    (void)state;
    static const struct {
        uint32_t status;
        enum chip_reset cause;
    } cases[] = {{1, CHIP_RESET_POWER},           {0x11, CHIP_RESET_WATCHDOG}, {0x81, CHIP_RESET_WATCHDOG},
                 {3, CHIP_RESET_SOFTWARE},        {8, CHIP_RESET_BUTTON},      {0x40, CHIP_RESET_DEBUGGER},
                 {0x109, CHIP_RESET_TEMPERATURE}, {4, CHIP_RESET_SECURITY}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        new_chip();
        *slot(SRC_SRSR) = cases[i].status;
        assert_int_equal(chip_reset(), cases[i].cause);
        assert_int_equal(chip_reset(), CHIP_RESET_UNKNOWN);
    }
}

static void the_clock_counts_microseconds_of_the_crystal(void **state)
{
    (void)state;
    new_chip();
    *slot(CCM_CSCMR1) = 0x3F;
    *slot(CCM_CLPCR) = 0x79;
    clock_peripherals();
    assert_int_equal(*slot(CCM_CSCMR1) & 0x7F, 0x40); /* 24 MHz, by 1 */
    assert_int_equal(*slot(CCM_CLPCR), 0x78);
    assert_null(chip_timer_start());
    assert_int_equal(*slot(GPT1_PR), 23);
    assert_int_equal(*slot(GPT1_CR), 0x28B);
    fake.cycles = 1234567ull * REG_CYCLES_PER_US;
    assert_int_equal(chip_timer(), 1234567);
    new_chip();
    stick(GPT1_CNT, UINT32_MAX, 0);
    assert_non_null(strstr(chip_timer_start(), "does not count"));
    fake.clock_stands = true;
    assert_non_null(strstr(chip_timer_start(), "does not count"));
}

static void a_frame_between_arming_and_sleeping_is_seen(void **state)
{
    (void)state;
    struct enet enet;
    start_ethernet(&enet, 0x01E1);
    assert_true(enet_poll_link(&enet));
    *slot(ENET_BASE + ENET_EIR) |= ENET_EIR_RXF; /* of a frame that was taken */
    enet_interrupt(&enet, true);
    assert_int_equal(*slot(ENET_BASE + ENET_EIMR), ENET_EIR_RXF);
    assert_false(*slot(ENET_BASE + ENET_EIR) & ENET_EIR_RXF);
    assert_false(enet_waiting(&enet));
    arrive(0, 64, ENET_RX_LAST);
    assert_true(enet_waiting(&enet));
    enet_interrupt(&enet, false);
    assert_int_equal(*slot(ENET_BASE + ENET_EIMR), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clock_start_reaches_600_mhz_with_the_volts_first),
        cmocka_unit_test(every_ready_bit_of_the_clocks_has_a_limit_and_a_name),
        cmocka_unit_test(ethernet_clock_ends_as_the_data_say),
        cmocka_unit_test(flash_erases_and_programs_and_drops_the_cache),
        cmocka_unit_test(a_long_erase_feeds_the_watchdog),
        cmocka_unit_test(a_flash_that_does_not_answer_is_named_and_reset),
        cmocka_unit_test(random_sets_are_used_once_and_the_first_is_thrown_away),
        cmocka_unit_test(a_failing_random_generator_gives_no_bytes),
        cmocka_unit_test(the_phy_is_found_at_any_address_and_told_by_its_id),
        cmocka_unit_test(a_silent_mdio_bus_and_an_empty_one_are_told_apart),
        cmocka_unit_test(the_link_is_the_best_that_both_sides_offer),
        cmocka_unit_test(the_controller_follows_the_link),
        cmocka_unit_test(a_full_send_ring_refuses_and_does_not_wait),
        cmocka_unit_test(damaged_frames_are_dropped_and_good_ones_lose_their_check_sequence),
        cmocka_unit_test(pads_are_set_before_the_phy_leaves_its_reset),
        cmocka_unit_test(the_console_never_waits_and_counts_what_it_drops),
        cmocka_unit_test(the_watchdog_is_on_for_8_seconds_and_its_sequence_is_right),
        cmocka_unit_test(temperature_is_a_line_through_two_burned_points),
        cmocka_unit_test(blank_fuses_give_a_local_address),
        cmocka_unit_test(the_reset_reason_is_told_once),
        cmocka_unit_test(the_clock_counts_microseconds_of_the_crystal),
        cmocka_unit_test(a_frame_between_arming_and_sleeping_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
