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
#include "tests/support/rt1062_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static void stick(uint32_t address, uint32_t mask, uint32_t value)
{
    chip_model.stuck = (struct chip_stuck){address, mask, value};
}

/* ---- tests ---- */

static void clock_start_reaches_600_mhz_with_the_volts_first(void **state)
{
    (void)state;
    chip_model_reset();
    clock_peripherals();
    assert_null(clock_start());
    assert_int_equal(chip_model_core_hz(), CLOCK_CORE_HZ);
    assert_int_equal(chip_model_core_hz() / ((*chip_model_reg(CCM_CBCDR) >> 8 & 3) + 1), CLOCK_IPG_HZ);
    assert_int_equal(*chip_model_reg(DCDC_REG3) & DCDC_REG3_TRG, 18);
    assert_int_equal(*chip_model_reg(CCM_CBCMR) >> 18 & 3, 3);
    assert_true(chip_model.fastest_without_volts <= 396000000u);
    assert_false(chip_model.pll_moved_under_core);
    assert_false(chip_model.bus_too_fast);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(*chip_model_reg(PIT_TCTRL(i)), 0);
}

static void every_ready_bit_of_the_clocks_has_a_limit_and_a_name(void **state)
{
    (void)state;
    static const struct {
        struct chip_stuck stuck;
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
            chip_model_reset();
            chip_model.clock_stands = stands;
            stick(cases[i].stuck.address, cases[i].stuck.mask, cases[i].stuck.value);
            const char *failed = clock_start();
            assert_non_null(failed);
            assert_non_null(strstr(failed, cases[i].says));
            assert_true(chip_model.cycles < 50000u * (uint64_t)REG_CYCLES_PER_US);
            assert_true(chip_model_core_hz() <= 396000000u);
        }
    chip_model_reset();
    stick(PLL_ENET, PLL_LOCK, 0);
    assert_non_null(strstr(clock_ethernet(), "Ethernet PLL"));
}

static void ethernet_clock_ends_as_the_data_say(void **state)
{
    (void)state;
    chip_model_reset();
    assert_null(clock_ethernet());
    assert_int_equal(reg_read(PLL_ENET), 0x80202001u);
    assert_true(*chip_model_reg(CCM_CCGR(1)) & CCGR1_ENET);
}

static void flash_erases_and_programs_and_drops_the_cache(void **state)
{
    (void)state;
    uint8_t page[FLEXSPI_PAGE];
    for (uint32_t i = 0; i < sizeof page; i++)
        page[i] = (uint8_t)(i * 7 + 1);
    chip_model_reset();
    assert_null(flexspi_erase(0x11000, FLEXSPI_SECTOR));
    for (uint32_t i = 0x11000; i < 0x12000; i++)
        assert_int_equal(chip_model.nor[i], 0xFF);
    assert_int_equal(chip_model.nor[0x10FFF], 0);
    assert_int_equal(chip_model.nor[0x12000], 0);
    for (uint32_t i = 0x11000 / FLEXSPI_LINE; i < 0x12000 / FLEXSPI_LINE; i++)
        assert_int_equal(chip_model.page_hit[i], 1);
    static const struct {
        uint32_t at, n;
    } parts[] = {{0x11000, 256}, {0x11101, 1}, {0x11203, 9}, {0x113F0, 16}, {0x11400, 255}};
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) {
        memset(chip_model.page_hit, 0, sizeof chip_model.page_hit);
        assert_null(flexspi_program(parts[i].at, page, parts[i].n));
        assert_memory_equal(chip_model.nor + parts[i].at, page, parts[i].n);
        assert_int_equal(chip_model.page_hit[parts[i].at / FLEXSPI_LINE], 1);
        assert_int_equal(chip_model.page_hit[(parts[i].at + parts[i].n - 1) / FLEXSPI_LINE], 1);
    }
    assert_int_equal(chip_model.nor[0x11100], 0xFF);
    assert_int_equal(chip_model.nor[0x11102], 0xFF);
    assert_int_equal(chip_model.nor[0x1120C], 0xFF);
    assert_null(flexspi_erase(0x10000, FLEXSPI_BLOCK));
    assert_int_equal(chip_model.nor[0x10000], 0xFF);
    assert_int_equal(chip_model.nor[0x1FFFF], 0xFF);
    assert_int_equal(chip_model.nor[0x20000], 0);
    assert_int_equal(chip_model.resets, 0);
}

