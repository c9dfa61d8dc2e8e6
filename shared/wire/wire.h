/*
 * Frames and messages between server and boards (ENCODING C). One frame is one TLS record: a header of 16 bytes and
 * at most 4,080 bytes of payload. Every message but DATA, CHUNK and PROBE fits one frame.
 *
 * Payloads are packed little-endian fields declared once, in wire_messages.h: struct, encoder, decoder and fuzz seed
 * are made from the same rows. Strings are u16 length and UTF-8. Unknown frame types are skipped.
 */
#ifndef SHOAL_SHARED_WIRE_WIRE_H
#define SHOAL_SHARED_WIRE_WIRE_H

#include "shared/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WIRE_VERSION = 1,
    WIRE_HEADER_BYTES = 16,
    WIRE_PAYLOAD_MAX = 4080,
    WIRE_FRAME_MAX = WIRE_HEADER_BYTES + WIRE_PAYLOAD_MAX,
    WIRE_WANT_MAX = 65536,  /* bytes that one WANT may ask for */
    WIRE_HASH_BYTES = 32,
    WIRE_STALE_MS = 5000,   /* no byte from a board: stale */
    WIRE_OFFLINE_MS = 15000,
    WIRE_BEAT_MS = 1000,
    WIRE_NOP_MS = 5000,     /* server sends NOP when it has sent nothing for so long */
    WIRE_SILENT_MS = 20000  /* a board drops a link that was silent for so long */
};

enum wire_type {
    /* to boards */
    WIRE_WELCOME = 1, WIRE_RUN, WIRE_DATA, WIRE_ABORT, WIRE_OFFER, WIRE_CHUNK, WIRE_ACTIVATE, WIRE_PROBE, WIRE_NOP,
    WIRE_DO, WIRE_CERT,
    /* from boards (DATA both ways) */
    WIRE_HELLO = 64, WIRE_DONE, WIRE_FAILED, WIRE_ABORTED, WIRE_BEAT, WIRE_WANT, WIRE_HAVE, WIRE_ECHO, WIRE_LOG,
    WIRE_ENROL
};

/* DATA: flags bit 0 on the last frame of a transfer. CHUNK, PROBE: bit 0 on the last frame. */
enum { WIRE_FLAG_LAST = 1 };

/* The fixed header; on the wire little-endian in this order. DATA: transfer id on the link, inference, byte offset
 * within the transfer. CHUNK: offset within the fragment. PROBE: offset counts the bytes so far. */
struct wire_header {
    uint8_t type, flags;
    uint16_t transfer;
    uint32_t inference;
    uint32_t offset;
    uint32_t length; /* of the payload, <= WIRE_PAYLOAD_MAX */
};

void wire_header_put(const struct wire_header *header, uint8_t out[WIRE_HEADER_BYTES]);
/* STATUS_WIRE_MALFORMED when the length is over the limit. */
int wire_header_get(const uint8_t in[WIRE_HEADER_BYTES], struct wire_header *header);
const char *wire_type_name(uint8_t type); /* "DATA"; "?" for an unknown one */

#endif
