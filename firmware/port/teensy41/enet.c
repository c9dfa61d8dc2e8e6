/*
 * Rings of short descriptors, 8 each way, a whole frame in each buffer. The core owns a descriptor while
 * the top flag (empty, ready) is as the controller left it; flags are written last, behind a barrier, since
 * they hand the buffer over. Freed receive buffers are announced at once, since a full ring stops the
 * receiver.
 */
#include "firmware/port/teensy41/enet.h"

#include "firmware/port/teensy41/enet_regs.h"
#include "firmware/port/teensy41/reg.h"

#include <stddef.h>

enum { RESET_US = 1000, CHECK_SEQUENCE = 4, FRAME_LIMIT = 1522 };

static void set_up_rings(struct enet *enet)
{
    struct enet_memory *memory = enet->memory;
    for (uint32_t i = 0; i < ENET_RX; i++) {
        memory->rx[i].length = 0;
        memory->rx[i].buffer = (uint32_t)(uintptr_t)memory->rx_buffer[i];
        memory->rx[i].flags = (uint16_t)(ENET_RX_EMPTY | (i == ENET_RX - 1 ? ENET_RX_WRAP : 0));
    }
    for (uint32_t i = 0; i < ENET_TX; i++) {
        memory->tx[i].length = 0;
        memory->tx[i].buffer = (uint32_t)(uintptr_t)memory->tx_buffer[i];
        memory->tx[i].flags = (uint16_t)(i == ENET_TX - 1 ? ENET_TX_WRAP : 0);
    }
    enet->rx_at = enet->tx_at = 0;
    reg_barrier();
    reg_write(enet->base + ENET_RDSR, (uint32_t)(uintptr_t)memory->rx);
    reg_write(enet->base + ENET_TDSR, (uint32_t)(uintptr_t)memory->tx);
    reg_write(enet->base + ENET_MRBR, ENET_BUFFER);
}

static void set_address(const struct enet *enet)
{
    const uint8_t *mac = enet->mac;
    reg_write(enet->base + ENET_PALR,
              (uint32_t)mac[0] << 24 | (uint32_t)mac[1] << 16 | (uint32_t)mac[2] << 8 | mac[3]);
    reg_write(enet->base + ENET_PAUR, (uint32_t)mac[4] << 24 | (uint32_t)mac[5] << 16 | ENET_PAUR_TYPE);
    /* No group addresses but broadcast. */
    reg_write(enet->base + ENET_IAUR, 0);
    reg_write(enet->base + ENET_IALR, 0);
    reg_write(enet->base + ENET_GAUR, 0);
    reg_write(enet->base + ENET_GALR, 0);
}

/* Stops the controller, which forgets its place in the rings, and starts it at the link's speed. */
static void run(struct enet *enet)
{
    const struct phy *phy = &enet->phy;
    reg_write(enet->base + ENET_ECR, ENET_ECR_LITTLE_ENDIAN);
    set_up_rings(enet);
    set_address(enet);
    reg_write(enet->base + ENET_RCR, ENET_RCR_MAX_LENGTH(FRAME_LIMIT) | ENET_RCR_RMII | ENET_RCR_MII |
                                         (phy->fast ? 0 : ENET_RCR_10_MBIT) |
                                         (phy->full ? 0 : ENET_RCR_NO_LOOP_IN_HALF_DUPLEX));
    reg_write(enet->base + ENET_TCR, phy->full ? ENET_TCR_FULL_DUPLEX : 0);
    reg_write(enet->base + ENET_TFWR, ENET_TFWR_WHOLE_FRAME);
    reg_write(enet->base + ENET_TACC, 0);
    reg_write(enet->base + ENET_RACC, 0);
    reg_write(enet->base + ENET_EIR, ENET_EIR_ALL);
    reg_write(enet->base + ENET_ECR, ENET_ECR_LITTLE_ENDIAN | ENET_ECR_ENABLE);
    reg_write(enet->base + ENET_RDAR, ENET_ACTIVE);
    enet->running = true;
}