static void a_long_erase_feeds_the_watchdog(void **state)
{
    (void)state;
    chip_model_reset();
    assert_null(flexspi_erase(0, FLEXSPI_BLOCK)); /* 1.9 s */
    assert_true(chip_model.cycles > 1900000u * (uint64_t)REG_CYCLES_PER_US);
    assert_true(chip_model.longest_unfed > 0);
    assert_true(chip_model.longest_unfed < 10000u * (uint64_t)REG_CYCLES_PER_US);
}

static void a_flash_that_does_not_answer_is_named_and_reset(void **state)
{
    (void)state;
    uint8_t byte = 0;
    chip_model_reset();
    chip_model.never_ready = true;
    assert_non_null(strstr(flexspi_program(0, &byte, 1), "busy before"));
    assert_int_equal(chip_model.resets, 1);
    chip_model_reset();
    chip_model.refuses_enable = true;
    assert_non_null(strstr(flexspi_erase(0, FLEXSPI_SECTOR), "write enable"));
    chip_model_reset();
    stick(FLEXSPI_INTR, FLEXSPI_INTR_IPCMDDONE, 0);
    assert_non_null(flexspi_erase(0, FLEXSPI_SECTOR));
    chip_model_reset();
    stick(FLEXSPI_INTR, FLEXSPI_INTR_IPCMDERR, FLEXSPI_INTR_IPCMDERR);
    assert_non_null(flexspi_program(0, &byte, 1));
    chip_model_reset();
    stick(FLEXSPI_MCR0, FLEXSPI_MCR0_SWRESET, FLEXSPI_MCR0_SWRESET);
    assert_non_null(strstr(flexspi_erase(0, FLEXSPI_SECTOR), "FlexSPI does not come out"));
    /* The erase began, and its end is never seen. */
    chip_model_reset();
    stick(FLEXSPI_RFDR0, 1, 0);
    stick(FLEXSPI_RFDR0, 0, 0);
    chip_model.clock_stands = true;
    chip_model.nor_busy_until = UINT64_MAX;
    assert_non_null(strstr(flexspi_erase(0, FLEXSPI_SECTOR), "busy"));
    assert_int_equal(chip_model.resets, 1);
}

static void random_sets_are_used_once_and_the_first_is_thrown_away(void **state)
{
    (void)state;
    uint8_t bytes[200], more[64];
    chip_model_reset();
    assert_null(trng_start());
    assert_int_equal(*chip_model_reg(TRNG_SDCTL), (3200u << 16) | 2500u);
    uint32_t sets = chip_model.sets;
    assert_true(sets >= 1);
    assert_null(trng_read(bytes, sizeof bytes));
    assert_int_equal(chip_model.sets, sets + 4);
    assert_null(trng_read(more, sizeof more));
    assert_int_equal(chip_model.sets, sets + 5);
    /* The model counts its words up: no word comes twice, none is left from the ROM's set. */
    for (uint32_t i = 0; i + 4 < sizeof bytes; i += 4)
        assert_memory_not_equal(bytes + i, bytes + i + 4, 4);
    assert_memory_not_equal(bytes, more, sizeof more);
}

static void a_failing_random_generator_gives_no_bytes(void **state)
{
    (void)state;
    uint8_t bytes[32];
    chip_model_reset();
    assert_null(trng_start());
    chip_model.failing_sets = 1;
    assert_null(trng_read(bytes, sizeof bytes)); /* once is chance */
    chip_model.failing_sets = 100;
    assert_non_null(strstr(trng_read(bytes, sizeof bytes), "its own tests"));
    chip_model.failing_sets = 0;
    chip_model.same_word = true;
    assert_non_null(strstr(trng_read(bytes, sizeof bytes), "again and again"));
    chip_model.same_word = false;
    stick(TRNG_MCTL, MCTL_ENT_VAL, 0);
    assert_non_null(strstr(trng_read(bytes, sizeof bytes), "no set"));
    chip_model_reset();
    stick(TRNG_MCTL, MCTL_ENT_VAL | MCTL_ERR, 0);
    chip_model.clock_stands = true;
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
        chip_model_reset();
        chip_model.phy_at = at[i];
        assert_null(phy_start(&phy, ENET_BASE, CLOCK_IPG_HZ));
        assert_int_equal(phy.address, at[i]);
        assert_int_equal(phy.id, 0x2000A140u);
        assert_int_equal(chip_model.phy[0x17], 0x0081);
        assert_int_equal(chip_model.phy[0x18], 0x0280);
        assert_int_equal(chip_model.phy[0], 0x1200);
        /* 150 MHz / (2 * 30) = 2.5 MHz */
        assert_int_equal(*chip_model_reg(ENET_BASE + ENET_MSCR) >> 1 & 0x3F, 29);
    }
    chip_model_reset();
    chip_model.phy_at = 2;
    chip_model.phy_id = 0x0007C0D1u; /* QEMU's */
    assert_null(phy_start(&phy, ENET_BASE, CLOCK_IPG_HZ));
    assert_int_equal(chip_model.phy[0x17], 0);
    assert_int_equal(chip_model.phy[0], 0x1200);
}

