/*
 * Runs the real image for a Teensy 4.1, every instruction of it, on a model of the chip: the CPU emulator
 * Unicorn for the core, tests/support/rt1062_model.c for the registers, and here memory, MPU, sleep and a
 * small network.
 *
 *     model_board IMAGE.hex SECONDS [ADDRESS MASK VALUE]
 *
 * The console goes to standard output. Ends after so much of the board's time. The bits MASK of the register
 * at ADDRESS always read as VALUE: what breaks.
 *
 * Judged, each ending the run with a line "model: ..." and status 1: a touch of RAM before FlexRAM is
 * divided; what the MPU's regions, as the image sets them, do not allow; any read or fetch from flash while
 * it is busy; a write to flash; access off its size's border to a device; rings of the Ethernet controller in
 * memory that the MPU caches; what the chip's model calls wrong; an access to nowhere; a watchdog that would
 * have bitten. RAM starts as rubbish, and so does the flash above what the loader erases. Not modelled: time
 * of instructions, caches, interrupts but the tick (called at each sleep).
 */
#include "firmware/core/flashmap.h"
#include "firmware/port/teensy41/enet_regs.h"
#include "firmware/port/teensy41/reg.h"
#include "firmware/port/teensy41/rt1062.h"
#include "server/provision/ihex.h"
#include "tests/firmware/model/model_net.h"
#include "tests/support/rt1062_model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unicorn/unicorn.h>

#define FLASH 0x60000000u
#define RETURN_TO (FLASH + 0x1F00) /* in the headers, where no code is */
enum {
    ITCM_BYTES = 0x8000,
    DTCM = 0x20000000,
    DTCM_BYTES = 0x78000,
    OCRAM = 0x20200000,
    OCRAM_BYTES = 0x80000
};
enum { WFI = 0xBF30, TICK_VECTOR = 15, MPU_REGIONS = 16, TICK_US = 1000 };
/* Of a look at a register: long waits for what does not come are many looks. */
enum { LOOK_CYCLES = 300, LOOK_CYCLES_BROKEN = 6000 };
enum {
    SYSTICK_CTRL = (int)0xE000E010,
    VTOR = (int)0xE000ED08,
    AIRCR = (int)0xE000ED0C,
    CPACR = (int)0xE000ED88
};
enum {
    MPU_TYPE = (int)0xE000ED90,
    MPU_CTRL = (int)0xE000ED94,
    MPU_RNR,
    MPU_RBAR = (int)0xE000ED9C,
    MPU_RASR = (int)0xE000EDA0
};

static uc_engine *uc;
static uint8_t flash[CHIP_MODEL_NOR], itcm[ITCM_BYTES], dtcm[DTCM_BYTES], ocram[OCRAM_BYTES];
static struct region {
    uint32_t base, attributes;
} regions[MPU_REGIONS];
static uint32_t region_chosen, told, sleeps, tx_at, rx_at;
static bool mpu_on, reset_asked, asleep, failed;

static void complain(const char *format, ...)
{
    va_list arguments;
    uint32_t pc = 0;
    if (failed)
        return;
    failed = true;
    uc_reg_read(uc, UC_ARM_REG_PC, &pc);
    fflush(stdout);
    printf("model: ");
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf(" (pc %08x, after %.3f s)\n", pc, (double)chip_model.cycles / REG_CYCLES_PER_US / 1e6);
    uc_emu_stop(uc);
}

/* ---- memory protection ---- */

static const struct region *region_of(uint32_t address)
{
    for (int i = MPU_REGIONS - 1; i >= 0; i--) {
        uint32_t bits = (regions[i].attributes >> 1 & 31) + 1;
        uint64_t size = 1ull << bits;
        if (!(regions[i].attributes & 1) || address - (uint64_t)regions[i].base >= size)
            continue;
        if (bits >= 8 && regions[i].attributes >> 8 >> (address - regions[i].base) / (size / 8) & 1)
            continue;
        return &regions[i];
    }
    return NULL;
}

