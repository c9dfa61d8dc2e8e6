/*
 * The Ethernet controller of the i.MX family: offsets from its base, the same on RT1062 and i.MX6UL, and the
 * two kinds of descriptor bits.
 */
#ifndef SHOAL_FIRMWARE_PORT_TEENSY41_ENET_REGS_H
#define SHOAL_FIRMWARE_PORT_TEENSY41_ENET_REGS_H

#define ENET_EIR 0x004u
#define ENET_EIMR 0x008u
#define ENET_RDAR 0x010u
#define ENET_TDAR 0x014u
#define ENET_ECR 0x024u
#define ENET_MMFR 0x040u
#define ENET_MSCR 0x044u
#define ENET_RCR 0x084u
#define ENET_TCR 0x0C4u
#define ENET_PALR 0x0E4u
#define ENET_PAUR 0x0E8u
#define ENET_IAUR 0x118u
#define ENET_IALR 0x11Cu
#define ENET_GAUR 0x120u
#define ENET_GALR 0x124u
#define ENET_TFWR 0x144u
#define ENET_RDSR 0x180u
#define ENET_TDSR 0x184u
#define ENET_MRBR 0x188u
#define ENET_TACC 0x1C0u
#define ENET_RACC 0x1C4u

#define ENET_EIR_RXF (1u << 25)
#define ENET_EIR_MII (1u << 23)
#define ENET_EIR_EBERR (1u << 22)
#define ENET_EIR_ALL 0x7FFF8000u
#define ENET_ACTIVE (1u << 24) /* RDAR, TDAR */
#define ENET_ECR_LITTLE_ENDIAN (1u << 8)
#define ENET_ECR_ENABLE (1u << 1)
#define ENET_ECR_RESET (1u << 0)
#define ENET_MMFR_FRAME ((1u << 30) | (2u << 16))
#define ENET_MMFR_READ (2u << 28)
#define ENET_MMFR_WRITE (1u << 28)
#define ENET_MSCR_HOLD_2 (1u << 8)
#define ENET_RCR_MAX_LENGTH(n) ((uint32_t)(n) << 16)
#define ENET_RCR_10_MBIT (1u << 9)
#define ENET_RCR_RMII (1u << 8)
#define ENET_RCR_NO_LOOP_IN_HALF_DUPLEX (1u << 1)
#define ENET_RCR_MII (1u << 2)
#define ENET_TCR_FULL_DUPLEX (1u << 2)
#define ENET_TFWR_WHOLE_FRAME (1u << 8)
#define ENET_PAUR_TYPE 0x8808u

#define ENET_RX_EMPTY 0x8000u
#define ENET_RX_WRAP 0x2000u
#define ENET_RX_LAST 0x0800u
#define ENET_RX_BAD 0x0037u /* too long, not whole bytes, check sequence, overrun, cut */
#define ENET_TX_READY 0x8000u
#define ENET_TX_WRAP 0x2000u
#define ENET_TX_LAST 0x0800u
#define ENET_TX_CHECK 0x0400u /* append the check sequence */

#endif
