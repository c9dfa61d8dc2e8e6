/*
 * From reset to main: copies what runs from ITCM and what has initial values, clears the rest, paints the
 * stack, sets vectors, MPU and FPU, and changes from the handlers' stack to the program's, which lies on a
 * guard. Nothing here may rely on data before it is copied; m7_start runs on the handlers' stack and must
 * stay small.
 */
#include "firmware/port/m7/m7.h"
#include "firmware/port/m7/m7_parts.h"
#include "firmware/port/port.h"

#define PAINT 0xA5A5A5A5u

static void copy(uint32_t *to, const uint32_t *end, const uint32_t *from)
{
    while (to < end)
        *to++ = *from++;
}

static void fill(uint32_t *to, const uint32_t *end, uint32_t value)
{
    while (to < end)
        *to++ = value;
}

static _Noreturn void __attribute__((used)) on_own_stack(void)
{
    port_start();
    m7_main();
}

_Noreturn void m7_start(void)
{
    M7_CPACR |= 0xFu << 20; /* FPU */
    __asm volatile("dsb\n isb" ::: "memory");
    copy(__itcm_start, __itcm_end, __itcm_load);
    copy(__data_start, __data_end, __data_load);
    fill(__bss_start, __bss_end, 0);
    fill(__net_start, __net_end, 0);
    fill(__stack_bottom, __stack_top, PAINT);
    M7_VTOR = (uint32_t)m7_vectors;
    M7_SHCSR |= 7u << 16; /* memory, bus and usage faults have handlers of their own */
    M7_CCR |= 1u << 4;    /* a division by zero faults */
    m7_mpu_start(NULL, 0);
    __asm volatile("msr psp, %0\n"
                   "movs r0, #2\n"
                   "msr control, r0\n"
                   "isb\n"
                   "bl on_own_stack\n" ::"r"(__stack_top)
                   : "r0", "memory");
    for (;;) {
    }
}

uint32_t m7_stack_bytes(void)
{
    return (uint32_t)((uintptr_t)__stack_top - (uintptr_t)__stack_bottom);
}

uint32_t m7_stack_high_water(void)
{
    const volatile uint32_t *at = __stack_bottom;
    while (at < __stack_top && *at == PAINT)
        at++;
    return (uint32_t)((uintptr_t)__stack_top - (uintptr_t)at);
}