/* 0 none, 1 read, 3 read and write. */
static uint32_t rights(const struct region *region)
{
    static const uint32_t by_access[] = {0, 3, 3, 3, 0, 1, 1, 1};
    return region == NULL ? 0 : by_access[region->attributes >> 24 & 7];
}

static bool is_flash(uint64_t address)
{
    return address >= FLASH && address < FLASH + CHIP_MODEL_NOR;
}

/* Until then RAM is divided as the fuses say, not as the linker does. */
static bool ram_divided(void)
{
    return *chip_model_reg(GPR(17)) == 0xAAAAAAABu && *chip_model_reg(GPR(16)) == 0x00200007u &&
           *chip_model_reg(GPR(14)) == 0x00AA0000u;
}

static void on_access(uc_engine *engine, uc_mem_type type, uint64_t address, int size, int64_t value,
                      void *user)
{
    (void)engine, (void)value, (void)user;
    bool write = type == UC_MEM_WRITE;
    if (is_flash(address) && chip_model_nor_busy())
        complain("%08x is read while the flash is busy", (unsigned)address);
    if (is_flash(address) && write)
        complain("%08x in flash is written", (unsigned)address);
    if (address < DTCM + DTCM_BYTES && !ram_divided())
        complain("%08x is touched before FlexRAM is divided", (unsigned)address);
    if (mpu_on && address < 0xE0000000u) {
        const struct region *region = region_of((uint32_t)address);
        if ((rights(region) & (write ? 2u : 1u)) == 0)
            complain("the MPU does not allow to %s %08x", write ? "write" : "read", (unsigned)address);
        else if (region->attributes >> 16 & 1 && !(region->attributes >> 17 & 1) &&
                 address % (unsigned)size != 0)
            complain("%08x is reached off its border, as device memory", (unsigned)address);
    }
}

static void on_block(uc_engine *engine, uint64_t address, uint32_t size, void *user)
{
    (void)engine, (void)size, (void)user;
    if (is_flash(address) && chip_model_nor_busy())
        complain("%08x is run while the flash is busy", (unsigned)address);
    if (address < ITCM_BYTES && !ram_divided())
        complain("%08x is run before FlexRAM is divided", (unsigned)address);
    if (mpu_on) {
        const struct region *region = region_of((uint32_t)address);
        if (!(rights(region) & 1) || region->attributes >> 28 & 1)
            complain("the MPU does not allow to run %08x", (unsigned)address);
    }
}

static bool on_nowhere(uc_engine *engine, uc_mem_type type, uint64_t address, int size, int64_t value,
                       void *user)
{
    (void)engine, (void)size, (void)value, (void)user;
    complain("%s %08x: there is nothing", type == UC_MEM_WRITE_UNMAPPED ? "writes" : "reads or runs",
             (unsigned)address);
    return false;
}

/* ---- Ethernet ---- */

static uint8_t *ram_at(uint32_t address, uint32_t n)
{
    if (address >= OCRAM && n <= OCRAM_BYTES && address - OCRAM <= OCRAM_BYTES - n)
        return ocram + (address - OCRAM);
    if (address >= DTCM && n <= DTCM_BYTES && address - DTCM <= DTCM_BYTES - n)
        return dtcm + (address - DTCM);
    complain("the Ethernet controller is sent to %08x", address);
    return NULL;
}

/* OCRAM is cached unless the MPU says otherwise; the TCMs never are. */
static void need_uncached(uint32_t address)
{
    const struct region *region = region_of(address);
    if (address >= OCRAM && (region == NULL || region->attributes >> 17 & 1))
        complain("the Ethernet controller's memory at %08x is cached", address);
}

struct ring {
    uint32_t address, *at;
    uint16_t ours; /* the flag that gives a descriptor to the controller */
};

static uint8_t *descriptor(const struct ring *ring)
{
    uint32_t address = ring->address + 8 * *ring->at;
    need_uncached(address);
    uint8_t *d = ram_at(address, 8);
    return d != NULL && (d[3] << 8 & ring->ours) ? d : NULL;
}

