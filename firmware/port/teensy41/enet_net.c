/*
 * Between lwIP and the Ethernet controller: each frame is copied once, between a pbuf and a ring's buffer,
 * since the rings lie in memory that is not cached and pbufs in memory that is.
 */
#include "firmware/port/teensy41/enet_net.h"

#include "firmware/net/say.h"
#include "shared/base/status.h"

#include "lwip/pbuf.h"

int enet_net_send(void *context, const struct pbuf *frame)
{
    struct enet *enet = context;
    if (frame->tot_len > ENET_FRAME_MAX)
        return STATUS_TOO_LARGE;
    uint8_t *buffer = enet_send_buffer(enet);
    if (buffer == NULL)
        return STATUS_BUSY;
    pbuf_copy_partial(frame, buffer, frame->tot_len, 0);
    enet_send(enet, frame->tot_len);
    return STATUS_OK;
}

struct pbuf *enet_net_receive(void *context)
{
    struct enet *enet = context;
    uint32_t n = 0;
    const uint8_t *bytes = enet_receive(enet, &n);
    if (bytes == NULL)
        return NULL;
    struct pbuf *frame = pbuf_alloc(PBUF_RAW, (u16_t)n, PBUF_POOL);
    if (frame != NULL)
        pbuf_take(frame, bytes, (u16_t)n);
    enet_release(enet);
    return frame;
}

bool enet_net_link_up(void *context)
{
    struct enet *enet = context;
    struct phy before = enet->phy;
    uint32_t restarts = enet->restarts;
    bool up = enet_poll_link(enet);
    const struct phy *phy = &enet->phy;
    if (up && (!before.up || before.fast != phy->fast || before.full != phy->full))
        say("link: %s Mbit/s, %s duplex", phy->fast ? "100" : "10", phy->full ? "full" : "half");
    else if (!up && before.up)
        say("link: down");
    if (enet->restarts != restarts)
        say("Ethernet controller started anew after a bus error");
    return up;
}
