/*
 * The Ethernet controller of the i.MX family, polled: rings of buffers in memory that the caller gives. Runs
 * on the RT1062 of the Teensy 4.1 and on QEMU's i.MX6UL alike; knows neither clocks nor pins (rmii.h).
 *
 * The memory must not be cached (or the caches be off): the controller reads and writes it behind the core's
 * back.
 */
#ifndef SHOAL_FIRMWARE_PORT_TEENSY41_ENET_H
#define SHOAL_FIRMWARE_PORT_TEENSY41_ENET_H

#include "firmware/port/teensy41/phy.h"

#include <stdbool.h>
#include <stdint.h>

enum { ENET_RX = 8, ENET_TX = 8, ENET_BUFFER = 1536, ENET_FRAME_MAX = 1514, ENET_FRAME_MIN = 14 };

struct enet_descriptor {
    uint16_t length, flags;
    uint32_t buffer;
};

/* About 24 KB. As many frames out as lwIP has of one connection on its way (TCP_SND_BUF), so that a burst is
 * never refused. */
struct enet_memory {
    _Alignas(64) volatile struct enet_descriptor rx[ENET_RX];
    _Alignas(64) volatile struct enet_descriptor tx[ENET_TX];
    _Alignas(64) uint8_t rx_buffer[ENET_RX][ENET_BUFFER];
    _Alignas(64) uint8_t tx_buffer[ENET_TX][ENET_BUFFER];
};

struct enet {
    uint32_t base;
    struct enet_memory *memory;
    struct phy phy;
    uint8_t mac[6];
    bool running; /* the link is up and the controller set to its speed */
    uint32_t rx_at, tx_at;
    uint32_t received, sent, damaged, refused, restarts; /* frames; refused: the ring was full */
};

/* Resets the controller and finds the PHY. `clock_hz` is the controller's (the IPG bus). NULL, or static text
 * that names the step. Frames move once enet_poll_link() has seen the link. */
const char *enet_start(struct enet *enet, uint32_t base, struct enet_memory *memory, const uint8_t mac[6],
                       uint32_t clock_hz);
/* Asks the PHY; sets the controller to a new speed; starts it anew when a bus error stopped it. True while
 * the link is up. Up to some 10 times a second: one call takes 0.1 ms. */
bool enet_poll_link(struct enet *enet);

/* The buffer for the next frame to send, ENET_FRAME_MAX bytes; NULL: link down, or all are on their way.
 * enet_send hands it over; the controller pads short frames and appends the check sequence. */
uint8_t *enet_send_buffer(struct enet *enet);
void enet_send(struct enet *enet, uint32_t n);
/* Lets the controller raise its interrupt with the next frame (or not). */
void enet_interrupt(struct enet *enet, bool on);
/* Whether enet_receive has something to look at. */
bool enet_waiting(const struct enet *enet);
/* The oldest frame that came, *n bytes without check sequence; NULL: none. Valid until enet_release. Damaged
 * ones are dropped inside. */
const uint8_t *enet_receive(struct enet *enet, uint32_t *n);
void enet_release(struct enet *enet);

#endif
