/*
 * Frames and messages between server and boards (ENCODING C). One frame is one TLS record: a header of 16
 * bytes and at most 4,080 bytes of payload. Every message but DATA, CHUNK and PROBE fits one frame.
 *
 * Payloads are packed little-endian fields declared once, in wire_messages.h: struct, encoder, decoder and
 * fuzz seed are made from the same rows. Strings are u16 length and UTF-8. Unknown frame types are skipped.
 */
#ifndef SHOAL_SHARED_WIRE_WIRE_H
#define SHOAL_SHARED_WIRE_WIRE_H

#include "shared/base/status.h"
#include "shared/wire/wire_messages.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WIRE_VERSION = 1,
    WIRE_HEADER_BYTES = 16,
    WIRE_PAYLOAD_MAX = 4080,
    WIRE_FRAME_MAX = WIRE_HEADER_BYTES + WIRE_PAYLOAD_MAX,
    WIRE_WANT_MAX = 65536, /* bytes that one WANT may ask for */
    WIRE_HASH_BYTES = 32,
    WIRE_STALE_MS = 5000, /* no byte from a board: stale */
    WIRE_OFFLINE_MS = 15000,
    WIRE_BEAT_MS = 1000,
    WIRE_NOP_MS = 5000,    /* server sends NOP when it has sent nothing for so long */
    WIRE_SILENT_MS = 20000 /* a board drops a link that was silent for so long */
};

enum wire_type {
    /* to boards */
    WIRE_WELCOME = 1,
    WIRE_RUN,
    WIRE_DATA,
    WIRE_ABORT,
    WIRE_OFFER,
    WIRE_CHUNK,
    WIRE_ACTIVATE,
    WIRE_PROBE,
    WIRE_NOP,
    WIRE_DO,
    WIRE_CERT,
    /* from boards (DATA both ways) */
    WIRE_HELLO = 64,
    WIRE_DONE,
    WIRE_FAILED,
    WIRE_ABORTED,
    WIRE_BEAT,
    WIRE_WANT,
    WIRE_HAVE,
    WIRE_ECHO,
    WIRE_LOG,
    WIRE_ENROL
};

/* DATA: flags bit 0 on the last frame of a transfer. CHUNK, PROBE: bit 0 on the last frame. */
enum { WIRE_FLAG_LAST = 1 };

/* The fixed header; on the wire little-endian in this order. DATA: transfer id on the link, inference, byte
 * offset within the transfer. CHUNK: offset within the fragment. PROBE: offset counts the bytes so far. */
struct wire_header {
    uint8_t type, flags;
    uint16_t transfer;
    uint32_t inference;
    uint32_t offset;
    uint32_t length; /* of the payload, <= WIRE_PAYLOAD_MAX */
};

enum wire_kind { WIRE_KIND_HOST, WIRE_KIND_MPS2, WIRE_KIND_TEENSY41 };
enum wire_state { WIRE_STATE_PENDING, WIRE_STATE_ACCEPTED, WIRE_STATE_REVOKED };
enum wire_have_what { WIRE_HAVE_STORED, WIRE_HAVE_ACTIVE, WIRE_HAVE_DROPPED };
enum wire_do_what { WIRE_DO_IDENTIFY, WIRE_DO_REBOOT, WIRE_DO_CONFIGURE, WIRE_DO_CALIBRATE, WIRE_DO_RENEW };
enum wire_activity {
    WIRE_ACTIVITY_IDLE,
    WIRE_ACTIVITY_RUNNING,
    WIRE_ACTIVITY_STORING,
    WIRE_ACTIVITY_LOADING
};
enum wire_level { WIRE_LEVEL_DEBUG, WIRE_LEVEL_INFO, WIRE_LEVEL_WARNING, WIRE_LEVEL_ERROR };
enum { WIRE_NO_SECTION = 255, WIRE_NO_LAYER = 65535, WIRE_NO_TEMPERATURE = 32767 };

/* Structs of all messages: strings are NUL-terminated and hold no other NUL; `n_x` counts bytes of a blob,
 * records of a list. */
#define WIRE_STRUCT_u8(name, max) uint8_t name;
#define WIRE_STRUCT_u16(name, max) uint16_t name;
#define WIRE_STRUCT_u32(name, max) uint32_t name;
#define WIRE_STRUCT_u64(name, max) uint64_t name;
#define WIRE_STRUCT_i16(name, max) int16_t name;
#define WIRE_STRUCT_i32(name, max) int32_t name;
#define WIRE_STRUCT_bytes(name, max) uint8_t name[max];
#define WIRE_STRUCT_string(name, max) char name[(max) + 1];
#define WIRE_STRUCT_blob(name, max) \
    uint16_t n_##name;              \
    uint8_t name[max];
#define WIRE_STRUCT_F(kind, name, max) WIRE_STRUCT_##kind(name, max)
#define WIRE_STRUCT_L(element, name, max) \
    uint16_t n_##name;                    \
    struct wire_##element name[max];
#define WIRE_STRUCT(UPPER, lower)                         \
    struct wire_##lower {                                 \
        WIRE_FIELDS_##UPPER(WIRE_STRUCT_F, WIRE_STRUCT_L) \
    };
WIRE_ELEMENTS(WIRE_STRUCT)
WIRE_MESSAGES(WIRE_STRUCT)

/* wire_encode_hello(message, payload) and so on: bytes written to a payload of WIRE_PAYLOAD_MAX, or
 * STATUS_WIRE_MALFORMED when a count, length or text is not as declared or it does not fit one frame.
 * wire_decode_hello(payload, length, message): 0, or STATUS_WIRE_MALFORMED for a payload that is too short,
 * too long, over a cap, or whose text is not UTF-8; the message is then zeroed. */
#define WIRE_FUNCTIONS(UPPER, lower)                                               \
    int wire_encode_##lower(const struct wire_##lower *message, uint8_t *payload); \
    int wire_decode_##lower(const uint8_t *payload, uint32_t length, struct wire_##lower *message);
WIRE_MESSAGES(WIRE_FUNCTIONS)

/* The same by frame type, for fuzzers and logs: decodes into `room` (at least WIRE_MESSAGE_MAX bytes, aligned
 * to 8). STATUS_NOT_FOUND for a type without fields. */
enum { WIRE_MESSAGE_MAX = 8192 };
int wire_decode(uint8_t type, const uint8_t *payload, uint32_t length, void *room);
int wire_encode(uint8_t type, const void *message, uint8_t *payload);
/* A message of that type with every field filled from `seed`, strings and lists of any allowed length that
 * still fits one frame; for tests and fuzz seeds. STATUS_NOT_FOUND for a type without fields. */
int wire_sample(uint8_t type, uint64_t seed, void *room);

void wire_header_put(const struct wire_header *header, uint8_t out[WIRE_HEADER_BYTES]);
/* STATUS_WIRE_MALFORMED when the length is over the limit. */
int wire_header_get(const uint8_t in[WIRE_HEADER_BYTES], struct wire_header *header);
const char *wire_type_name(uint8_t type); /* "DATA"; "?" for an unknown one */

#endif
