/* Frames from a stranger: header and payload decode without reading outside, and what decodes encodes to the
 * same bytes again. */
#include "shared/wire/wire.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static _Alignas(8) uint8_t room[WIRE_MESSAGE_MAX];

void fuzz_one(const uint8_t *bytes, size_t size)
{
    struct wire_header header;
    if (size < WIRE_HEADER_BYTES || wire_header_get(bytes, &header) < 0)
        return;
    assert(header.length <= WIRE_PAYLOAD_MAX);
    if (size - WIRE_HEADER_BYTES < header.length)
        return;
    /* A copy of exactly that length: the decoder must not look past it. */
    uint8_t *payload = malloc(header.length ? header.length : 1);
    memcpy(payload, bytes + WIRE_HEADER_BYTES, header.length);
    if (wire_decode(header.type, payload, header.length, room) == STATUS_OK) {
        uint8_t again[WIRE_PAYLOAD_MAX];
        int n = wire_encode(header.type, room, again);
        assert(n == (int)header.length && memcmp(again, payload, header.length) == 0);
    }
    free(payload);
    (void)wire_type_name(header.type);
}

size_t fuzz_seed(unsigned i, uint8_t *out, size_t size)
{
    static const uint8_t types[] = {WIRE_WELCOME, WIRE_RUN,   WIRE_OFFER, WIRE_ACTIVATE, WIRE_DO,
                                    WIRE_CERT,    WIRE_HELLO, WIRE_DONE,  WIRE_FAILED,   WIRE_BEAT,
                                    WIRE_WANT,    WIRE_HAVE,  WIRE_LOG,   WIRE_ENROL};
    enum { TYPES = sizeof types };
    if (i >= TYPES * 4 || size < WIRE_FRAME_MAX)
        return 0;
    uint8_t type = types[i % TYPES];
    int n = wire_sample(type, i, room) < 0 ? 0 : wire_encode(type, room, out + WIRE_HEADER_BYTES);
    struct wire_header header = {.type = type, .length = n > 0 ? (uint32_t)n : 0};
    wire_header_put(&header, out);
    return WIRE_HEADER_BYTES + header.length;
}
