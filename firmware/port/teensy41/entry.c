/*
 * The first instructions after the boot ROM. RAM is not what the linker thinks yet: FlexRAM is divided anew
 * (1 bank of 32 KiB ITCM, 15 of DTCM), so nothing may touch a stack before the last of the three writes. In a
 * file of its own, since the same image is also linked with the drivers of mps2 and booted in QEMU behind a
 * stub of the ROM, where the three writes go nowhere.
 */
void m7_entry(void);

void __attribute__((naked, section(".text.m7_entry"))) m7_entry(void)
{
    __asm volatile("cpsid i\n"
                   "movs r0, #0\n"
                   "msr control, r0\n" /* the main stack, privileged */
                   "isb\n"
                   "ldr r0, =0x400AC000\n"
                   "ldr r1, =0xAAAAAAAB\n" /* GPR17: a bank is 2 bits, 11 ITCM, 10 DTCM */
                   "str r1, [r0, #0x44]\n"
                   "ldr r1, =0x00200007\n" /* GPR16: by GPR17; both TCMs on */
                   "str r1, [r0, #0x40]\n"
                   "ldr r1, =0x00AA0000\n" /* GPR14: each window is 512 KiB */
                   "str r1, [r0, #0x38]\n"
                   "dsb\n"
                   "isb\n"
                   "ldr r0, =__handler_stack_top\n"
                   "msr msp, r0\n"
                   "ldr r0, =0xE000ED08\n" /* vectors of our own before any interrupt may come; */
                   "ldr r1, =m7_vectors\n"
                   "str r1, [r0]\n"
                   "ldr r0, =0xE000E180\n" /* and none of those that the ROM asked for */
                   "mov r1, #-1\n"
                   "str r1, [r0]\n"
                   "str r1, [r0, #4]\n"
                   "str r1, [r0, #8]\n"
                   "str r1, [r0, #12]\n"
                   "str r1, [r0, #16]\n"
                   "dsb\n"
                   "cpsie i\n"
                   "bl m7_start\n"
                   ".ltorg\n");
}
