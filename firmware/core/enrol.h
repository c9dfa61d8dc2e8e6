/*
 * Before a session: a peer without certificate sends one ENROL frame and gets one CERT frame. Used by the
 * port, which makes the key and the request (PKCS#10), and checks the server by the second part of the code,
 * since that needs TLS.
 */
#ifndef SHOAL_FIRMWARE_CORE_ENROL_H
#define SHOAL_FIRMWARE_CORE_ENROL_H

#include "firmware/core/board.h"

struct enrol {
    struct board_transport transport;
    uint8_t frame[WIRE_FRAME_MAX];
    uint32_t n, have; /* bytes to send; bytes received */
    bool sent;
};

/* Encodes the request. 0 or STATUS_WIRE_MALFORMED (a text or the request is too long). */
int enrol_begin(struct enrol *enrol, struct board_transport transport, const struct wire_enrol *request);
/* Call until it is done: 1 *cert is the answer (its status may be a refusal), 0 not yet, or a negative
 * status: the transport's own, STATUS_WIRE_MALFORMED, STATUS_WIRE_ORDER (something else than CERT). */
int enrol_poll(struct enrol *enrol, struct wire_cert *cert);

/* What an answer means: 0, or the status of a refusal (STATUS_INTERNAL for a number that is none). */
int enrol_answer(const struct wire_cert *cert);
/* Whether a code that was answered so is of no use any more, so that trying again is idle. */
bool enrol_code_is_spent(int status);
/* Whether a certificate that was answered so, or a server that we found wrong, calls for a new code. */
bool enrol_certificate_is_spent(int status);

#endif
