/*
 * An Ethernet port whose cable ends in libslirp, inside this process: the same 10.0.2.0/24 as under
 * QEMU, 10.0.2.2 is this machine's loopback. libslirp hands out frames while it is pumped; they wait in a
 * ring until lwIP takes them.
 */
#include "firmware/net/net.h"
#include "firmware/port/port.h"
#include "firmware/port/slirp/slirp_port.h"
#include "shared/base/status.h"

#include "lwip/pbuf.h"

#include <arpa/inet.h>
#include <poll.h>
#include <slirp/libslirp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RING = 64, FDS_MAX = 64, TIMERS_MAX = 8 };

static struct {
    uint8_t bytes[NET_FRAME_MAX];
    uint32_t n;
} ring[RING];
static uint32_t ring_first, ring_n;

struct timer {
    SlirpTimerCb call;
    void *context;
    int64_t at_ms; /* -1: off */
};

static Slirp *slirp;
static struct timer timers[TIMERS_MAX];
static uint32_t n_timers;
static struct pollfd fds[FDS_MAX];
static int n_fds;

static int64_t now_ns(void *context)
{
    (void)context;
    return (int64_t)(port_now_us() * 1000);
}

/* A frame for the board; dropped when the ring is full, as by a real card. */
static ssize_t to_board(const void *bytes, size_t n, void *context)
{
    (void)context;
    if (ring_n < RING && n <= NET_FRAME_MAX) {
        memcpy(ring[(ring_first + ring_n) % RING].bytes, bytes, n);
        ring[(ring_first + ring_n) % RING].n = (uint32_t)n;
        ring_n++;
    }
    return (ssize_t)n;
}

static void guest_error(const char *text, void *context)
{
    (void)context;
    fprintf(stderr, "slirp: %s\n", text);
}

static void *timer_new(SlirpTimerCb call, void *call_context, void *context)
{
    (void)context;
    if (n_timers == TIMERS_MAX)
        abort();
    timers[n_timers] = (struct timer){call, call_context, -1};
    return &timers[n_timers++];
}

static void timer_free(void *timer, void *context)
{
    (void)context;
    ((struct timer *)timer)->at_ms = -1;
}

static void timer_mod(void *timer, int64_t at_ms, void *context)
{
    (void)context;
    ((struct timer *)timer)->at_ms = at_ms;
}

static void nothing_fd(int fd, void *context)
{
    (void)fd;
    (void)context;
}

static void nothing(void *context)
{
    (void)context;
}

static int add_poll(int fd, int events, void *context)
{
    (void)context;
    if (n_fds == FDS_MAX)
        abort();
    fds[n_fds].fd = fd;
    fds[n_fds].events =
        (short)((events & SLIRP_POLL_IN ? POLLIN : 0) | (events & SLIRP_POLL_OUT ? POLLOUT : 0) |
                (events & SLIRP_POLL_PRI ? POLLPRI : 0));
    fds[n_fds].revents = 0;
    return n_fds++;
}

static int get_revents(int index, void *context)
{
    short events = fds[index].revents;
    (void)context;
    return (events & POLLIN ? SLIRP_POLL_IN : 0) | (events & POLLOUT ? SLIRP_POLL_OUT : 0) |
           (events & POLLPRI ? SLIRP_POLL_PRI : 0) | (events & POLLERR ? SLIRP_POLL_ERR : 0) |
           (events & POLLHUP ? SLIRP_POLL_HUP : 0);
}

void slirp_port_pump(uint32_t ms)
{
    uint32_t timeout = ring_n > 0 ? 0 : ms;
    n_fds = 0;
    slirp_pollfds_fill(slirp, &timeout, add_poll, NULL);
    int rc = poll(fds, (nfds_t)n_fds, (int)(timeout < ms ? timeout : ms));
    slirp_pollfds_poll(slirp, rc < 0, get_revents, NULL);
    int64_t now = now_ns(NULL) / 1000000;
    for (uint32_t i = 0; i < n_timers; i++)
        if (timers[i].at_ms >= 0 && timers[i].at_ms <= now) {
            timers[i].at_ms = -1;
            timers[i].call(timers[i].context);
        }
}

static int start(void *context, uint8_t mac[NET_MAC_BYTES])
{
    static const uint8_t address[NET_MAC_BYTES] = {0x52, 0x54, 0x00, 0x53, 0x4C, 0x50};
    static const SlirpCb calls = {.send_packet = to_board,
                                  .guest_error = guest_error,
                                  .clock_get_ns = now_ns,
                                  .timer_new = timer_new,
                                  .timer_free = timer_free,
                                  .timer_mod = timer_mod,
                                  .register_poll_fd = nothing_fd,
                                  .unregister_poll_fd = nothing_fd,
                                  .notify = nothing};
    SlirpConfig config = {.version = 1, .in_enabled = true};
    (void)context;
    inet_aton("10.0.2.0", &config.vnetwork);
    inet_aton("255.255.255.0", &config.vnetmask);
    inet_aton("10.0.2.2", &config.vhost);
    inet_aton("10.0.2.15", &config.vdhcp_start);
    inet_aton("10.0.2.3", &config.vnameserver);
    memcpy(mac, address, sizeof address);
    slirp = slirp_new(&config, &calls, NULL);
    return slirp != NULL ? STATUS_OK : STATUS_NO_MEMORY;
}

void slirp_port_end(void)
{
    if (slirp != NULL)
        slirp_cleanup(slirp);
    slirp = NULL;
}

static int send_frame(void *context, const struct pbuf *frame)
{
    uint8_t bytes[NET_FRAME_MAX];
    (void)context;
    if (frame->tot_len <= sizeof bytes) {
        pbuf_copy_partial(frame, bytes, frame->tot_len, 0);
        slirp_input(slirp, bytes, frame->tot_len);
    }
    return STATUS_OK;
}

static struct pbuf *receive(void *context)
{
    (void)context;
    if (ring_n == 0)
        slirp_port_pump(0);
    if (ring_n == 0)
        return NULL;
    uint32_t n = ring[ring_first].n;
    struct pbuf *p = pbuf_alloc(PBUF_RAW, (u16_t)n, PBUF_POOL);
    if (p != NULL)
        pbuf_take(p, ring[ring_first].bytes, (u16_t)n);
    ring_first = (ring_first + 1) % RING;
    ring_n--;
    return p;
}

static bool link_up(void *context)
{
    (void)context;
    return true;
}

const struct net_driver *port_network(void)
{
    static const struct net_driver driver = {NULL, start, send_frame, receive, link_up};
    return &driver;
}
