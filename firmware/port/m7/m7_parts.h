/* What the files of firmware/port/m7 share; private. Registers of the core, symbols of the linker script. */
#ifndef SHOAL_FIRMWARE_PORT_M7_PARTS_H
#define SHOAL_FIRMWARE_PORT_M7_PARTS_H

#include <stddef.h>
#include <stdint.h>

#define M7_REGISTER(address) (*(volatile uint32_t *)(address))
#define M7_VTOR M7_REGISTER(0xE000ED08u)
#define M7_AIRCR M7_REGISTER(0xE000ED0Cu)
#define M7_CCR M7_REGISTER(0xE000ED14u)
#define M7_SHCSR M7_REGISTER(0xE000ED24u)
#define M7_CFSR M7_REGISTER(0xE000ED28u)
#define M7_HFSR M7_REGISTER(0xE000ED2Cu)
#define M7_MMFAR M7_REGISTER(0xE000ED34u)
#define M7_BFAR M7_REGISTER(0xE000ED38u)
#define M7_CPACR M7_REGISTER(0xE000ED88u)
#define M7_MPU_TYPE M7_REGISTER(0xE000ED90u)
#define M7_MPU_CTRL M7_REGISTER(0xE000ED94u)
#define M7_MPU_RNR M7_REGISTER(0xE000ED98u)
#define M7_MPU_RBAR M7_REGISTER(0xE000ED9Cu)
#define M7_MPU_RASR M7_REGISTER(0xE000EDA0u)
#define M7_DCCMVAC M7_REGISTER(0xE000EF68u)

extern uint32_t __itcm_load[], __itcm_start[], __itcm_end[], __data_load[], __data_start[], __data_end[];
extern uint32_t __bss_start[], __bss_end[], __net_start[], __net_end[];
extern uint32_t __guard[], __stack_bottom[], __stack_top[], __handler_stack_top[];
extern uint8_t __arena_start[], __arena_end[], __weights_start[], __weights_end[];

extern void (*const m7_vectors[])(void);

#endif
