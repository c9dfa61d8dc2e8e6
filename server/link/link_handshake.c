/*
 * Handshakes: two helper threads, each with its own epoll set over the listener and the connections that
 * shake hands on it. A handshake costs several milliseconds of computing, which must not stand before live
 * data.
 *
 * A helper with as many handshakes as it may have leaves the listener alone, and new peers wait in the
 * kernel. Every handshake has a deadline from accept on, so slow peers hold a place for that long and no
 * longer. It is of the helper's own time: where the server does not get to run, its peers are not to blame.
 */
#include "server/link/link_internal.h"

#include "server/base/clock.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 32, RESUME_MS = 100, TURN_MS = 200 /* at most so much of a turn counts */ };

/* Marks in epoll's data that are not links. */
static char is_listener, is_wake;

static void helper_listen(struct link_helper *helper, bool on)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLEXCLUSIVE, .data.ptr = &is_listener};
    if (helper->accepting != on) {
        epoll_ctl(helper->epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, helper->links->listener, &event);
        helper->accepting = on;
    }
}

static void helper_remove(struct link_helper *helper, struct link *link)
{
    *(link->previous != NULL ? &link->previous->next : &helper->first) = link->next;
    if (link->next != NULL) {
        link->next->previous = link->previous;
    }
    link->next = link->previous = NULL;
    epoll_ctl(helper->epoll, EPOLL_CTL_DEL, link->fd, NULL);
    helper->count--;
}

static void helper_fail(struct link_helper *helper, struct link *link, int code)
{
    struct link_failure failure;
    link_tls_failure(link, code, &failure);
    helper_remove(helper, link);
    link_report(helper->links, &failure);
    link_free(link);
}

static void helper_step(struct link_helper *helper, struct link *link)
{
    int rc = mbedtls_ssl_handshake(&link->ssl);
    if (rc == 0) {
        helper_remove(helper, link);
        link_hand_over(link);
    } else if (rc == MBEDTLS_ERR_SSL_WANT_READ || rc == MBEDTLS_ERR_SSL_WANT_WRITE) {
        struct epoll_event event = {.events = rc == MBEDTLS_ERR_SSL_WANT_READ ? EPOLLIN : EPOLLOUT,
                                    .data.ptr = link};
        epoll_ctl(helper->epoll, EPOLL_CTL_MOD, link->fd, &event);
    } else {
        helper_fail(helper, link, rc);
    }
}

static void helper_add(struct link_helper *helper, int fd, const char *address)
{
    int one = 1;
    struct link *link = link_new(helper->links, fd, address);
    if (link == NULL) {
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    link->state = LINK_HANDSHAKE;
    link->deadline_us = helper->own_us + (uint64_t)helper->links->options.handshake_ms * 1000;
    link->next = helper->first;
    if (link->next != NULL) {
        link->next->previous = link;
    }
    helper->first = link;
    helper->count++;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = link};
    if (epoll_ctl(helper->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        helper_fail(helper, link, MBEDTLS_ERR_SSL_ALLOC_FAILED);
    }
}

static void helper_accept(struct link_helper *helper)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    char text[LINK_ADDRESS_BYTES];
    int fd =
        accept4(helper->links->listener, (struct sockaddr *)&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        link_address_text(&address, text);
        helper_add(helper, fd, text);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        helper->resume_us = clock_monotonic_us() + RESUME_MS * 1000;
    }
}

/* Ends what is over its deadline; milliseconds to the next look, -1: none. */
static int helper_sweep(struct link_helper *helper, uint64_t now)
{
    uint64_t turn = now - helper->turn_us, most = TURN_MS * 1000;
    helper->own_us += turn < most ? turn : most;
    helper->turn_us = now;
    for (struct link *link = helper->first, *following; link != NULL; link = following) {
        following = link->next;
        if (helper->own_us >= link->deadline_us) {
            helper_fail(helper, link, MBEDTLS_ERR_SSL_TIMEOUT);
        }
    }
    return helper->first != NULL ? TURN_MS / 2 : helper->resume_us > now ? RESUME_MS : -1;
}

static bool helper_stopping(struct link_helper *helper)
{
    pthread_mutex_lock(&helper->links->lock);
    bool stopping = helper->links->stopping;
    pthread_mutex_unlock(&helper->links->lock);
    return stopping;
}

static void *helper_main(void *context)
{
    struct link_helper *helper = context;
    struct epoll_event events[EVENTS];
    while (!helper_stopping(helper)) {
        uint64_t now = clock_monotonic_us();
        int timeout = helper_sweep(helper, now);
        helper_listen(helper, helper->count < helper->limit && now >= helper->resume_us);
        int n = epoll_wait(helper->epoll, events, EVENTS, timeout);
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr == &is_listener) {
                helper_accept(helper);
            } else if (events[i].data.ptr != &is_wake) {
                helper_step(helper, events[i].data.ptr);
            }
        }
    }
    while (helper->first != NULL) {
        struct link *link = helper->first;
        helper_remove(helper, link);
        link_free(link);
    }
    return NULL;
}

int link_helper_start(struct link_helper *helper, struct links *links)
{
    helper->links = links;
    helper->limit = (links->options.half_open_max + LINK_HELPERS - 1) / LINK_HELPERS;
    helper->epoll = epoll_create1(EPOLL_CLOEXEC);
    helper->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &is_wake};
    if (helper->epoll < 0 || helper->wake < 0 ||
        epoll_ctl(helper->epoll, EPOLL_CTL_ADD, helper->wake, &event) != 0) {
        return STATUS_IO_FAILED;
    }
    helper->started = pthread_create(&helper->thread, NULL, helper_main, helper) == 0;
    return helper->started ? 0 : STATUS_NO_MEMORY;
}

void link_helper_join(struct link_helper *helper)
{
    uint64_t one = 1;
    if (helper->started) {
        /* links->stopping is set: the thread ends at its next turn. */
        while (write(helper->wake, &one, sizeof one) < 0 && errno == EINTR) {
        }
        pthread_join(helper->thread, NULL);
    }
    if (helper->wake >= 0) {
        close(helper->wake);
    }
    if (helper->epoll >= 0) {
        close(helper->epoll);
    }
}