static uint8_t *buffer_of(const uint8_t *d, uint32_t n)
{
    uint32_t address = (uint32_t)d[4] | (uint32_t)d[5] << 8 | (uint32_t)d[6] << 16 | (uint32_t)d[7] << 24;
    need_uncached(address);
    need_uncached(address + n - 1);
    if (address % 64 != 0)
        complain("a frame's buffer at %08x is not on a border of 64 bytes", address);
    return ram_at(address, n);
}

static void advance(const struct ring *ring, const uint8_t *d)
{
    *ring->at = d[3] << 8 & ENET_RX_WRAP ? 0 : *ring->at + 1;
}

/* A frame to the board, when the controller is on and has a buffer. */
static void deliver(const uint8_t *frame, uint32_t n)
{
    struct ring rx = {*chip_model_reg(ENET_BASE + ENET_RDSR), &rx_at, ENET_RX_EMPTY};
    uint8_t *d = *chip_model_reg(ENET_BASE + ENET_ECR) & ENET_ECR_ENABLE ? descriptor(&rx) : NULL;
    uint32_t length = (n < 60 ? 60 : n) + 4;
    uint8_t *to = d != NULL ? buffer_of(d, length) : NULL;
    if (to == NULL)
        return;
    memset(to, 0, length);
    memcpy(to, frame, n);
    d[0] = (uint8_t)length, d[1] = (uint8_t)(length >> 8);
    advance(&rx, d);
    d[3] = (uint8_t)((d[3] & ENET_RX_WRAP >> 8) | ENET_RX_LAST >> 8);
    *chip_model_reg(ENET_BASE + ENET_EIR) |= ENET_EIR_RXF;
}

static void send_frames(void)
{
    struct ring tx = {*chip_model_reg(ENET_BASE + ENET_TDSR), &tx_at, ENET_TX_READY};
    if (!(*chip_model_reg(ENET_BASE + ENET_ECR) & ENET_ECR_ENABLE))
        complain("frames are sent while the controller is off");
    for (uint8_t *d; !failed && (d = descriptor(&tx)) != NULL;) {
        uint32_t n = (uint32_t)d[0] | (uint32_t)d[1] << 8;
        const uint8_t *from = buffer_of(d, n);
        if (from == NULL)
            return;
        model_net_frame(from, n, deliver);
        advance(&tx, d);
        d[3] = (uint8_t)(d[3] & ENET_TX_WRAP >> 8);
    }
}

/* ---- registers ---- */

static void set_region(uint32_t attributes)
{
    regions[region_chosen % MPU_REGIONS] =
        (struct region){*chip_model_reg((uint32_t)MPU_RBAR) & ~31u, attributes};
}

static void tell(void)
{
    fwrite(chip_model.sent + told, 1, chip_model.n_sent - told, stdout);
    told = chip_model.n_sent;
    if (told == CHIP_MODEL_SENT)
        told = chip_model.n_sent = 0;
}

static uint64_t on_read(uc_engine *engine, uint64_t offset, unsigned size, void *user)
{
    (void)engine;
    uint32_t address = (uint32_t)(uintptr_t)user + (uint32_t)offset;
    if (offset % size != 0)
        complain("register %08x is read off its border", address);
    if (address == (uint32_t)MPU_TYPE)
        return MPU_REGIONS << 8;
    uint32_t value = reg_read(address & ~3u) >> 8 * (address & 3);
    return size == 1 ? value & 0xFF : size == 2 ? value & 0xFFFF : value;
}

static void on_write(uc_engine *engine, uint64_t offset, unsigned size, uint64_t value, void *user)
{
    (void)engine;
    uint32_t address = (uint32_t)(uintptr_t)user + (uint32_t)offset;
    if (offset % size != 0)
        complain("register %08x is written off its border", address);
    if (size == 2)
        reg_write16(address, (uint32_t)value);
    else
        reg_write(address, (uint32_t)value);
    switch (address) {
    case LPUART6_DATA:
        if (value == '\n')
            tell();
        break;
    case 0xE000ED98u: /* RNR */
        region_chosen = (uint32_t)value;
        break;
    case 0xE000EDA0u:
        set_region((uint32_t)value);
        break;
    case 0xE000ED94u:
        mpu_on = value & 1;
        break;
    case 0xE000ED0Cu:
        reset_asked = true;
        uc_emu_stop(uc);
        break;
    case ENET_BASE + ENET_TDAR:
        send_frames();
        break;
    case ENET_BASE + ENET_ECR:
        if (!(value & ENET_ECR_ENABLE))
            tx_at = rx_at = 0;
        break;
    default:
        break;
    }
    if (chip_model.wrong != NULL)
        complain("%s", chip_model.wrong);
}

