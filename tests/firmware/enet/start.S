/* From reset to main on a Cortex-A7, in ARM state: a stack, zeroed memory, vectors that stop, and Thumb. */
    .syntax unified
    .arm
    .section .start, "ax"
    .global _start
_start:
    cpsid if
    ldr sp, =__stack_top
    ldr r0, =__zero_start
    ldr r1, =__zero_end
    mov r2, #0
1:  cmp r0, r1
    strlo r2, [r0], #4
    blo 1b
    ldr r0, =vectors
    mcr p15, 0, r0, c12, c0, 0
    ldr r0, =a7_main
    blx r0
    b .

    .balign 32
vectors:
    b .
    b stopped
    b stopped
    b stopped
    b stopped
    b .
    b stopped
    b stopped
stopped:
    ldr sp, =__stack_top
    sub r0, lr, #8
    mrc p15, 0, r1, c6, c0, 0
    ldr r2, =a7_stopped
    bx r2
