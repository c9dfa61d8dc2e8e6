/*
 * Start-up and semihosting of the bare images: FPU on (C code may keep words there), data and bss, then
 * image_main(), whose result is QEMU's exit status. Any fault ends QEMU with status 70.
 */
#include "tests/firmware/kernels/image.h"

#include <stddef.h>
#include <string.h>

extern uint32_t __data_start[], __data_end[], __data_load[], __bss_start[], __bss_end[], __stack_top[];

enum { SYS_WRITE0 = 4, SYS_EXIT_EXTENDED = 0x20, STOPPED_BY_EXIT = 0x20026, FAULT_STATUS = 70 };

static int32_t semihost(int32_t operation, const void *argument)
{
    register int32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

void print(const char *text)
{
    semihost(SYS_WRITE0, text);
}

void print_number(int64_t x)
{
    char digits[24];
    size_t at = sizeof digits;
    uint64_t rest = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
    digits[--at] = 0;
    do
        digits[--at] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (x < 0)
        digits[--at] = '-';
    print(digits + at);
}

_Noreturn void image_exit(int status)
{
    const uint32_t block[2] = {STOPPED_BY_EXIT, (uint32_t)status};
    semihost(SYS_EXIT_EXTENDED, block);
    for (;;)
        ;
}

static void fault(void)
{
    print("fault\n");
    image_exit(FAULT_STATUS);
}

void start(void);
void start(void)
{
    volatile uint32_t *cpacr = (volatile uint32_t *)0xE000ED88u;
    *cpacr |= 0xFu << 20;
    __asm__ volatile("dsb\n isb");
    memcpy(__data_start, __data_load, (size_t)((char *)__data_end - (char *)__data_start));
    memset(__bss_start, 0, (size_t)((char *)__bss_end - (char *)__bss_start));
    image_exit(image_main());
}

union vector {
    uint32_t *stack;
    void (*handler)(void);
};
__attribute__((section(".vectors"), used)) static const union vector vectors[16] = {
    {.stack = __stack_top}, {.handler = start}, {.handler = fault}, {.handler = fault},
    {.handler = fault},     {.handler = fault}, {.handler = fault}, {.handler = fault},
    {.handler = fault},     {.handler = fault}, {.handler = fault}, {.handler = fault},
    {.handler = fault},     {.handler = fault}, {.handler = fault}, {.handler = fault}};