/* ---- sleep and tick ---- */

static void on_sleep(uc_engine *engine, uint64_t address, uint32_t size, void *user)
{
    (void)address, (void)size, (void)user;
    asleep = true;
    uc_emu_stop(engine);
}

static uint32_t word(uint32_t address)
{
    uint32_t value = 0;
    uc_mem_read(uc, address, &value, sizeof value);
    return value;
}

static bool run(uint32_t from, uint32_t until)
{
    uc_err error = uc_emu_start(uc, from | 1, until, 0, 0);
    if (error != UC_ERR_OK)
        complain("the core stops: %s", uc_strerror(error));
    return !failed;
}

/* The rest of the millisecond passes, and the tick's handler runs, as it would before the next instruction.
 */
static void tick_once(void)
{
    uint64_t cycles = TICK_US * (uint64_t)REG_CYCLES_PER_US;
    uint32_t back = RETURN_TO | 1;
    uc_context *context = NULL;
    chip_model.cycles += cycles - chip_model.cycles % cycles;
    if (!(*chip_model_reg((uint32_t)SYSTICK_CTRL) & 2) || uc_context_alloc(uc, &context) != UC_ERR_OK)
        return;
    uc_context_save(uc, context);
    uc_reg_write(uc, UC_ARM_REG_LR, &back);
    run(word(*chip_model_reg((uint32_t)VTOR) + 4 * TICK_VECTOR), RETURN_TO);
    uc_context_restore(uc, context);
    uc_context_free(context);
}

/* ---- start ---- */

static void map(uint32_t address, uint8_t *bytes, uint32_t n, uint32_t rights_of)
{
    if (uc_mem_map_ptr(uc, address, n, rights_of, bytes) != UC_ERR_OK)
        complain("no memory at %08x", address);
}

static void fill(uint8_t *bytes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(0x5A + i * 13);
}

static bool load(const char *name)
{
    struct ihex image = {0};
    struct error error = {0};
    FILE *file = fopen(name, "rb");
    char *text = file != NULL ? malloc(16 << 20) : NULL;
    size_t n = text != NULL ? fread(text, 1, 16 << 20, file) : 0;
    bool good = n > 0 && ihex_parse(&image, text, n, &error) == 0;
    memset(flash, 0xFF, FLASHMAP_LOADER_ERASES);
    fill(flash + FLASHMAP_LOADER_ERASES, sizeof flash - FLASHMAP_LOADER_ERASES);
    for (size_t i = 0; good && i < image.n_runs; i++) {
        good =
            image.runs[i].address >= FLASH && image.runs[i].address - FLASH <= sizeof flash - image.runs[i].n;
        if (good)
            memcpy(flash + (image.runs[i].address - FLASH), image.runs[i].bytes, image.runs[i].n);
    }
    ihex_free(&image);
    free(text);
    if (file != NULL)
        fclose(file);
    return good;
}

/* Unicorn takes all hooks as void pointers. */
static void *pointer(void (*function)(void))
{
    void *as_object = NULL;
    memcpy(&as_object, &function, sizeof as_object);
    return as_object;
}

static void hook_sleeps(void)
{
    uc_hook hook;
    for (uint32_t at = 0x2000; at + 1 < 0x48000; at += 2)
        if ((flash[at] | flash[at + 1] << 8) == WFI)
            uc_hook_add(uc, &hook, UC_HOOK_CODE, pointer((void (*)(void))on_sleep), NULL, FLASH + at,
                        FLASH + at);
}

