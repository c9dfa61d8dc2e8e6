/*
 * Loopback for walkers: a hub carries transfers between any number of parties in one thread. Frames are of
 * random sizes, progress is made only while somebody waits and only a little at a time, so that programs
 * which rely on more than ENCODING C promises fail. The coordinator's part is played by the test:
 * local_hub_put() before or while the parties run, local_hub_find() afterwards.
 */
#ifndef SHOAL_TESTS_SUPPORT_LOCAL_IO_H
#define SHOAL_TESTS_SUPPORT_LOCAL_IO_H

#include "shared/vm/vm.h"
#include "tests/support/prng.h"

enum { LOCAL_PENDING_MAX = 1024 };

/* One transfer on its way: `filled` of its bytes have been sent, `taken` received. */
struct local_transfer {
    uint16_t from, to, id;
    uint8_t *bytes;
    uint32_t size, filled, taken;
};

struct local_hub {
    struct local_transfer *transfers;
    int32_t count;
    uint32_t capacity; /* bytes that a link between boards holds; the coordinator's takes everything */
    struct prng prng;
};

struct local_pending {
    struct vm_slot slot;
    bool send;
    uint32_t at; /* bytes moved */
    uint8_t carry[4];
};

/* What one walker's vm_io points at. */
struct local_io {
    struct local_hub *hub;
    const struct fragment *fragment;
    struct local_pending pending[LOCAL_PENDING_MAX];
    int32_t count;
    uint64_t moved; /* bytes, ever: shows whether waiting made progress */
};

void local_hub_start(struct local_hub *hub, uint64_t seed);
void local_hub_end(struct local_hub *hub);
/* Sends a whole transfer on behalf of the coordinator or a missing party. */
void local_hub_put(struct local_hub *hub, uint16_t from, uint16_t to, uint16_t id, const void *bytes,
                   uint32_t size);
/* NULL when nothing of it was sent. */
const struct local_transfer *local_hub_find(const struct local_hub *hub, uint16_t from, uint16_t to,
                                            uint16_t id);

void local_io_start(struct local_io *io, struct local_hub *hub, const struct fragment *fragment);
struct vm_io local_io_functions(struct local_io *io);

/* One party: its walker over an arena of its own between guard zones, filled with garbage. */
struct local_party {
    const struct fragment *fragment;
    const uint8_t *resident;
    struct local_io io;
    struct vm vm;
    struct vm_tables tables;
    uint8_t *block;
    int status; /* the last step's */
};
void local_party_start(struct local_party *party, struct local_hub *hub, const struct fragment *fragment);
/* False: something was written outside the arena. */
bool local_party_end(struct local_party *party);
/* Steps all parties in turn until all are done; 0, the first negative status, or STATUS_DEADLINE when all
 * wait and nothing moves. */
int local_run(struct local_party *const *parties, int32_t n);

#endif