static void a_silent_mdio_bus_and_an_empty_one_are_told_apart(void **state)
{
    (void)state;
    struct phy phy;
    chip_model_reset();
    chip_model.no_mdio = true;
    assert_non_null(strstr(phy_start(&phy, ENET_BASE, CLOCK_IPG_HZ), "MDIO does not end"));
    chip_model_reset();
    chip_model.phy_gone = true;
    assert_non_null(strstr(phy_start(&phy, ENET_BASE, CLOCK_IPG_HZ), "no PHY answers"));
    chip_model_reset();
    chip_model.clock_stands = chip_model.no_mdio = true;
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
    chip_model_reset();
    assert_null(phy_start(&phy, ENET_BASE, CLOCK_IPG_HZ));
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        chip_model.phy[1] = cases[i].status;
        chip_model.phy[5] = cases[i].partner;
        struct phy before = phy;
        bool changed = phy_poll(&phy);
        assert_int_equal(phy.up, cases[i].up);
        assert_int_equal(phy.fast, cases[i].fast);
        assert_int_equal(phy.full, cases[i].full);
        assert_int_equal(changed, before.up != phy.up || before.fast != phy.fast || before.full != phy.full);
        assert_false(phy_poll(&phy));
    }
    chip_model.phy[1] = 0x782D, chip_model.phy[5] = 0x01E1;
    assert_true(phy_poll(&phy));
    chip_model.no_mdio = true;
    assert_true(phy_poll(&phy));
    assert_false(phy.up);
}

static void start_ethernet(struct enet *enet, uint16_t partner)
{
    chip_model_reset();
    chip_model.phy[1] = 0x782D;
    chip_model.phy[5] = partner;
    assert_null(enet_start(enet, ENET_BASE, &memory, address, CLOCK_IPG_HZ));
}

static void the_controller_follows_the_link(void **state)
{
    (void)state;
    struct enet enet;
    start_ethernet(&enet, 0x01E1);
    assert_null(enet_send_buffer(&enet));
    assert_true(enet_poll_link(&enet));
    assert_true(*chip_model_reg(ENET_BASE + ENET_ECR) & ENET_ECR_ENABLE);
    assert_true(*chip_model_reg(ENET_BASE + ENET_TCR) & ENET_TCR_FULL_DUPLEX);
    assert_false(*chip_model_reg(ENET_BASE + ENET_RCR) & ENET_RCR_10_MBIT);
    assert_int_equal(*chip_model_reg(ENET_BASE + ENET_PALR), 0x04E9E501u);
    assert_int_equal(*chip_model_reg(ENET_BASE + ENET_PAUR), 0x02038808u);
    assert_non_null(enet_send_buffer(&enet));
    chip_model.phy[5] = 0x0021;
    assert_true(enet_poll_link(&enet));
    assert_false(*chip_model_reg(ENET_BASE + ENET_TCR) & ENET_TCR_FULL_DUPLEX);
    assert_true(*chip_model_reg(ENET_BASE + ENET_RCR) & ENET_RCR_10_MBIT);
    chip_model.phy[1] = 0x7809;
    assert_false(enet_poll_link(&enet));
    assert_false(*chip_model_reg(ENET_BASE + ENET_ECR) & ENET_ECR_ENABLE);
    assert_null(enet_send_buffer(&enet));
    chip_model.phy[1] = 0x782D;
    assert_true(enet_poll_link(&enet));
    *chip_model_reg(ENET_BASE + ENET_EIR) |= ENET_EIR_EBERR;
    assert_true(enet_poll_link(&enet));
    assert_int_equal(enet.restarts, 1);
    chip_model_reset();
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
        uint64_t looks = chip_model.looks;
        assert_null(enet_send_buffer(&enet));
        assert_int_equal(chip_model.looks, looks);
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
    *chip_model_reg(ENET_BASE + ENET_RDAR) = 0;
    enet_release(&enet);
    assert_int_equal(*chip_model_reg(ENET_BASE + ENET_RDAR), ENET_ACTIVE);
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
    chip_model_reset();
    rmii_start();
    assert_int_equal(chip_model.phy_reset_low, 1);
    assert_int_equal(*chip_model_reg(MUX_B1(10)), 0x16);
    assert_int_equal(*chip_model_reg(PAD_B1(4)), 0x30E9);
    assert_int_equal(*chip_model_reg(PAD_B1(15)), 0xB0E9);
    assert_int_equal(*chip_model_reg(MUX_B1(15)), 0);
    assert_int_equal(*chip_model_reg(GPIO7_DR_SET), GPIO7_PHY_RESET);
    /* The last thing written but for the delay: every pad is older. */
    assert_int_equal(chip_model.regs[chip_model.n - 1].address, SELECT_ENET_RMII_CLOCK);
    assert_true(chip_model.cycles >= 50000u * (uint64_t)REG_CYCLES_PER_US);
}

