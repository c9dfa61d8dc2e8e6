/*
 * One ENROL out, one CERT back. Nothing else is taken: whoever answers otherwise is not a server of ours.
 */
#include "firmware/core/enrol.h"

#include <string.h>

int enrol_begin(struct enrol *enrol, struct board_transport transport, const struct wire_enrol *request)
{
    struct wire_header header = {.type = WIRE_ENROL};
    memset(enrol, 0, sizeof *enrol);
    enrol->transport = transport;
    int n = wire_encode_enrol(request, enrol->frame + WIRE_HEADER_BYTES);
    if (n < 0)
        return n;
    header.length = (uint32_t)n;
    wire_header_put(&header, enrol->frame);
    enrol->n = WIRE_HEADER_BYTES + (uint32_t)n;
    return STATUS_OK;
}

/* Reads up to `want` bytes of the frame in all; 1 when they are there. */
static int read_up_to(struct enrol *enrol, uint32_t want)
{
    while (enrol->have < want) {
        int32_t n =
            enrol->transport.recv(enrol->transport.context, enrol->frame + enrol->have, want - enrol->have);
        if (n <= 0)
            return n;
        enrol->have += (uint32_t)n;
    }
    return 1;
}

int enrol_poll(struct enrol *enrol, struct wire_cert *cert)
{
    struct wire_header header;
    if (!enrol->sent) {
        int32_t n = enrol->transport.send(enrol->transport.context, enrol->frame, enrol->n);
        if (n <= 0)
            return n;
        enrol->sent = true;
    }
    int status = read_up_to(enrol, WIRE_HEADER_BYTES);
    if (status <= 0)
        return status;
    status = wire_header_get(enrol->frame, &header);
    if (status < 0)
        return status;
    if (header.type != WIRE_CERT)
        return STATUS_WIRE_ORDER;
    status = read_up_to(enrol, WIRE_HEADER_BYTES + header.length);
    if (status <= 0)
        return status;
    status = wire_decode_cert(enrol->frame + WIRE_HEADER_BYTES, header.length, cert);
    return status < 0 ? status : 1;
}

int enrol_answer(const struct wire_cert *cert)
{
    if (cert->status == STATUS_OK)
        return STATUS_OK;
    return cert->status < 0 && cert->status > -STATUS_COUNT ? cert->status : STATUS_INTERNAL;
}

bool enrol_code_is_spent(int status)
{
    return status == STATUS_CODE_WRONG || status == STATUS_CODE_EXPIRED || status == STATUS_CODE_USED ||
           status == STATUS_INVALID_ARGUMENT || status == STATUS_CERTIFICATE_REVOKED ||
           status == STATUS_CERTIFICATE_WRONG;
}

bool enrol_certificate_is_spent(int status)
{
    return status == STATUS_CERTIFICATE_WRONG || status == STATUS_CERTIFICATE_EXPIRED ||
           status == STATUS_CERTIFICATE_MISSING;
}
