/*
 * Frames in and out of one link, on the coordinator thread. One frame is one TLS record: a record that is not
 * exactly one frame breaks the protocol. A turn is bounded, so that no link keeps the others waiting; what is
 * left is taken at the next turn (epoll is level-triggered, writers stay on the list).
 */
#include "server/link/link_internal.h"

#include "server/base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

void link_interest(struct link *link)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = link};
    if (link->blocked) {
        event.events |= EPOLLOUT;
    }
    epoll_ctl(link->links->epoll, EPOLL_CTL_MOD, link->fd, &event);
}

void link_writer(struct link *link)
{
    if (!link->is_writer && !link->blocked) {
        link->is_writer = true;
        link->next_writer = link->links->writers;
        link->links->writers = link;
    }
}

static void lost(struct link *link, int code)
{
    if (code == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY) {
        link_drop(link, STATUS_OFFLINE, "closed by the board");
    } else if (code == MBEDTLS_ERR_SSL_CONN_EOF || code == 0) {
        link_drop(link, STATUS_OFFLINE, "the connection was lost");
    } else {
        char reason[80];
        snprintf(reason, sizeof reason, "TLS error -0x%04x", (unsigned)-code);
        link_drop(link, STATUS_TLS_FAILED, reason);
    }
}

static void got_frame(struct link *link, const struct wire_header *header, const uint8_t *payload)
{
    const struct link_owner *owner = &link->links->owner;
    if (link->state == LINK_FIRST) {
        link_first_frame(link, header, payload);
    } else if (link->state == LINK_ENROLLING) {
        link_drop(link, STATUS_WIRE_ORDER, "a frame after ENROL");
    } else if (header->type == WIRE_ENROL) {
        link_enrol(link, header, payload);
    } else if (header->type != WIRE_NOP && owner->on_frame != NULL) {
        int status = owner->on_frame(owner->context, link, header, payload);
        if (status < 0) {
            char reason[80];
            snprintf(reason, sizeof reason, "%s frame: %s", wire_type_name(header->type),
                     status_text(status));
            link_drop(link, (enum status)status, reason);
        }
    }
}

/* One record; false: nothing more now. */
static bool read_record(struct link *link)
{
    struct wire_header header;
    int n = mbedtls_ssl_read(&link->ssl, link->in, sizeof link->in);
    if (n == MBEDTLS_ERR_SSL_WANT_READ || n == MBEDTLS_ERR_SSL_WANT_WRITE) {
        return false;
    }
    if (n <= 0) {
        lost(link, n);
        return false;
    }
    if (mbedtls_ssl_get_bytes_avail(&link->ssl) != 0) {
        link_drop(link, STATUS_WIRE_MALFORMED, "a record of more than 4096 bytes");
    } else if (n < WIRE_HEADER_BYTES || wire_header_get(link->in, &header) != 0 ||
               header.length != (uint32_t)n - WIRE_HEADER_BYTES) {
        link_drop(link, STATUS_WIRE_MALFORMED, "a record that is not one frame");
    } else {
        link->received += (uint64_t)n;
        got_frame(link, &header, link->in + WIRE_HEADER_BYTES);
    }
    return !link->doomed;
}

void link_read(struct link *link)
{
    uint8_t waste[4096];
    if (link->state == LINK_LINGER) {
        ssize_t n = recv(link->fd, waste, sizeof waste, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
            link_end(link, link->status, link->reason);
        }
        return;
    }
    for (int i = 0; i < LINK_FRAMES_A_TURN && !link->doomed; i++) {
        if (link->state == LINK_LINGER || link->state == LINK_DEAD || !read_record(link)) {
            break;
        }
    }
}