static void the_console_never_waits_and_counts_what_it_drops(void **state)
{
    (void)state;
    char line[CONSOLE_RING * 2];
    memset(line, 'x', sizeof line);
    chip_model_reset();
    console_start();
    console_write("hello\n", 6);
    console_flush();
    assert_int_equal(chip_model.n_sent, 6);
    assert_memory_equal(chip_model.sent, "hello\n", 6);
    stick(LPUART6_STAT, LPUART_STAT_TDRE | LPUART_STAT_TC, 0);
    uint64_t before = chip_model.cycles;
    console_write(line, sizeof line);
    assert_int_equal(console_dropped(), CONSOLE_RING);
    assert_true(chip_model.cycles - before < 1000u * (uint64_t)REG_CYCLES_PER_US);
    console_flush();
    assert_true(chip_model.cycles - before < 300000u * (uint64_t)REG_CYCLES_PER_US);
    chip_model.clock_stands = true;
    console_flush();
}

static void the_watchdog_is_on_for_8_seconds_and_its_sequence_is_right(void **state)
{
    (void)state;
    chip_model_reset();
    *chip_model_reg(WDOG3_CS) = WDOG3_CS_EN;
    chip_watchdog_start(8000);
    assert_int_equal(*chip_model_reg(WDOG1_WCR) >> 8, 15);
    assert_int_equal(*chip_model_reg(WDOG1_WCR) & 0x37, WCR_WDA | WCR_SRS | WCR_WDE | WCR_WDBG);
    assert_false(*chip_model_reg(WDOG3_CS) & WDOG3_CS_EN);
    assert_int_equal(*chip_model_reg(WDOG1_WSR), 0xAAAA);
}

static void temperature_is_a_line_through_two_burned_points(void **state)
{
    (void)state;
    chip_model_reset();
    *chip_model_reg(OCOTP_ANA1) = 0x55F4A369u; /* 25 degrees at 0x55F, 0x69 = 105 degrees at 0x4A3 */
    chip_temperature_start();
    assert_int_equal(chip_temperature(), CHIP_NO_TEMPERATURE);
    *chip_model_reg(TEMPSENSE0) |= TEMPSENSE0_FINISHED | 0x55Fu << 8;
    assert_int_equal(chip_temperature(), 250);
    *chip_model_reg(TEMPSENSE0) = TEMPSENSE0_FINISHED | 0x4A3u << 8;
    assert_int_equal(chip_temperature(), 1050);
    *chip_model_reg(TEMPSENSE0) = TEMPSENSE0_FINISHED | 0x501u << 8;
    assert_int_equal(chip_temperature(), 650);
    *chip_model_reg(OCOTP_ANA1) = 0;
    assert_int_equal(chip_temperature(), CHIP_NO_TEMPERATURE);
}

