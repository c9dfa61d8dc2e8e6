/*
 * The coordinator thread: takes links over from the helpers, runs posted calls, timers and life signs, and
 * makes every callback.
 *
 * Invariants. A link is freed only at the end of a turn, so pointers stay good within one; link_drop() only
 * marks. A board has at most one link that is up. on_down comes exactly once for each on_up, before a new
 * on_up of the same board.
 */
#include "server/link/link_internal.h"

#include "server/base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { EVENTS = 64, FAILURES_MAX = 256, SWEEP_MIN_US = 2000, SWEEP_MAX_US = 100000 };

static char is_wake; /* mark in epoll's data */

/* ---- small things that are public ---- */

const char *links_address(const struct links *links)
{
    return links->address;
}

uint16_t links_port(const struct links *links)
{
    return links->port;
}

bool links_loopback(const struct links *links)
{
    return links->loopback;
}

uint16_t link_number(const struct link *link)
{
    return link->number;
}

const char *link_board(const struct link *link)
{
    return link->peer.certificate.board;
}

const struct link_peer *link_peer(const struct link *link)
{
    return &link->peer;
}

void link_set_user(struct link *link, void *user)
{
    link->user = user;
}

void *link_user(const struct link *link)
{
    return link->user;
}

uint64_t link_last_byte_us(const struct link *link)
{
    return link->last_byte_us;
}

uint64_t link_bytes_received(const struct link *link)
{
    return link->received;
}

uint64_t link_bytes_sent(const struct link *link)
{
    return link->sent;
}

bool link_stale(const struct link *link)
{
    return link->stale;
}

void link_kick(struct link *link)
{
    link_writer(link);
}

struct link *links_at(struct links *links, uint16_t number)
{
    return number < LINK_MAX ? links->up[number] : NULL;
}

struct link *links_find(struct links *links, const char *board)
{
    for (uint32_t i = 0, seen = 0; i < LINK_MAX && seen < links->n_up; i++) {
        struct link *link = links->up[i];
        if (link != NULL) {
            seen++;
            if (strcmp(link_board(link), board) == 0) {
                return link;
            }
        }
    }
    return NULL;
}

void link_drop(struct link *link, enum status status, const char *reason)
{
    if (link->doomed || link->state == LINK_DEAD || link->state == LINK_LINGER) {
        return;
    }
    link->doomed = true;
    link->links->any_doomed = true;
    link->status = (int)status;
    snprintf(link->reason, sizeof link->reason, "%s", reason);
}

/* ---- from other threads ---- */

