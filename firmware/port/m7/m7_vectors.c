/*
 * The vector table, in flash. Faults go to m7_fault with the frame that they stacked; an interrupt to the
 * handler that its port gave with m7_interrupt(), and one that nobody asked for is a fault.
 */
#include "firmware/port/m7/m7.h"
#include "firmware/port/m7/m7_parts.h"
#include "firmware/port/port.h"

enum { EXCEPTIONS = 16 };

_Noreturn void m7_fault(const uint32_t *frame, uint32_t exception);
void m7_tick(void); /* SysTick: the port's, if it uses it */
void m7_nmi(void);

static void (*handlers[M7_INTERRUPTS])(void);

/* On entry lr says which stack has the frame. */
static void __attribute__((naked)) fault(void)
{
    __asm volatile("tst lr, #4\n"
                   "ite eq\n"
                   "mrseq r0, msp\n"
                   "mrsne r0, psp\n"
                   "mrs r1, ipsr\n"
                   "b m7_fault\n");
}

void __attribute__((weak)) m7_tick(void)
{
}

/* The watchdog's warning on mps2; nothing else raises it. */
void __attribute__((weak, naked)) m7_nmi(void)
{
    __asm volatile("tst lr, #4\n"
                   "ite eq\n"
                   "mrseq r0, msp\n"
                   "mrsne r0, psp\n"
                   "b m7_watchdog_bites\n");
}

static void interrupt(void)
{
    uint32_t number;
    __asm volatile("mrs %0, ipsr" : "=r"(number));
    number -= EXCEPTIONS;
    if (number < M7_INTERRUPTS && handlers[number] != NULL)
        handlers[number]();
    else
        port_die("an interrupt that nobody asked for");
}

void m7_interrupt(uint32_t number, void (*handler)(void), uint8_t priority)
{
    handlers[number] = handler;
    *(volatile uint8_t *)(0xE000E400u + number) = priority;
    M7_REGISTER(0xE000E100u + number / 32 * 4) = 1u << number % 32;
}

void m7_entry(void); /* the port's: where a reset goes */

#define FOUR(x) x, x, x, x
#define SIXTEEN(x) FOUR(x), FOUR(x), FOUR(x), FOUR(x)
#define EIGHTY(x) SIXTEEN(x), SIXTEEN(x), SIXTEEN(x), SIXTEEN(x), SIXTEEN(x)

/* Entry 0 is the first stack pointer; 3 to 14 are faults and system calls, which nobody makes. */
void (*const m7_vectors[EXCEPTIONS + M7_INTERRUPTS])(void)
    __attribute__((section(".vectors"), used, aligned(1024))) = {
        (void (*)(void))(uintptr_t)__handler_stack_top,
        m7_entry,
        m7_nmi,
        FOUR(fault),
        FOUR(fault),
        FOUR(fault),
        m7_tick,
        EIGHTY(interrupt),
        EIGHTY(interrupt),
};