static void stop(struct enet *enet)
{
    reg_write(enet->base + ENET_ECR, ENET_ECR_LITTLE_ENDIAN);
    enet->running = false;
}

const char *enet_start(struct enet *enet, uint32_t base, struct enet_memory *memory, const uint8_t mac[6],
                       uint32_t clock_hz)
{
    *enet = (struct enet){.base = base, .memory = memory};
    for (int i = 0; i < 6; i++)
        enet->mac[i] = mac[i];
    reg_write(base + ENET_ECR, ENET_ECR_RESET);
    if (!reg_wait(base + ENET_ECR, ENET_ECR_RESET, 0, RESET_US))
        return "Ethernet controller does not come out of its reset";
    reg_write(base + ENET_EIMR, 0);
    reg_write(base + ENET_ECR, ENET_ECR_LITTLE_ENDIAN);
    return phy_start(&enet->phy, base, clock_hz);
}

bool enet_poll_link(struct enet *enet)
{
    bool changed = phy_poll(&enet->phy);
    if (!enet->phy.up) {
        if (enet->running)
            stop(enet);
        return false;
    }
    if (enet->running && !changed && reg_read(enet->base + ENET_EIR) & ENET_EIR_EBERR)
        enet->restarts++;
    else if (enet->running && !changed)
        return true;
    run(enet);
    return true;
}

uint8_t *enet_send_buffer(struct enet *enet)
{
    if (!enet->running)
        return NULL;
    if (enet->memory->tx[enet->tx_at].flags & ENET_TX_READY) {
        enet->refused++;
        return NULL;
    }
    return enet->memory->tx_buffer[enet->tx_at];
}

void enet_send(struct enet *enet, uint32_t n)
{
    volatile struct enet_descriptor *d = &enet->memory->tx[enet->tx_at];
    bool last = enet->tx_at == ENET_TX - 1;
    d->length = (uint16_t)n;
    reg_barrier();
    d->flags = (uint16_t)(ENET_TX_READY | ENET_TX_LAST | ENET_TX_CHECK | (last ? ENET_TX_WRAP : 0));
    reg_barrier();
    reg_write(enet->base + ENET_TDAR, ENET_ACTIVE);
    enet->tx_at = last ? 0 : enet->tx_at + 1;
    enet->sent++;
}

void enet_interrupt(struct enet *enet, bool on)
{
    if (on)
        reg_write(enet->base + ENET_EIR, ENET_EIR_RXF);
    reg_write(enet->base + ENET_EIMR, on ? ENET_EIR_RXF : 0);
}

bool enet_waiting(const struct enet *enet)
{
    return enet->running && !(enet->memory->rx[enet->rx_at].flags & ENET_RX_EMPTY);
}

const uint8_t *enet_receive(struct enet *enet, uint32_t *n)
{
    /* At most once round, so that a flood of damaged frames does not hold the caller. */
    for (int i = 0; enet->running && i < ENET_RX; i++) {
        volatile struct enet_descriptor *d = &enet->memory->rx[enet->rx_at];
        uint32_t flags = d->flags, length = d->length;
        if (flags & ENET_RX_EMPTY)
            break;
        reg_barrier();
        if (flags & ENET_RX_LAST && !(flags & ENET_RX_BAD) && length >= ENET_FRAME_MIN + CHECK_SEQUENCE &&
            length <= ENET_FRAME_MAX + CHECK_SEQUENCE) {
            *n = length - CHECK_SEQUENCE;
            enet->received++;
            return enet->memory->rx_buffer[enet->rx_at];
        }
        enet->damaged++;
        enet_release(enet);
    }
    return NULL;
}

void enet_release(struct enet *enet)
{
    bool last = enet->rx_at == ENET_RX - 1;
    reg_barrier();
    enet->memory->rx[enet->rx_at].flags = (uint16_t)(ENET_RX_EMPTY | (last ? ENET_RX_WRAP : 0));
    reg_barrier();
    reg_write(enet->base + ENET_RDAR, ENET_ACTIVE);
    enet->rx_at = last ? 0 : enet->rx_at + 1;
}
