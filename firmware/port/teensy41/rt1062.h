/*
 * The registers of the i.MX RT1062 that this port touches: addresses, bits, and the few values that are
 * figures of the part or of the Teensy 4.1. What a register is for stands where it is used.
 */
#ifndef SHOAL_FIRMWARE_PORT_TEENSY41_RT1062_H
#define SHOAL_FIRMWARE_PORT_TEENSY41_RT1062_H

/* System control of the core. */
#define SCB_CPUID 0xE000ED00u
#define SCB_CCR 0xE000ED14u
#define SCB_CCR_CACHES ((1u << 17) | (1u << 16))
#define SCB_CCR_DATA_CACHE (1u << 16)
#define SCB_DCISW 0xE000EF60u
#define SCB_ICIALLU 0xE000EF50u
#define SCB_DCIMVAC 0xE000EF5Cu
#define DEMCR 0xE000EDFCu
#define DEMCR_TRCENA (1u << 24)
#define DWT_CTRL 0xE0001000u
#define DWT_CTRL_CYCCNTENA (1u << 0)
#define DWT_CYCCNT 0xE0001004u

/* Core voltage. */
#define DCDC_REG0 0x40080000u
#define DCDC_REG0_STS_DC_OK (1u << 31)
#define DCDC_REG3 0x4008000Cu
#define DCDC_REG3_TRG 0x1Fu
#define DCDC_TRG_1250_MV ((1250u - 800u) / 25u)

/* Periodic timers, which the ROM leaves running. */
#define PIT_MCR 0x40084000u
#define PIT_TCTRL(n) (0x40084108u + 0x10u * (n))

/* Pads: general registers, multiplexers, electrical settings, input selectors. */
#define GPR(n) (0x400AC000u + 4u * (n))
#define GPR1_ENET_IPG_CLK_S_EN (1u << 23)
#define GPR1_ENET1_TX_CLK_DIR (1u << 17)
#define GPR1_ENET1_CLK_SEL (1u << 13)
#define MUX_AD_B0_02 0x401F80C4u
#define MUX_AD_B0_03 0x401F80C8u
#define MUX_B0_03 0x401F8148u
#define MUX_B0_14 0x401F8174u
#define MUX_B0_15 0x401F8178u
#define MUX_B1(n) (0x401F818Cu + 4u * ((n)-4u)) /* GPIO_B1_04 .. GPIO_B1_15 */
#define PAD_AD_B0_02 0x401F82B4u
#define PAD_AD_B0_03 0x401F82B8u
#define PAD_B0_03 0x401F8338u
#define PAD_B0_14 0x401F8364u
#define PAD_B0_15 0x401F8368u
#define PAD_B1(n) (0x401F837Cu + 4u * ((n)-4u))
#define SELECT_ENET_RMII_CLOCK 0x401F842Cu
#define SELECT_ENET_MDIO 0x401F8430u
#define SELECT_ENET_RXD0 0x401F8434u
#define SELECT_ENET_RXD1 0x401F8438u
#define SELECT_ENET_RXEN 0x401F843Cu
#define SELECT_ENET_RXERR 0x401F8440u
#define SELECT_LPUART6_RX 0x401F8550u
#define SELECT_LPUART6_TX 0x401F8554u

/* Watchdog 1 (16-bit registers) and the RT watchdog, which must be off. */
#define WDOG1_WCR 0x400B8000u
#define WDOG1_WSR 0x400B8002u
#define WDOG1_WICR 0x400B8006u
#define WICR_WIE (1u << 15)
#define WDOG1_WMCR 0x400B8008u
#define WCR_WDZST (1u << 0)
#define WCR_WDBG (1u << 1)
#define WCR_WDE (1u << 2)
#define WCR_SRS (1u << 4)
#define WCR_WDA (1u << 5)
#define WDOG3_CS 0x400BC000u
#define WDOG3_CNT 0x400BC004u
#define WDOG3_TOVAL 0x400BC008u
#define WDOG3_CS_EN (1u << 7)
#define WDOG3_CS_UPDATE (1u << 5)
#define WDOG3_UNLOCK 0xD928C520u

