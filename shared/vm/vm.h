/*
 * The walker: one interpreter of fragments with three back ends. Host board, QEMU board, Teensy, simulator
 * and the in-process run walk the same bytes with this code.
 *
 * run    vm_step() executes at most one kernel call and returns, so that one thread can run any number of
 * virtual boards and a real board can poll its network and watchdog in between. cost   vm_cost() walks
 * without touching data: MACs, elements, weight bytes, transfers, executions. check  vm_check_bounds() (every
 * board, when it stores a fragment) and vm_check_data() (the server before it pushes, and tests).
 */
#ifndef SHOAL_SHARED_VM_VM_H
#define SHOAL_SHARED_VM_VM_H

#include "shared/fragment/fragment.h"

/* A box, evaluated; coordinates of the whole tensor. */
struct vm_box {
    int32_t h0, h1, w0, w1, c0, c1;
};

/* One posted receive or queued send: where the elements of a transfer lie. Valid until its rank is done. */
struct vm_slot {
    uint16_t transfer; /* index into the fragment's transfers */
    uint8_t wire;      /* enum fragment_wire */
    bool accumulate;   /* arriving sums are added */
    uint8_t elem;
    struct vm_box box; /* of this execution (a row of it in a loop) */
    uint8_t *base;     /* region base */
    uint32_t offset, row_stride, pixel_stride;
    int32_t rows, h_start, w_start, c_start;
    uint32_t bytes; /* on the wire */
    uint32_t first; /* byte offset of this execution's part within the whole transfer */
};

/* Copies `n` wire bytes from (to) element stream position `at` of the slot, packed h, w, c. at and n may be
 * any numbers with at + n <= bytes, also in the middle of an element; a put that adds sums keeps the partial
 * element in `carry` (4 bytes, zeroed by the owner when the slot is posted). */
void vm_slot_get(const struct vm_slot *slot, uint32_t at, uint8_t *out, uint32_t n);
void vm_slot_put(const struct vm_slot *slot, uint32_t at, const uint8_t *in, uint32_t n, uint8_t carry[4]);

/* What the program's transfers reach. Functions return 0 or a negative status, which ends the run. */
struct vm_io {
    void *context;
    int (*post)(void *context, const struct vm_slot *slot);
    int (*send)(void *context, const struct vm_slot *slot);
    /* 1: every receive posted and every send queued of rank <= `rank` is done; 0: not yet. Before VM_DONE the
     * walker waits once for UINT32_MAX: everything. */
    int (*wait)(void *context, uint32_t rank);
};

/* Row pointers of the kernel call at hand: nothing outlives a step, so one serves any number of runs of a
 * thread. Too large for a board's stack. */
enum { VM_TABLE_ROWS = 256 };
struct vm_tables {
    void *in[2][VM_TABLE_ROWS];
    void *out[VM_TABLE_ROWS];
};

struct vm_memory {
    uint8_t *arena; /* aligned to 16 */
    uint32_t arena_bytes;
    const uint8_t *resident;  /* resident weights, or NULL */
    struct vm_tables *tables; /* for vm_step */
};

struct vm_loop {
    uint16_t start; /* index of the LOOP */
    uint8_t counter;
};

struct vm {
    const struct fragment *fragment;
    struct vm_memory memory;
    struct vm_io io;
    uint16_t pc;
    uint8_t depth;
    struct vm_loop stack[FRAGMENT_LOOPS_MAX];
    int32_t counter[FRAGMENT_LOOPS_MAX];
    int32_t row;     /* next output row within the current instruction */
    int32_t channel; /* next output channel within that row, where a row alone is long */
    bool inside;     /* the current instruction has begun */
    uint32_t executions;
    uint32_t limit;      /* executions allowed: what the header states */
    uint8_t cached;      /* cost: depth of the LOOP whose weights stay in the data cache, 0: none */
    uint32_t steps;      /* LOOP, END and skipped instructions, bounded too */
    uint32_t high_water; /* highest arena byte written or read, plus 1 */
};

enum vm_state { VM_DONE = 0, VM_RAN = 1, VM_WAITING = 2 };

/* Begins a run. The fragment has passed vm_check_bounds. */
void vm_start(struct vm *vm, const struct fragment *fragment, struct vm_memory memory, struct vm_io io);
/* One step: VM_RAN (call again), VM_WAITING (call again when something arrived), VM_DONE, or a negative
 * status. */
int vm_step(struct vm *vm);
/* The layer that the next step belongs to, FRAGMENT_NONE: none. */
uint16_t vm_layer(const struct vm *vm);

/* Counts the executions of a program whatever its header states, for whoever writes the header. Returns 0 or
 * STATUS_FRAGMENT_ENDLESS beyond FRAGMENT_EXECUTIONS_MAX. */
int vm_count(const struct fragment *fragment, uint32_t *executions);

/* One direction of a link: the transfer begun last (FRAGMENT_NONE: none) and its next row. */
struct vm_lane {
    uint16_t transfer, row;
};
enum { VM_PEERS_MAX = 64 };
/* The order of transfers as far as a check has come; private to shared/vm. */
struct vm_order {
    const struct fragment *fragment;
    struct {
        uint16_t party;
        struct vm_lane lane[2]; /* received, sent */
    } peer[VM_PEERS_MAX];
    int32_t peers;
    uint32_t lowest; /* first transfer of the table that is not yet posted or queued whole */
    uint32_t done;
};

/* A bounds check on its way; private to shared/vm. */
struct vm_check {
    struct vm vm; /* `inside`: the present instruction has begun, and `row` is where to go on */
    struct vm_order order;
    uint16_t slices; /* done */
};

/* All views, ranges, counters, transfers in bounds over all iterations; loops end; executions as stated; the
 * rule of posting (ENCODING C3). `arena_bytes` is what the board has. Time is bounded by the executions
 * stated. */
int vm_check_bounds(const struct fragment *fragment, uint32_t arena_bytes, struct fragment_place *place);
/* The same in pieces, for a board that must look after its link meanwhile: start once (0 or a refusal; time
 * grows with the records of the fragment), then step until it does not return VM_RAN: 0 passed, negative
 * refused. One call does about `budget` units of work, each some hundred instructions. */
int vm_check_start(struct vm_check *check, const struct fragment *fragment, uint32_t arena_bytes,
                   struct fragment_place *place);
int vm_check_step(struct vm_check *check, int32_t budget, struct fragment_place *place);

/* The data check with a shadow of the arena; every read finds what was written last for that tensor and
 * place. `shadow` is vm_check_data_bytes(fragment) bytes, aligned to 16. Implies the bounds check has passed.
 */
size_t vm_check_data_bytes(const struct fragment *fragment);
int vm_check_data(const struct fragment *fragment, void *shadow, size_t shadow_bytes,
                  struct fragment_place *place);

/* Costs by the definitions of facts/cost-model. */
struct vm_cost {
    uint64_t macs[4];      /* conv1x1, depthwise, conv, fully connected */
    uint64_t elements;     /* of the other operators */
    uint64_t weight_bytes; /* read from flash */
    uint64_t executions;
    uint64_t sent_bytes, received_bytes;
    uint32_t sends, receives;
};
/* Walks up to the next WAIT (or the end) from where `vm` stands and adds to `cost`; returns VM_WAITING with
 * the rank in *rank, or VM_DONE. Start with vm_start and NULL memory. */
int vm_cost(struct vm *vm, struct vm_cost *cost, uint32_t *rank);

#endif
