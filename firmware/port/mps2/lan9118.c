/*
 * The LAN9118 of mps2-an500, polled through its FIFOs; its interrupt only ends a sleep. The chip gives and
 * takes whole 32-bit words. A received length counts the four bytes of the check sequence, which are read and
 * dropped.
 */
#include "firmware/net/net.h"
#include "firmware/port/m7/m7.h"
#include "firmware/port/mps2/mps2.h"
#include "firmware/port/port.h"
#include "shared/base/status.h"

#include "lwip/pbuf.h"

#define CHIP(offset) MPS2_REGISTER(0xA0000000u + (offset))
enum {
    RX_DATA = 0x00,
    TX_DATA = 0x20,
    RX_STATUS = 0x40,
    TX_STATUS = 0x48,
    IRQ_CFG = 0x54,
    INT_STS = 0x58,
    INT_EN = 0x5C,
    BYTE_TEST = 0x64,
    FIFO_INT = 0x68,
    RX_CFG = 0x6C,
    TX_CFG = 0x70,
    HW_CFG = 0x74,
    RX_FIFO_INF = 0x7C,
    TX_FIFO_INF = 0x80,
    MAC_CMD = 0xA4,
    MAC_DATA = 0xA8
};
enum { MAC_CR = 1, MAC_ADDRH = 2, MAC_ADDRL = 3, MAC_MII_ACC = 6, MAC_MII_DATA = 7 };
enum { PHY_CONTROL = 0, PHY_STATUS = 1, PHY_ADVERTISE = 4, PHY_STATUS_LINK = 4 };
enum { INTERRUPT = 13, RX_ERROR = 0x8000, CHECK_BYTES = 4, INT_RX_LEVEL = 1 << 3, TRIES = 1000000 };

static bool chip_ready(volatile uint32_t *reg, uint32_t busy)
{
    for (uint32_t i = 0; i < TRIES; i++)
        if ((*reg & busy) == 0)
            return true;
    return false;
}

static uint32_t mac_get(uint32_t index)
{
    CHIP(MAC_CMD) = 0xC0000000u | index;
    chip_ready(&CHIP(MAC_CMD), 1u << 31);
    return CHIP(MAC_DATA);
}

static void mac_put(uint32_t index, uint32_t value)
{
    CHIP(MAC_DATA) = value;
    CHIP(MAC_CMD) = 0x80000000u | index;
    chip_ready(&CHIP(MAC_CMD), 1u << 31);
}

static uint32_t phy_get(uint32_t index)
{
    mac_put(MAC_MII_ACC, 1u << 11 | index << 6 | 1u);
    for (uint32_t i = 0; i < TRIES && (mac_get(MAC_MII_ACC) & 1u) != 0; i++) {
    }
    return mac_get(MAC_MII_DATA);
}

static void phy_put(uint32_t index, uint32_t value)
{
    mac_put(MAC_MII_DATA, value);
    mac_put(MAC_MII_ACC, 1u << 11 | index << 6 | 3u);
    for (uint32_t i = 0; i < TRIES && (mac_get(MAC_MII_ACC) & 1u) != 0; i++) {
    }
}

/* Level-triggered: masked here, armed again before the next sleep. */
static void on_interrupt(void)
{
    CHIP(INT_EN) = 0;
}

static uint32_t frames_waiting(void)
{
    return CHIP(RX_FIFO_INF) >> 16 & 0xFFu;
}

void lan9118_wait(void)
{
    __asm volatile("cpsid i" ::: "memory");
    CHIP(INT_STS) = UINT32_MAX;
    CHIP(INT_EN) = INT_RX_LEVEL;
    if (frames_waiting() == 0)
        __asm volatile("wfi" ::: "memory");
    __asm volatile("cpsie i\n isb" ::: "memory");
}

static int start(void *context, uint8_t mac[NET_MAC_BYTES])
{
    (void)context;
    if (CHIP(BYTE_TEST) != 0x87654321u)
        return STATUS_IO_FAILED;
    CHIP(HW_CFG) = 1; /* reset */
    if (!chip_ready(&CHIP(HW_CFG), 1))
        return STATUS_IO_FAILED;
    CHIP(HW_CFG) = 5u << 16 | 1u << 20; /* 5 KB for sending; a bit that must be one */
    CHIP(INT_EN) = 0;
    CHIP(INT_STS) = UINT32_MAX;
    CHIP(RX_CFG) = 0;
    CHIP(FIFO_INT) = 0xFF000000u; /* an interrupt with the first frame */
    CHIP(IRQ_CFG) = 0x111;        /* on, active high, push-pull */
    uint32_t low = mac_get(MAC_ADDRL), high = mac_get(MAC_ADDRH);
    for (uint32_t i = 0; i < NET_MAC_BYTES; i++)
        mac[i] = (uint8_t)(i < 4 ? low >> 8 * i : high >> 8 * (i - 4));
    phy_put(PHY_CONTROL, 0x8000);
    phy_put(PHY_ADVERTISE, 0x01E1);
    phy_put(PHY_CONTROL, 0x1200);
    m7_interrupt(INTERRUPT, on_interrupt, 0x80);
    CHIP(TX_CFG) = 2;                              /* on */
    mac_put(MAC_CR, 1u << 20 | 1u << 3 | 1u << 2); /* full duplex, both ways */
    return STATUS_OK;
}

/* Bytes of a chain as words; what is left of the last word is padded. */
static void put_words(const struct pbuf *frame)
{
    uint32_t word = 0, filled = 0;
    for (const struct pbuf *p = frame; p != NULL; p = p->next) {
        const uint8_t *bytes = p->payload;
        for (uint32_t i = 0; i < p->len; i++) {
            word |= (uint32_t)bytes[i] << 8 * filled;
            if (++filled == 4) {
                CHIP(TX_DATA) = word;
                word = filled = 0;
            }
        }
    }
    if (filled > 0)
        CHIP(TX_DATA) = word;
}

static int send(void *context, const struct pbuf *frame)
{
    (void)context;
    while ((CHIP(TX_FIFO_INF) >> 16 & 0xFFu) != 0)
        (void)CHIP(TX_STATUS);
    if ((CHIP(TX_FIFO_INF) & 0xFFFFu) < frame->tot_len + 16u)
        return STATUS_BUSY;
    CHIP(TX_DATA) = 1u << 13 | 1u << 12 | frame->tot_len; /* first and last segment */
    CHIP(TX_DATA) = frame->tot_len;
    put_words(frame);
    return STATUS_OK;
}

static struct pbuf *receive(void *context)
{
    (void)context;
    if (frames_waiting() == 0)
        return NULL;
    uint32_t status = CHIP(RX_STATUS), n = status >> 16 & 0x3FFFu, words = (n + 3) / 4;
    bool good = (status & RX_ERROR) == 0 && n > CHECK_BYTES && n <= NET_FRAME_MAX + CHECK_BYTES;
    struct pbuf *p = good ? pbuf_alloc(PBUF_RAW, (u16_t)(n - CHECK_BYTES), PBUF_POOL) : NULL;
    uint32_t *to = p != NULL ? p->payload : NULL, room = p != NULL ? (n - CHECK_BYTES + 3) / 4 : 0;
    for (uint32_t i = 0; i < words; i++) {
        uint32_t word = CHIP(RX_DATA);
        if (i < room)
            to[i] = word;
    }
    return p;
}

static bool link_up(void *context)
{
    (void)context;
    return (phy_get(PHY_STATUS) & PHY_STATUS_LINK) != 0;
}

const struct net_driver *port_network(void)
{
    static const struct net_driver driver = {NULL, start, send, receive, link_up};
    return &driver;
}