/* True random numbers. */
#define TRNG_MCTL 0x400CC000u
#define TRNG_SCMISC 0x400CC004u
#define TRNG_PKRRNG 0x400CC008u
#define TRNG_PKRMAX 0x400CC00Cu
#define TRNG_SDCTL 0x400CC010u
#define TRNG_SBLIM 0x400CC014u
#define TRNG_FRQMIN 0x400CC018u
#define TRNG_FRQMAX 0x400CC01Cu
#define TRNG_SCML 0x400CC020u
#define TRNG_SCRL(n) (0x400CC020u + 4u * (n)) /* limits of runs of length n, 1..6 */
#define TRNG_ENT(n) (0x400CC040u + 4u * (n))
#define TRNG_ENT_WORDS 16u
#define MCTL_PRGM (1u << 16)
#define MCTL_ERR (1u << 12)
#define MCTL_ENT_VAL (1u << 10)
#define MCTL_RST_DEF (1u << 6)
#define MCTL_TRNG_ACC (1u << 5)
#define MCTL_SAMP_RAW 1u

/* Clock sources. A register at +4 sets bits, one at +8 clears them. */
#define PLL_ARM 0x400D8000u
#define PLL_ENET 0x400D80E0u
#define PLL_ENET_SET 0x400D80E4u
#define PLL_ENET_CLR 0x400D80E8u
#define PLL_LOCK (1u << 31)
#define PLL_BYPASS (1u << 16)
#define PLL_ENABLE (1u << 13)
#define PLL_POWERDOWN (1u << 12)
#define PLL_ARM_DIV 0x7Fu
#define PLL_ENET_25M_REF_EN (1u << 21)
#define PLL_ENET_DIV 0x0Fu
#define PLL_ENET_DIV_50_MHZ 1u
#define PMU_MISC0_SET 0x400D8154u
#define PMU_MISC0_SELFBIAS_OFF (1u << 3)

/* Temperature. */
#define TEMPSENSE0 0x400D8180u
#define TEMPSENSE1 0x400D8190u
#define TEMPSENSE0_FINISHED (1u << 2)
#define TEMPSENSE0_MEASURE (1u << 1)
#define TEMPSENSE0_POWER_DOWN (1u << 0)

/* What reset the chip last: writing a one clears it. */
#define SRC_SRSR 0x400F8008u
#define SRSR_POWER_ON (1u << 0)
#define SRSR_SOFTWARE (1u << 1)
#define SRSR_SECURITY (1u << 2)
#define SRSR_BUTTON (1u << 3)
#define SRSR_WATCHDOG (1u << 4)
#define SRSR_JTAG ((1u << 5) | (1u << 6))
#define SRSR_WATCHDOG3 (1u << 7)
#define SRSR_TEMPERATURE (1u << 8)

/* Clock tree. */
#define CCM_CACRR 0x400FC010u
#define CCM_CBCDR 0x400FC014u
#define CCM_CBCMR 0x400FC018u
#define CCM_CSCMR1 0x400FC01Cu
#define CCM_CSCDR1 0x400FC024u
#define CCM_CDHIPR 0x400FC048u
#define CCM_CLPCR 0x400FC054u
#define CLPCR_LPM 3u /* 0: a sleeping core stops nothing but itself */
#define CCM_CCGR(n) (0x400FC068u + 4u * (n))
#define CBCDR_PERIPH_CLK2_PODF (7u << 27)
#define CBCDR_PERIPH_CLK_SEL (1u << 25)
#define CBCDR_AHB_PODF (7u << 10)
#define CBCDR_IPG_PODF (3u << 8)
#define CBCDR_IPG_BY_4 (3u << 8)
#define CBCMR_PRE_PERIPH_ARM_PLL (3u << 18)
#define CBCMR_PERIPH_CLK2_SEL (3u << 12)
#define CBCMR_PERIPH_CLK2_OSC (1u << 12)
#define CSCMR1_PERCLK_OSC (1u << 6)
#define CSCMR1_PERCLK_PODF 0x3Fu
#define CSCDR1_UART_OSC (1u << 6)
#define CSCDR1_UART_PODF 0x3Fu
#define CDHIPR_ARM_PODF_BUSY (1u << 16)
#define CDHIPR_PERIPH_CLK_SEL_BUSY (1u << 5)
#define CDHIPR_PERIPH2_CLK_SEL_BUSY (1u << 3)
#define CDHIPR_AHB_PODF_BUSY (1u << 1)
#define CCGR0_GPIO2 (3u << 30)
#define CCGR1_GPT1 (15u << 20)
#define CCGR1_PIT (3u << 12)
#define CCGR1_ENET (3u << 10)
#define CCGR2_OCOTP (3u << 12)
#define CCGR3_WDOG1 (3u << 16)
#define CCGR3_LPUART6 (3u << 6)
#define CCGR5_WDOG3 (3u << 4)
#define CCGR6_TRNG (3u << 12)
#define CCGR6_DCDC (3u << 6)

