/*
 * Enrolment. The code is sent only over a connection whose server proved to be the one that made it. What
 * came back is kept before anything else is done with it: a board that is killed after the server has counted
 * the code has its certificate, or asks again with the same key, which the server grants.
 */
#include "firmware/port/host/host_enrol.h"

#include "firmware/core/enrol.h"
#include "server/base/clock.h"
#include "server/ca/enrol_code.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER_MS = 15000, SLICE_MS = 100 };

int host_enrol_request(struct host_identity *identity, const char *code, const char *name,
                       struct wire_enrol *enrol)
{
    size_t size = 0;
    memset(enrol, 0, sizeof *enrol);
    enrol->version_min = enrol->version_max = WIRE_VERSION;
    enrol->kind = WIRE_KIND_HOST;
    snprintf(enrol->code, sizeof enrol->code, "%s", code);
    snprintf(enrol->name, sizeof enrol->name, "%s", name);
    snprintf(enrol->firmware, sizeof enrol->firmware, "%s", HOST_FIRMWARE);
    int status = host_identity_request(identity, enrol->request, sizeof enrol->request, &size);
    enrol->n_request = (uint16_t)size;
    return status;
}

/* Until the answer is there. */
static int exchange(struct host_link *link, const struct host_link_peer *peer, struct enrol *enrol,
                    struct wire_cert *cert, struct error *error)
{
    uint64_t deadline = clock_monotonic_us() + (uint64_t)ANSWER_MS * 1000;
    for (;;) {
        int status = enrol_poll(enrol, cert);
        if (status == 1) {
            return 0;
        }
        if (status < 0) {
            return error_set(error, (enum status)status, "the server closed without an answer to ENROL");
        }
        if (clock_monotonic_us() > deadline || (peer->stop != NULL && *peer->stop != 0)) {
            return error_set(error, STATUS_OFFLINE, "the server did not answer ENROL");
        }
        struct pollfd fd = {.fd = link->fd, .events = enrol->sent ? POLLIN : POLLOUT};
        uint64_t next = host_link_next_us(link);
        poll(&fd, 1, next < SLICE_MS * 1000 ? (int)(next / 1000) + 1 : SLICE_MS);
    }
}

static int take(struct host_identity *identity, const struct wire_cert *cert, struct error *error)
{
    int status = enrol_answer(cert);
    if (status != 0) {
        return error_set(error, (enum status)status, "%s",
                         cert->reason[0] != 0 ? cert->reason : status_text(status));
    }
    status = host_identity_keep(identity, cert->certificate, cert->n_certificate, cert->authority,
                                cert->n_authority, error);
    if (status == 0 && cert->name[0] != 0) {
        host_identity_set_name(identity, cert->name);
    }
    return status;
}

int host_enrol(struct host_identity *identity, struct host_link_peer *peer, const char *code,
               const char *name, uint8_t *state, struct error *error)
{
    struct enrol_code parsed;
    char plain[ENROL_CODE_BYTES] = ""; /* as the server prints it */
    struct host_link link;
    struct wire_enrol *request = calloc(1, sizeof *request);
    struct wire_cert *cert = calloc(1, sizeof *cert);
    struct enrol *enrol = calloc(1, sizeof *enrol);
    int status;
    if (request == NULL || cert == NULL || enrol == NULL) {
        status = error_set(error, STATUS_NO_MEMORY, "no memory");
        goto done;
    }
    if (code != NULL && enrol_code_parse(code, &parsed) != 0) {
        status = error_set(error, STATUS_CODE_WRONG,
                           "that is not an enrolment code: it has 42 letters and digits");
        goto done;
    }
    if (code != NULL) {
        enrol_code_format(&parsed, plain);
    }
    status = host_link_open(&link, peer, identity, code != NULL ? parsed.trust : NULL, error);
    if (status == 0) {
        status = host_enrol_request(identity, plain, name, request);
    }
    if (status == 0) {
        status = enrol_begin(enrol, host_link_transport(&link), request);
    }
    if (status == 0) {
        status = exchange(&link, peer, enrol, cert, error);
    }
    if (status == 0) {
        status = take(identity, cert, error);
    }
    host_link_close(&link);
    *state = cert->state;
    if (status == 0) {
        host_link_forget_session(peer);
    }
done:
    free(request);
    free(cert);
    free(enrol);
    return status;
}
