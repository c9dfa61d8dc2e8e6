/*
 * The life of one link on the coordinator thread: judged, first frame or ENROL, up, refused, ended.
 *
 * Invariants. on_down comes exactly once for each on_up, before a new on_up of the same board. A refused peer
 * is told why in a CERT frame and then only read until it closes, since closing over unread bytes would take
 * the answer from it. A link that ended is on the list of the dead and freed at the end of the turn.
 */
#include "server/link/link_internal.h"

#include "server/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

static void list_remove(struct link *link)
{
    *(link->previous != NULL ? &link->previous->next : &link->links->first) = link->next;
    if (link->next != NULL) {
        link->next->previous = link->previous;
    }
}

void link_end(struct link *link, int status, const char *reason)
{
    struct links *links = link->links;
    enum link_state state = link->state;
    if (state == LINK_DEAD) {
        return;
    }
    link->state = LINK_DEAD;
    link->doomed = true;
    list_remove(link);
    epoll_ctl(links->epoll, EPOLL_CTL_DEL, link->fd, NULL);
    link->next = links->dead;
    links->dead = link;
    if (state == LINK_UP) {
        links->up[link->number] = NULL;
        links->n_up--;
        links->owner.on_down(links->owner.context, link, status, reason);
    } else {
        links->n_waiting--;
    }
    if (!link->closing) {
        mbedtls_ssl_close_notify(&link->ssl);
    }
}

static void failure_of(const struct link *link, int status, const char *reason, struct link_failure *failure)
{
    memset(failure, 0, sizeof *failure);
    failure->at_ms = clock_wall_ms();
    memcpy(failure->address, link->peer.address, sizeof failure->address);
    memcpy(failure->board, link->peer.certificate.board, sizeof failure->board);
    failure->status = (enum status)status;
    failure->action = link_action(status);
    snprintf(failure->reason, sizeof failure->reason, "%s", reason);
}

/* Stays to tell the peer what it was told; then it goes. */
static void linger(struct link *link, int status, const char *reason)
{
    link->state = LINK_LINGER;
    link->status = status;
    link->deadline_us = clock_monotonic_us() + LINK_LINGER_MS * 1000;
    if (reason != link->reason) {
        snprintf(link->reason, sizeof link->reason, "%s", reason);
    }
    link_writer(link);
}

void link_refuse(struct link *link, int status, const char *reason)
{
    struct link_failure failure;
    struct link_answer answer = {.status = status};
    failure_of(link, status, reason, &failure);
    snprintf(answer.reason, sizeof answer.reason, "%s", reason);
    answer.state = status == STATUS_CERTIFICATE_REVOKED ? WIRE_STATE_REVOKED : WIRE_STATE_PENDING;
    link_report(link->links, &failure);
    if (link_send_cert(link, &answer) != 0) {
        link_end(link, status, reason);
        return;
    }
    linger(link, status, reason);
}

/* Gives the link a number. False: the fleet is full. */
static bool take_number(struct link *link)
{
    struct links *links = link->links;
    for (uint16_t i = 0; i < LINK_MAX; i++) {
        if (links->up[i] == NULL) {
            links->up[i] = link;
            link->number = i;
            links->n_up++;
            links->n_waiting--;
            return true;
        }
    }
    return false;
}

void link_first_frame(struct link *link, const struct wire_header *header, const uint8_t *payload)
{
    struct links *links = link->links;
    if (header->type == WIRE_ENROL) {
        link_enrol(link, header, payload);
        return;
    }
    if (!link->peer.certified) {
        link_refuse(link, STATUS_CERTIFICATE_MISSING, "the peer has no certificate and did not ask for one");
        return;
    }
    if (header->type != WIRE_HELLO) {
        link_refuse(link, STATUS_WIRE_ORDER, "the first frame is not HELLO");
        return;
    }
    struct link *former = links_find(links, link_board(link));
    if (former != NULL) {
        link_end(former, STATUS_OFFLINE, "the board connected anew");
    }
    if (!take_number(link)) {
        link_refuse(link, STATUS_BUSY, "the server has all the links it can have");
        return;
    }
    link->state = LINK_UP;
    int status = links->owner.on_up(links->owner.context, link, &link->peer, header, payload);
    if (status < 0) {
        struct link_failure failure;
        char reason[80];
        snprintf(reason, sizeof reason, "HELLO was refused: %s", status_text(status));
        failure_of(link, status, reason, &failure);
        link_report(links, &failure);
        link_drop(link, (enum status)status, reason);
    }
    link_writer(link);
}

