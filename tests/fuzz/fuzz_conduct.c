/*
 * Frames from two boards that mean no good: the conductor neither crashes nor leaves an inference without
 * outcome. The input is a row of frames, each with one byte before it: bit 0 the link, bit 1 abort first, bit
 * 2 one more inference.
 */
#include "server/conduct/conduct.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

static uint8_t fragments[2][WIRE_HASH_BYTES] = {{1}, {2}};
static struct conduct_exchange exchanges[2] = {{.shape = {4, 4, 4}, .is_input = true},
                                               {.shape = {1, 2, 6}, .is_output = true}};
static struct conduct_transfer transfers[] = {
    {.id = 0, .exchange = 0, .rank = 1, .to = 1, .box = {0, 4, 0, 4, 0, 4}},
    {.id = 0, .exchange = 0, .rank = 1, .to = 2, .box = {0, 2, 0, 4, 0, 3}},
    {.id = 1, .exchange = 1, .rank = 2, .from = 1, .box = {0, 1, 0, 1, 0, 6}},
    {.id = 1, .exchange = 1, .rank = 2, .from = 2, .box = {0, 1, 1, 2, 0, 6}},
    {.id = 2, .exchange = 1, .rank = 3, .to = 1, .box = {0, 1, 1, 2, 2, 5}},
};
static const struct conduct_table table = {.parties = 2,
                                           .transfers = transfers,
                                           .n_transfers = sizeof transfers / sizeof transfers[0],
                                           .exchanges = exchanges,
                                           .n_exchanges = 2,
                                           .fragments = fragments};

static uint32_t begun, ended;

static void begin(struct conductor *conductor)
{
    static const uint16_t links[2] = {0, 1};
    static const int8_t input[64] = {1, 2, 3};
    const int8_t *inputs[2] = {input, NULL};
    begun++;
    assert(conduct_begin(conductor, begun, &table, links, inputs, 1, 1, begun) == 0);
}

static void drain(struct conductor *conductor)
{
    struct wire_header header;
    uint8_t payload[WIRE_PAYLOAD_MAX];
    const struct conduct_result *result;
    for (uint16_t link = 0; link < 2; link++)
        while (conduct_next_frame(conductor, link, &header, payload) >= 0)
            ;
    while ((result = conduct_finished(conductor)) != NULL) {
        assert(result->inference >= 1 && result->inference <= begun);
        ended++;
        conduct_release(conductor, result);
    }
}

void fuzz_one(const uint8_t *bytes, size_t size)
{
    struct conductor *conductor = conductor_new();
    assert(conductor != NULL);
    assert(conduct_table_check(&table, NULL) == 0);
    begun = ended = 0;
    begin(conductor);
    drain(conductor);
    for (size_t at = 0; size - at > WIRE_HEADER_BYTES;) {
        struct wire_header header;
        uint8_t what = bytes[at++];
        uint16_t link = what & 1;
        if (what & 2)
            conduct_abort(conductor, begun, STATUS_CANCELLED, "fuzz", at);
        if (what & 4 && begun < 20)
            begin(conductor);
        drain(conductor);
        bool good = wire_header_get(bytes + at, &header) == 0;
        at += WIRE_HEADER_BYTES;
        if (!good || header.length > size - at || conduct_frame(conductor, link, &header, bytes + at, at) < 0)
            conduct_link_lost(conductor, link, at);
        else
            at += header.length;
        drain(conductor);
    }
    conduct_time(conductor, (uint64_t)1 << 40);
    drain(conductor);
    if (ended !=
        begun) { /* a deadline counts from when an inference is first on its links: lose those before it */
        conduct_link_lost(conductor, 0, (uint64_t)1 << 40);
        conduct_link_lost(conductor, 1, (uint64_t)1 << 40);
        drain(conductor);
    }
    assert(ended == begun);
    conductor_free(conductor);
}

static size_t put(uint8_t *out, uint8_t what, struct wire_header header, const uint8_t *payload)
{
    out[0] = what;
    wire_header_put(&header, out + 1);
    memcpy(out + 1 + WIRE_HEADER_BYTES, payload, header.length);
    return 1 + WIRE_HEADER_BYTES + header.length;
}

size_t fuzz_seed(unsigned i, uint8_t *out, size_t room)
{
    static struct wire_done done = {.n_times = 2};
    static struct wire_failed failed = {.status = STATUS_RAM_FULL, .reason = "no"};
    uint8_t payload[WIRE_PAYLOAD_MAX] = {1, 2, 3, 4, 5, 6};
    size_t n = 0;
    if (i >= 4 || room < 8 * WIRE_FRAME_MAX)
        return 0;
    for (uint16_t link = 0; link < 2; link++) {
        uint8_t what = (uint8_t)(link | (i & 2 ? 4 : 0));
        n += put(out + n, what,
                 (struct wire_header){
                     .type = WIRE_DATA, .transfer = 1, .inference = 1, .length = 6, .flags = WIRE_FLAG_LAST},
                 payload);
    }
    for (uint16_t link = 0; link < 2; link++) {
        bool fails = i == 1 && link == 1;
        int length = fails ? wire_encode_failed(&failed, payload) : wire_encode_done(&done, payload);
        n += put(out + n, (uint8_t)(link | (i == 3 ? 2 : 0)),
                 (struct wire_header){.type = i == 3  ? WIRE_ABORTED
                                              : fails ? WIRE_FAILED
                                                      : WIRE_DONE,
                                      .inference = 1,
                                      .length = i == 3 ? 0 : (uint32_t)length},
                 payload);
    }
    return n;
}
