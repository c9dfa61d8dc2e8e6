/* Getting a certificate: with a code, or with the certificate that is to be renewed. */
#ifndef SHOAL_FIRMWARE_PORT_HOST_ENROL_H
#define SHOAL_FIRMWARE_PORT_HOST_ENROL_H

#include "firmware/port/host/host_identity.h"
#include "firmware/port/host/host_link.h"

#define HOST_FIRMWARE "shoal-board host"

/* Fills an ENROL with a new request; `code` is "" for a renewal. 0 or a negative status. */
int host_enrol_request(struct host_identity *identity, const char *code, const char *name,
                       struct wire_enrol *enrol);
/* One connection: sends ENROL, waits for CERT, keeps what came. `code` NULL: renews by the certificate at
 * hand. 0; STATUS_OFFLINE: try again; else a refusal with its reason (STATUS_CODE_*, STATUS_CERTIFICATE_*).
 * *state is the enum wire_state that the server gave. */
int host_enrol(struct host_identity *identity, struct host_link_peer *peer, const char *code,
               const char *name, uint8_t *state, struct error *error);

#endif