void links_wake(struct links *links)
{
    uint64_t one = 1;
    while (write(links->wake, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

int links_post(struct links *links, void (*call)(void *context), void *context)
{
    int status = STATUS_BUSY;
    pthread_mutex_lock(&links->lock);
    if (links->posts_count < LINK_POSTS_MAX && !links->stopping) {
        uint32_t at = (links->posts_first + links->posts_count++) % LINK_POSTS_MAX;
        links->posts[at] = (struct link_post){call, context};
        status = 0;
    }
    pthread_mutex_unlock(&links->lock);
    if (status == 0) {
        links_wake(links);
    }
    return status;
}

void link_report(struct links *links, const struct link_failure *failure)
{
    pthread_mutex_lock(&links->lock);
    if (links->n_failures < FAILURES_MAX) {
        links->failures[links->n_failures++] = *failure;
    }
    pthread_mutex_unlock(&links->lock);
    links_wake(links);
}

void link_hand_over(struct link *link)
{
    struct links *links = link->links;
    pthread_mutex_lock(&links->lock);
    link->next = links->shaken;
    links->shaken = link;
    pthread_mutex_unlock(&links->lock);
    links_wake(links);
}

struct dropping {
    struct links *links;
    char board[CA_ID_BYTES];
    enum status status;
    char reason[200];
};

static void run_drop(void *context)
{
    struct dropping *dropping = context;
    struct link *link = links_find(dropping->links, dropping->board);
    if (link != NULL) {
        link_drop(link, dropping->status, dropping->reason);
    }
    free(dropping);
}

int links_drop_board(struct links *links, const char *board, enum status status, const char *reason)
{
    struct dropping *dropping = calloc(1, sizeof *dropping);
    if (dropping == NULL) {
        return STATUS_NO_MEMORY;
    }
    dropping->links = links;
    dropping->status = status;
    snprintf(dropping->board, sizeof dropping->board, "%s", board);
    snprintf(dropping->reason, sizeof dropping->reason, "%s", reason);
    int rc = links_post(links, run_drop, dropping);
    if (rc != 0) {
        free(dropping);
    }
    return rc;
}

/* ---- turns ---- */

static void take_shaken(struct links *links, uint64_t now)
{
    pthread_mutex_lock(&links->lock);
    struct link *link = links->shaken;
    links->shaken = NULL;
    pthread_mutex_unlock(&links->lock);
    while (link != NULL) {
        struct link *next = link->next;
        link_adopt(links, link, now);
        link = next;
    }
}

static void take_failures(struct links *links)
{
    struct link_failure failure;
    for (;;) {
        pthread_mutex_lock(&links->lock);
        bool any = links->n_failures != 0;
        if (any) {
            failure = links->failures[0];
            links->n_failures--;
            memmove(links->failures, links->failures + 1, links->n_failures * sizeof failure);
        }
        pthread_mutex_unlock(&links->lock);
        if (!any) {
            return;
        }
        if (links->owner.on_failure != NULL) {
            links->owner.on_failure(links->owner.context, &failure);
        }
    }
}

/* Those that wait now; what they post in turn comes at the next turn. */
static void run_posts(struct links *links)
{
    pthread_mutex_lock(&links->lock);
    uint32_t n = links->posts_count;
    pthread_mutex_unlock(&links->lock);
    while (n-- > 0) {
        pthread_mutex_lock(&links->lock);
        struct link_post post = links->posts[links->posts_first];
        links->posts_first = (links->posts_first + 1) % LINK_POSTS_MAX;
        links->posts_count--;
        pthread_mutex_unlock(&links->lock);
        post.call(post.context);
    }
}

static void sweep_up(struct link *link, uint64_t now)
{
    const struct link_options *options = &link->links->options;
    const struct link_owner *owner = &link->links->owner;
    uint64_t silent = now > link->last_byte_us ? now - link->last_byte_us : 0;
    bool stale = silent >= (uint64_t)options->stale_ms * 1000;
    if (silent >= (uint64_t)options->offline_ms * 1000) {
        char reason[64];
        snprintf(reason, sizeof reason, "no byte for %u ms", options->offline_ms);
        link_drop(link, STATUS_OFFLINE, reason);
        return;
    }
    if (stale != link->stale) {
        link->stale = stale;
        if (owner->on_stale != NULL) {
            owner->on_stale(owner->context, link, stale);
        }
    }
    if (now >= link->last_sent_us + (uint64_t)options->nop_ms * 1000 && link->control_count == 0) {
        struct wire_header nop = {.type = WIRE_NOP};
        link->last_sent_us = now;
        link_send(link, &nop, NULL);
    }
}

static void sweep_waiting(struct link *link, uint64_t now)
{
    if (now < link->deadline_us) {
        return;
    }
    if (link->state == LINK_FIRST && !link->peer.certified) {
        link_refuse(link, STATUS_CERTIFICATE_MISSING, "the peer has no certificate and did not ask for one");
    } else if (link->state != LINK_LINGER) {
        link_refuse(link, STATUS_DEADLINE,
                    link->state == LINK_FIRST ? "no HELLO in time" : "no answer to ENROL in time");
    } else {
        link_end(link, link->status, link->reason);
    }
}

static void sweep(struct links *links, uint64_t now)
{
    if (now < links->next_sweep_us) {
        return;
    }
    links->next_sweep_us = now + links->sweep_us;
    for (struct link *link = links->first, *next; link != NULL; link = next) {
        next = link->next;
        if (link->state == LINK_UP) {
            sweep_up(link, now);
        } else {
            sweep_waiting(link, now);
        }
    }
}

static void write_all(struct links *links)
{
    struct link *link = links->writers;
    links->writers = NULL;
    while (link != NULL) {
        struct link *next = link->next_writer;
        link->is_writer = false;
        if (link->state != LINK_DEAD && !link->doomed) {
            link_write(link);
        }
        link = next;
    }
}

/* Ends what was marked and frees it. Writers that are dead are still on the list: they go first. */
static void reap(struct links *links)
{
    while (links->any_doomed) { /* on_down may drop others */
        links->any_doomed = false;
        for (struct link *link = links->first, *next; link != NULL; link = next) {
            next = link->next;
            if (link->doomed) {
                link_end(link, link->status, link->reason);
            }
        }
    }
    for (struct link **at = &links->writers; *at != NULL;) {
        if ((*at)->state == LINK_DEAD) {
            *at = (*at)->next_writer;
        } else {
            at = &(*at)->next_writer;
        }
    }
    while (links->dead != NULL) {
        struct link *link = links->dead;
        links->dead = link->next;
        link_free(link);
    }
}

static void handle(struct links *links, const struct epoll_event *event)
{
    uint64_t count;
    struct link *link = event->data.ptr;
    if (event->data.ptr == &is_wake) {
        while (read(links->wake, &count, sizeof count) < 0 && errno == EINTR) {
        }
        return;
    }
    if (link->state != LINK_DEAD && (event->events & EPOLLOUT) != 0 && link->blocked) {
        link->blocked = false;
        link_interest(link);
        link_writer(link);
    }
    if (link->state != LINK_DEAD && !link->doomed && (event->events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
        link_read(link);
    }
}

static int timeout_ms(const struct links *links, uint64_t now)
{
    uint64_t next = links->next_sweep_us < links->next_timer_us ? links->next_sweep_us : links->next_timer_us;
    if (links->writers != NULL || next <= now) {
        return 0;
    }
    return (int)((next - now + 999) / 1000);
}

static bool is_stopping(struct links *links)
{
    pthread_mutex_lock(&links->lock);
    bool stopping = links->stopping;
    pthread_mutex_unlock(&links->lock);
    return stopping;
}

static void *coordinator_main(void *context)
{
    struct links *links = context;
    struct epoll_event events[EVENTS];
    while (!is_stopping(links)) {
        int n = epoll_wait(links->epoll, events, EVENTS, timeout_ms(links, clock_monotonic_us()));
        for (int i = 0; i < n; i++) {
            handle(links, &events[i]);
        }
        uint64_t now = clock_monotonic_us();
        take_shaken(links, now);
        run_posts(links);
        take_failures(links);
        sweep(links, now);
        if (links->owner.on_timer != NULL) {
            uint64_t wait = links->owner.on_timer(links->owner.context, now);
            links->next_timer_us = wait > UINT64_MAX - now ? UINT64_MAX : now + wait;
        }
        write_all(links);
        reap(links);
    }
    for (struct link *link = links->first; link != NULL; link = link->next) {
        link_drop(link, STATUS_OFFLINE, "the server is stopping");
    }
    reap(links);
    while (links->first != NULL) { /* those that linger */
        link_end(links->first, STATUS_OFFLINE, "the server is stopping");
    }
    run_posts(links); /* nobody is up: they only give back what they hold */
    reap(links);
    return NULL;
}

/* ---- start and stop ---- */

static void options_default(struct links *links)
{
    struct link_options *o = &links->options;
    o->half_open_max = o->half_open_max != 0 ? o->half_open_max : 64;
    o->handshake_ms = o->handshake_ms != 0 ? o->handshake_ms : 5000;
    o->first_frame_ms = o->first_frame_ms != 0 ? o->first_frame_ms : 5000;
    o->enrol_ms = o->enrol_ms != 0 ? o->enrol_ms : 10000;
    o->nop_ms = o->nop_ms != 0 ? o->nop_ms : WIRE_NOP_MS;
    o->stale_ms = o->stale_ms != 0 ? o->stale_ms : WIRE_STALE_MS;
    o->offline_ms = o->offline_ms != 0 ? o->offline_ms : WIRE_OFFLINE_MS;
    uint32_t least = o->stale_ms < o->nop_ms ? o->stale_ms : o->nop_ms;
    least = o->first_frame_ms < least ? o->first_frame_ms : least;
    links->sweep_us = (uint64_t)least * 1000 / 10;
    links->sweep_us = links->sweep_us < SWEEP_MIN_US ? SWEEP_MIN_US : links->sweep_us;
    links->sweep_us = links->sweep_us > SWEEP_MAX_US ? SWEEP_MAX_US : links->sweep_us;
}

static int links_open(struct links *links, struct error *error)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &is_wake};
    links->posts = calloc(LINK_POSTS_MAX, sizeof *links->posts);
    links->failures = calloc(FAILURES_MAX, sizeof *links->failures);
    if (links->posts == NULL || links->failures == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for links");
    }
    links->epoll = epoll_create1(EPOLL_CLOEXEC);
    links->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (links->epoll < 0 || links->wake < 0 ||
        epoll_ctl(links->epoll, EPOLL_CTL_ADD, links->wake, &event) != 0) {
        return error_set(error, STATUS_IO_FAILED, "links: %s", strerror(errno));
    }
    int status = link_tls_open(links, error);
    return status != 0 ? status : link_listen(links, error);
}

int links_start(struct links **out, struct ca *ca, const struct link_options *options,
                const struct link_owner *owner, struct error *error)
{
    struct links *links = calloc(1, sizeof *links);
    *out = NULL;
    if (links == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for links");
    }
    links->ca = ca;
    links->options = *options;
    links->owner = *owner;
    links->epoll = links->wake = links->listener = -1;
    links->next_timer_us = 0;
    for (int i = 0; i < LINK_HELPERS; i++) {
        links->helper[i].epoll = links->helper[i].wake = -1;
    }
    pthread_mutex_init(&links->lock, NULL);
    link_tls_init(&links->tls);
    options_default(links);
    int status = links_open(links, error);
    *out = links; /* callbacks may come before this function returns */
    if (status == 0) {
        links->started = pthread_create(&links->thread, NULL, coordinator_main, links) == 0;
        status = links->started ? 0 : error_set(error, STATUS_NO_MEMORY, "no thread for links");
    }
    for (int i = 0; i < LINK_HELPERS && status == 0; i++) {
        status = link_helper_start(&links->helper[i], links);
        if (status != 0) {
            error_set(error, (enum status)status, "no thread for handshakes");
        }
    }
    if (status != 0) {
        links_stop(links);
        *out = NULL;
    }
    return status;
}

void links_stop(struct links *links)
{
    if (links == NULL) {
        return;
    }
    pthread_mutex_lock(&links->lock);
    links->stopping = true;
    pthread_mutex_unlock(&links->lock);
    for (int i = 0; i < LINK_HELPERS; i++) {
        link_helper_join(&links->helper[i]);
    }
    if (links->started) {
        links_wake(links);
        pthread_join(links->thread, NULL);
    }
    while (links->shaken != NULL) {
        struct link *link = links->shaken;
        links->shaken = link->next;
        link_free(link);
    }
    for (int i = 0; i < 3; i++) {
        int fd = i == 0 ? links->listener : i == 1 ? links->wake : links->epoll;
        if (fd >= 0) {
            close(fd);
        }
    }
    link_tls_close(&links->tls);
    free(links->posts);
    free(links->failures);
    pthread_mutex_destroy(&links->lock);
    free(links);
}