static bool start(void)
{
    uc_hook hook;
    if (uc_open(UC_ARCH_ARM, UC_MODE_THUMB | UC_MODE_MCLASS, &uc) != UC_ERR_OK)
        return false;
    uc_ctl_set_cpu_model(uc, UC_CPU_ARM_CORTEX_M7);
    fill(itcm, sizeof itcm);
    fill(dtcm, sizeof dtcm);
    fill(ocram, sizeof ocram);
    map(0, itcm, sizeof itcm, UC_PROT_ALL);
    map(DTCM, dtcm, sizeof dtcm, UC_PROT_ALL);
    map(OCRAM, ocram, sizeof ocram, UC_PROT_ALL);
    map(FLASH, flash, sizeof flash, UC_PROT_ALL);
    uc_mmio_map(uc, 0x40000000u, 0x03000000u, on_read, (void *)(uintptr_t)0x40000000u, on_write,
                (void *)(uintptr_t)0x40000000u);
    uc_mmio_map(uc, 0xE0000000u, 0x00100000u, on_read, (void *)(uintptr_t)0xE0000000u, on_write,
                (void *)(uintptr_t)0xE0000000u);
    uc_hook_add(uc, &hook, UC_HOOK_MEM_READ | UC_HOOK_MEM_WRITE, pointer((void (*)(void))on_access), NULL, 1,
                0);
    uc_hook_add(uc, &hook, UC_HOOK_BLOCK, pointer((void (*)(void))on_block), NULL, 1, 0);
    uc_hook_add(uc, &hook, UC_HOOK_MEM_UNMAPPED, pointer((void (*)(void))on_nowhere), NULL, 1, 0);
    hook_sleeps();
    return !failed;
}

static void new_chip(void)
{
    chip_model_reset();
    chip_model.nor = flash;
    chip_model.look_cycles = LOOK_CYCLES;
    *chip_model_reg(OCOTP_MAC0) = 0xE5010203u;
    *chip_model_reg(OCOTP_MAC1) = 0x000004E9u;
    *chip_model_reg(OCOTP_ANA1) = 0x55F4A369u;
    *chip_model_reg(SRC_SRSR) = SRSR_POWER_ON;
    chip_model.phy[1] = 0x782D;
    chip_model.phy[5] = 0x01E1;
}

static uint32_t number(const char *text)
{
    return (uint32_t)strtoul(text, NULL, 0);
}

/* The watchdog, once it is on, was never left alone for longer than it waits. */
static void check_watchdog(void)
{
    uint64_t limit = ((*chip_model_reg(WDOG1_WCR) >> 8 & 0xFF) + 1) * 500000ull * REG_CYCLES_PER_US;
    if (*chip_model_reg(WDOG1_WCR) & WCR_WDE && chip_model.longest_unfed > limit)
        complain("the watchdog would have bitten");
}

int main(int argc, char **argv)
{
    if ((argc != 3 && argc != 6) || !load(argv[1]) || !start()) {
        fprintf(stderr, "usage: model_board IMAGE.hex SECONDS [ADDRESS MASK VALUE]\n");
        return 2;
    }
    new_chip();
    if (argc == 6) {
        chip_model.look_cycles = LOOK_CYCLES_BROKEN;
        chip_model.stuck = (struct chip_stuck){number(argv[3]), number(argv[4]), number(argv[5])};
    }
    uint64_t end = (uint64_t)(atof(argv[2]) * 1e6) * REG_CYCLES_PER_US;
    uint32_t pc = word(FLASH + 0x1004);
    while (run(pc, RETURN_TO) && !reset_asked && chip_model.cycles < end) {
        uc_reg_read(uc, UC_ARM_REG_PC, &pc);
        if (asleep) {
            asleep = false;
            sleeps++;
            pc += 2;
            tick_once();
        }
        tell();
    }
    tell();
    check_watchdog();
    if (reset_asked && !failed)
        printf("\nmodel: the board resets itself\n");
    printf("\nmodel: %s after %.3f s: %u sleeps, %u erases, %u programs, %u flash resets, MPU %s\n",
           failed ? "stopped" : "ended", (double)chip_model.cycles / REG_CYCLES_PER_US / 1e6, sleeps,
           chip_model.erases, chip_model.programs, chip_model.resets, mpu_on ? "on" : "off");
    return failed || reset_asked;
}