/* Puts the next frame into `out`; false: there is none. */
static bool take_frame(struct link *link)
{
    const struct link_owner *owner = &link->links->owner;
    struct wire_header header;
    if (link->control_count != 0) {
        struct link_control *control = link->control[link->control_first];
        link->control_first = (link->control_first + 1) % LINK_CONTROL_MAX;
        link->control_count--;
        memcpy(link->out, control->frame, control->bytes);
        link->out_bytes = control->bytes;
        free(control);
        return true;
    }
    if (link->state != LINK_UP || owner->next_frame == NULL) {
        return false;
    }
    int n = owner->next_frame(owner->context, link, &header, link->out + WIRE_HEADER_BYTES);
    if (n < 0) {
        return false;
    }
    header.length = (uint32_t)n;
    wire_header_put(&header, link->out);
    link->out_bytes = WIRE_HEADER_BYTES + (uint32_t)n;
    return true;
}

/* A refused peer was told everything: no more from us, and we read until it has closed. */
static void write_done(struct link *link)
{
    if (link->state == LINK_LINGER && !link->closing) {
        mbedtls_ssl_close_notify(&link->ssl);
        shutdown(link->fd, SHUT_WR);
        link->closing = true;
    }
}

void link_write(struct link *link)
{
    for (int i = 0; i < LINK_FRAMES_A_TURN && !link->doomed && !link->closing; i++) {
        if (link->out_bytes == 0 && !take_frame(link)) {
            write_done(link);
            return;
        }
        int n = mbedtls_ssl_write(&link->ssl, link->out, link->out_bytes);
        if (n == MBEDTLS_ERR_SSL_WANT_WRITE || n == MBEDTLS_ERR_SSL_WANT_READ) {
            link->blocked = true;
            link_interest(link);
            return;
        }
        if (n != (int)link->out_bytes) { /* mbedTLS takes a whole record or fails */
            lost(link, n);
            return;
        }
        link->sent += link->out_bytes;
        link->last_sent_us = clock_monotonic_us();
        link->out_bytes = 0;
    }
    link_writer(link);
}

int link_send(struct link *link, const struct wire_header *header, const uint8_t *payload)
{
    if (link->doomed || link->state == LINK_DEAD) {
        return STATUS_OFFLINE;
    }
    if (link->control_count == LINK_CONTROL_MAX) {
        return STATUS_BUSY;
    }
    if (header->length > WIRE_PAYLOAD_MAX) {
        return STATUS_WIRE_MALFORMED;
    }
    struct link_control *control = malloc(sizeof *control + WIRE_HEADER_BYTES + header->length);
    if (control == NULL) {
        return STATUS_NO_MEMORY;
    }
    control->bytes = WIRE_HEADER_BYTES + header->length;
    wire_header_put(header, control->frame);
    if (header->length != 0) {
        memcpy(control->frame + WIRE_HEADER_BYTES, payload, header->length);
    }
    link->control[(link->control_first + link->control_count++) % LINK_CONTROL_MAX] = control;
    link_writer(link);
    return 0;
}

int link_send_cert(struct link *link, const struct link_answer *answer)
{
    struct wire_cert *cert = calloc(1, sizeof *cert);
    uint8_t payload[WIRE_PAYLOAD_MAX];
    struct wire_header header = {.type = WIRE_CERT};
    if (cert == NULL) {
        return STATUS_NO_MEMORY;
    }
    cert->status = answer->status;
    cert->state = answer->state;
    cert->time_ms = (uint64_t)clock_wall_ms();
    snprintf(cert->name, sizeof cert->name, "%s", answer->name);
    snprintf(cert->reason, sizeof cert->reason, "%s", answer->reason);
    if (answer->status == 0) {
        const struct ca_der *authority = ca_certificate(link->links->ca);
        cert->n_certificate = (uint16_t)answer->certificate.size;
        memcpy(cert->certificate, answer->certificate.bytes, answer->certificate.size);
        cert->n_authority = (uint16_t)authority->size;
        memcpy(cert->authority, authority->bytes, authority->size);
    }
    int n = wire_encode_cert(cert, payload);
    free(cert);
    if (n < 0) {
        return n;
    }
    header.length = (uint32_t)n;
    return link_send(link, &header, payload);
}