void link_enrol(struct link *link, const struct wire_header *header, const uint8_t *payload)
{
    struct links *links = link->links;
    struct wire_enrol *enrol = calloc(1, sizeof *enrol);
    if (enrol == NULL || links->owner.on_enrol == NULL || link->request != 0) {
        free(enrol);
        link_drop(link, STATUS_WIRE_ORDER, "ENROL is not expected now");
        return;
    }
    if (wire_decode_enrol(payload, header->length, enrol) != 0) {
        free(enrol);
        if (link->state == LINK_UP) {
            link_drop(link, STATUS_WIRE_MALFORMED, "a malformed ENROL");
        } else {
            link_refuse(link, STATUS_WIRE_MALFORMED, "a malformed ENROL");
        }
        return;
    }
    link->request = ++links->next_request;
    if (link->state == LINK_FIRST) {
        link->state = LINK_ENROLLING;
        link->deadline_us = clock_monotonic_us() + (uint64_t)links->options.enrol_ms * 1000;
    }
    struct link_enrolment enrolment = {&link->peer, enrol->code,    enrol->name,     enrol->firmware,
                                       enrol->kind, enrol->request, enrol->n_request};
    links->owner.on_enrol(links->owner.context, link->request, &enrolment);
    free(enrol);
}

static void give_answer(struct link *link, const struct link_answer *answer)
{
    struct link_failure failure;
    link->request = 0;
    if (answer->status != 0) {
        failure_of(link, answer->status, answer->reason, &failure);
        link_report(link->links, &failure);
    }
    if (link_send_cert(link, answer) != 0) {
        link_drop(link, STATUS_INTERNAL, "the answer to ENROL could not be sent");
    } else if (link->state == LINK_ENROLLING) {
        linger(link, 0, "enrolled");
    }
}

struct answering {
    struct links *links;
    uint64_t request;
    struct link_answer answer;
};

static void run_answer(void *context)
{
    struct answering *answering = context;
    for (struct link *link = answering->links->first; link != NULL; link = link->next) {
        if (link->request == answering->request && !link->doomed) {
            give_answer(link, &answering->answer);
            break;
        }
    }
    free(answering);
}

int links_answer(struct links *links, uint64_t request, const struct link_answer *answer)
{
    struct answering *answering = malloc(sizeof *answering);
    if (answering == NULL) {
        return STATUS_NO_MEMORY;
    }
    *answering = (struct answering){links, request, *answer};
    int status = links_post(links, run_answer, answering);
    if (status != 0) {
        free(answering);
    }
    return status;
}

/* A handshake is done: judge the peer. */
void link_adopt(struct links *links, struct link *link, uint64_t now)
{
    char reason[200] = "";
    link->previous = NULL;
    link->next = links->first;
    if (link->next != NULL) {
        link->next->previous = link;
    }
    links->first = link;
    links->n_waiting++;
    link->state = LINK_FIRST;
    link->deadline_us = now + (uint64_t)links->options.first_frame_ms * 1000;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = link};
    if (epoll_ctl(links->epoll, EPOLL_CTL_ADD, link->fd, &event) != 0) {
        link_end(link, STATUS_NO_MEMORY, "no memory");
        return;
    }
    int status = link_tls_judge(link, reason);
    if (status == 0 && links->n_waiting > LINK_WAITING_MAX) {
        status = STATUS_BUSY;
        snprintf(reason, sizeof reason, "too many peers wait");
    }
    if (status != 0) {
        link_refuse(link, status, reason);
    }
}