static void blank_fuses_give_a_local_address(void **state)
{
    (void)state;
    uint8_t mac[6];
    chip_model_reset();
    *chip_model_reg(OCOTP_MAC0) = 0xE50A0B0Cu;
    *chip_model_reg(OCOTP_MAC1) = 0x000004E9u;
    assert_true(chip_mac(mac));
    assert_memory_equal(mac, "\x04\xE9\xE5\x0A\x0B\x0C", 6);
    chip_model_reset();
    *chip_model_reg(OCOTP_CFG0) = 0x12345678;
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
        chip_model_reset();
        *chip_model_reg(SRC_SRSR) = cases[i].status;
        assert_int_equal(chip_reset(), cases[i].cause);
        assert_int_equal(chip_reset(), CHIP_RESET_UNKNOWN);
    }
}

static void the_clock_counts_microseconds_of_the_crystal(void **state)
{
    (void)state;
    chip_model_reset();
    *chip_model_reg(CCM_CSCMR1) = 0x3F;
    *chip_model_reg(CCM_CLPCR) = 0x79;
    clock_peripherals();
    assert_int_equal(*chip_model_reg(CCM_CSCMR1) & 0x7F, 0x40); /* 24 MHz, by 1 */
    assert_int_equal(*chip_model_reg(CCM_CLPCR), 0x78);
    assert_null(chip_timer_start());
    assert_int_equal(*chip_model_reg(GPT1_PR), 23);
    assert_int_equal(*chip_model_reg(GPT1_CR), 0x28B);
    chip_model.cycles = 1234567ull * REG_CYCLES_PER_US;
    assert_int_equal(chip_timer(), 1234567);
    chip_model_reset();
    stick(GPT1_CNT, UINT32_MAX, 0);
    assert_non_null(strstr(chip_timer_start(), "does not count"));
    chip_model.clock_stands = true;
    assert_non_null(strstr(chip_timer_start(), "does not count"));
}

static void a_frame_between_arming_and_sleeping_is_seen(void **state)
{
    (void)state;
    struct enet enet;
    start_ethernet(&enet, 0x01E1);
    assert_true(enet_poll_link(&enet));
    *chip_model_reg(ENET_BASE + ENET_EIR) |= ENET_EIR_RXF; /* of a frame that was taken */
    enet_interrupt(&enet, true);
    assert_int_equal(*chip_model_reg(ENET_BASE + ENET_EIMR), ENET_EIR_RXF);
    assert_false(*chip_model_reg(ENET_BASE + ENET_EIR) & ENET_EIR_RXF);
    assert_false(enet_waiting(&enet));
    arrive(0, 64, ENET_RX_LAST);
    assert_true(enet_waiting(&enet));
    enet_interrupt(&enet, false);
    assert_int_equal(*chip_model_reg(ENET_BASE + ENET_EIMR), 0);
}

static int nothing_was_wrong(void **state)
{
    (void)state;
    if (chip_model.wrong != NULL)
        print_error("the model says: %s\n", chip_model.wrong);
    return chip_model.wrong != NULL;
}

#define RULE(test) cmocka_unit_test_teardown(test, nothing_was_wrong)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RULE(clock_start_reaches_600_mhz_with_the_volts_first),
        RULE(every_ready_bit_of_the_clocks_has_a_limit_and_a_name),
        RULE(ethernet_clock_ends_as_the_data_say),
        RULE(flash_erases_and_programs_and_drops_the_cache),
        RULE(a_long_erase_feeds_the_watchdog),
        RULE(a_flash_that_does_not_answer_is_named_and_reset),
        RULE(random_sets_are_used_once_and_the_first_is_thrown_away),
        RULE(a_failing_random_generator_gives_no_bytes),
        RULE(the_phy_is_found_at_any_address_and_told_by_its_id),
        RULE(a_silent_mdio_bus_and_an_empty_one_are_told_apart),
        RULE(the_link_is_the_best_that_both_sides_offer),
        RULE(the_controller_follows_the_link),
        RULE(a_full_send_ring_refuses_and_does_not_wait),
        RULE(damaged_frames_are_dropped_and_good_ones_lose_their_check_sequence),
        RULE(pads_are_set_before_the_phy_leaves_its_reset),
        RULE(the_console_never_waits_and_counts_what_it_drops),
        RULE(the_watchdog_is_on_for_8_seconds_and_its_sequence_is_right),
        RULE(temperature_is_a_line_through_two_burned_points),
        RULE(blank_fuses_give_a_local_address),
        RULE(the_reset_reason_is_told_once),
        RULE(the_clock_counts_microseconds_of_the_crystal),
        RULE(a_frame_between_arming_and_sleeping_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
