/* The driver of net.h over enet.h: frames to and from lwIP's buffers. A port gives what comes before:
 * `start`. */
#ifndef SHOAL_FIRMWARE_PORT_TEENSY41_ENET_NET_H
#define SHOAL_FIRMWARE_PORT_TEENSY41_ENET_NET_H

#include "firmware/net/net.h"
#include "firmware/port/teensy41/enet.h"

/* The three other functions of a struct net_driver; the context is the struct enet. */
int enet_net_send(void *context, const struct pbuf *frame);
struct pbuf *enet_net_receive(void *context);
/* Says on the console when the link comes, goes or changes its speed. */
bool enet_net_link_up(void *context);

#endif
