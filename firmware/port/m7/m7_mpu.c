/*
 * The MPU: what no region allows faults, for there is no background map. Eight regions serve both ports (mps2
 * has no more): nothing is writable and executable, the flash is constant but while it is being written, the
 * null page and the guard below the stack are nothing.
 */
#include "firmware/port/m7/m7.h"
#include "firmware/port/m7/m7_parts.h"

/* Type, access and execute-never bits of RASR. The flash is cached write-through, OCRAM write-back. */
static const uint32_t attributes[] = {
    [M7_NONE] = 1u << 28,
    [M7_CODE] = 6u << 24 | 2u << 16,
    [M7_CONSTANT] = 1u << 28 | 6u << 24 | 2u << 16,
    [M7_DATA] = 1u << 28 | 3u << 24 | 1u << 19 | 3u << 16,
    [M7_DATA_UNCACHED] = 1u << 28 | 3u << 24 | 1u << 19,
    [M7_DEVICE] = 1u << 28 | 3u << 24 | 1u << 16 | 1u << 18,
};

/* In rising order of priority. `off` takes eighths out. */
enum { FLASH = 4 };
static const struct m7_region common[] = {
    {0x00000000u, 32, 0xDB, M7_DEVICE}, /* 0x40000000 and 0xA0000000, 512 MiB each */
    {0x00000000u, 15, 0x00, M7_CODE},   /* ITCM */
    {0x00000000u, 8, 0x00, M7_NONE},    /* null */
    {0x20000000u, 22, 0xEE, M7_DATA},   /* DTCM and OCRAM, 512 KiB each */
    [FLASH] = {0x60000000u, 23, 0x00, M7_CONSTANT},
    {0x60000000u, 19, 0xE0, M7_CODE}, /* the first image */
    {0x20000000u, 8, 0x00, M7_NONE},  /* below the stack */
};
enum { N_COMMON = sizeof common / sizeof common[0] };

static void set(uint32_t number, const struct m7_region *region, enum m7_access access)
{
    M7_MPU_RNR = number;
    M7_MPU_RBAR = region->base;
    M7_MPU_RASR =
        attributes[access] | (uint32_t)region->off << 8 | (uint32_t)(region->size_log2 - 1) << 1 | 1u;
}

void m7_mpu_start(const struct m7_region *own, uint32_t n_own)
{
    M7_MPU_CTRL = 0;
    __asm volatile("dsb\n isb" ::: "memory");
    for (uint32_t i = 0; i < N_COMMON; i++)
        set(i, &common[i], (enum m7_access)common[i].access);
    for (uint32_t i = 0; i < n_own; i++)
        set(N_COMMON + i, &own[i], (enum m7_access)own[i].access);
    M7_MPU_CTRL = 1; /* and the background map stays off; so does the MPU in hard fault and NMI */
    __asm volatile("dsb\n isb" ::: "memory");
}

void m7_flash_writable(bool writable)
{
    set(FLASH, &common[FLASH], writable ? M7_DATA_UNCACHED : M7_CONSTANT);
    __asm volatile("dsb\n isb" ::: "memory");
}