/* Serial console. */
#define LPUART6_BAUD 0x40198010u
#define LPUART6_STAT 0x40198014u
#define LPUART6_CTRL 0x40198018u
#define LPUART6_DATA 0x4019801Cu
#define LPUART6_FIFO 0x40198028u
#define LPUART_STAT_TDRE (1u << 23)
#define LPUART_STAT_TC (1u << 22)
#define LPUART_STAT_RDRF (1u << 21)
#define LPUART_STAT_OVERRUN (1u << 19)
#define LPUART_CTRL_TE (1u << 19)
#define LPUART_CTRL_RE (1u << 18)
#define LPUART_FIFO_TXFE (1u << 7)
#define LPUART_FIFO_RXFE (1u << 3)
#define LPUART_BAUD_115200 ((15u << 24) | 13u) /* 24 MHz / 16 / 13 = 115,385 */

/* Fuses, as shadow registers. */
#define OCOTP_CFG0 0x401F4410u /* and 1: the chip's own number */
#define OCOTP_CFG1 0x401F4420u
#define OCOTP_CFG5 0x401F4460u
#define OCOTP_CFG5_LOCKED (1u << 1)
#define OCOTP_ANA1 0x401F44E0u
#define OCOTP_MAC0 0x401F4620u
#define OCOTP_MAC1 0x401F4630u

/* The timer that is the clock: 24 MHz by 24. */
#define GPT1_CR 0x401EC000u
#define GPT1_PR 0x401EC004u
#define GPT1_IR 0x401EC00Cu
#define GPT1_CNT 0x401EC024u
#define GPT_ON (1u << 0)
#define GPT_FROM_ZERO (1u << 1)
#define GPT_IN_WAIT (1u << 3)
#define GPT_FROM_PERCLK (2u << 6)
#define GPT_FREE_RUNNING (1u << 9)
#define GPT_BY_24 23u

/* The controller of the program flash. */
#define FLEXSPI_MCR0 0x402A8000u
#define FLEXSPI_INTR 0x402A8014u
#define FLEXSPI_LUTKEY 0x402A8018u
#define FLEXSPI_LUTCR 0x402A801Cu
#define FLEXSPI_IPCR0 0x402A80A0u
#define FLEXSPI_IPCR1 0x402A80A4u
#define FLEXSPI_IPCMD 0x402A80B0u
#define FLEXSPI_IPRXFCR 0x402A80B8u
#define FLEXSPI_IPTXFCR 0x402A80BCu
#define FLEXSPI_RFDR0 0x402A8100u
#define FLEXSPI_TFDR0 0x402A8180u
#define FLEXSPI_LUT(n) (0x402A8200u + 4u * (n))
#define FLEXSPI_MCR0_SWRESET (1u << 0)
#define FLEXSPI_INTR_IPTXWE (1u << 6)
#define FLEXSPI_INTR_IPRXWA (1u << 5)
#define FLEXSPI_INTR_IPCMDERR (1u << 3)
#define FLEXSPI_INTR_IPCMDGE (1u << 1)
#define FLEXSPI_INTR_IPCMDDONE (1u << 0)
#define FLEXSPI_LUTKEY_VALUE 0x5AF05AF0u
#define FLEXSPI_LUTCR_UNLOCK 2u
#define FLEXSPI_CLEAR_FIFO 1u

/* Fast general-purpose outputs. */
#define GPIO7_GDIR 0x42004004u
#define GPIO7_DR_SET 0x42004084u
#define GPIO7_DR_CLEAR 0x42004088u
#define GPIO7_LED (1u << 3)
#define GPIO7_PHY_RESET (1u << 14) /* low resets the PHY */
#define GPIO7_PHY_POWER (1u << 15) /* high runs the PHY */

#define ENET_BASE 0x402D8000u

#endif
