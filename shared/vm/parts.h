/*
 * What the walker's back ends share; private to shared/vm. Functions that can refuse answer a static reason,
 * or NULL where all is well: the checks report it with its place, a run ends with STATUS_FRAGMENT_BOUNDS.
 */
#ifndef SHOAL_SHARED_VM_PARTS_H
#define SHOAL_SHARED_VM_PARTS_H

#include "shared/vm/vm.h"

enum {
    VM_STEPS_MAX = 4000000, /* LOOP, END and skipped instructions in one run */
    VM_FETCHED = 3,         /* of vm_fetch: an instruction is ready; beside enum vm_state */
    VM_OUT = 2              /* index of the output among an instruction's operands */
};

/* ---- range.c ---- */

/* A range at the present counters: `first` is the unclamped start, [lo, hi) what is left after clamping. */
struct vm_extent {
    int64_t first;
    int32_t lo, hi;
};
struct vm_extent vm_range(const struct fragment *fragment, const int32_t *counter, uint16_t index);
/* Clamped start of a view's range; 0 for FRAGMENT_NONE. */
int32_t vm_start_of(const struct fragment *fragment, const int32_t *counter, uint16_t index);

/* ---- act.c: one execution of an instruction ---- */

struct vm_act {
    const struct fragment_code *code;
    const struct nn_params *p; /* those of a plain move where the instruction names none */
    struct vm_box box;         /* the whole output box */
    int32_t k0, k1;
    int32_t row0, row1; /* rows over which calls may cut it: output rows, or input rows of a SUM over h */
};
/* What an execution touches through one view. Rows may lie outside the image (windows, padding): these hold
 * nothing. Columns and channels are clamped to the tensor and may then be empty. */
struct vm_operand {
    uint16_t view; /* FRAGMENT_NONE: no such operand */
    bool writes;   /* an operand that is added to is read, too */
    struct vm_box box;
};

/* What is wrong with an instruction whatever the counters: views, parameters, slice and forms that do not go
 * together, parameters out of their range. */
const char *vm_code_fault(const struct fragment *fragment, const struct fragment_code *code);
/* Evaluates the ranges; false: empty, to be skipped. */
bool vm_act_evaluate(const struct fragment *fragment, const int32_t *counter, uint16_t pc,
                     struct vm_act *act);
/* Operands in[0], in[1], out for rows [lo, hi) of the act. */
const char *vm_act_operands(const struct fragment *fragment, const struct vm_act *act, int32_t lo, int32_t hi,
                            struct vm_operand operands[3]);
/* How far one kernel call that begins at `row` goes (bounded work, tables of NN_ROWS_MAX rows), and its
 * operands. */
const char *vm_act_chunk(const struct fragment *fragment, const struct vm_act *act, int32_t row, int32_t *end,
                         struct vm_operand operands[3]);
/* The scratch that the weights' layout asks for: all of its view, written. No view: none needed. */
struct vm_operand vm_act_scratch(const struct fragment *fragment, const struct fragment_code *code);
/* How many output channels one call may make of a single row: all, but for long rows of convolutions. */
int32_t vm_act_channels(const struct fragment *fragment, const struct vm_act *act);
/* Whether any output row of [lo, hi) reads input row `row` (windows with gaps). */
bool vm_act_taps(const struct vm_act *act, int32_t lo, int32_t hi, int32_t row);
static inline bool vm_moves(uint8_t op)
{
    return op == FRAGMENT_SEND || op == FRAGMENT_POST || op == FRAGMENT_RECV;
}

/* ---- view.c: the only way to memory ---- */

struct vm_origin {
    int32_t h, w, c;
};
struct vm_origin vm_view_origin(const struct fragment *fragment, const int32_t *counter,
                                const struct fragment_view *view);
/* Rows that lie in the tensor of an operand's box. */
struct vm_extent vm_view_inside(const struct fragment_view *view, const struct vm_operand *operand);
/* Whether the operand's part inside the image lies within what its view holds. */
const char *vm_view_fault(const struct fragment *fragment, const int32_t *counter,
                          const struct vm_operand *operand);
/* Slot of a row; the row must have passed vm_view_fault. */
static inline uint32_t vm_view_slot(const struct fragment_view *view, struct vm_origin origin, int32_t h)
{
    return (uint32_t)(h - origin.h) % view->rows;
}
/* Fills rows[i] with the address of element (box.h0 + i, box.w0, box.c0), NULL outside the image. Checks
 * every bound, every time, and keeps the high-water mark. rows has NN_ROWS_MAX entries. */
const char *vm_view_rows(struct vm *vm, const struct vm_operand *operand, void **rows);
/* A slot over the whole operand, checked in the same way. */
const char *vm_view_slot_of(struct vm *vm, const struct vm_operand *operand, struct vm_slot *slot);

/* ---- walk.c: control flow, the same for run, check and cost ---- */

/* Goes on to the next instruction that executes, by at most `budget` steps: VM_FETCHED (a WAIT has no box),
 * VM_DONE, VM_RAN (budget used up), or STATUS_FRAGMENT_ENDLESS. */
int vm_fetch(struct vm *vm, struct vm_act *act, int32_t budget);
/* Counts an execution: 0, or STATUS_FRAGMENT_ENDLESS beyond the limit. */
int vm_begin(struct vm *vm);
/* Leaves the present instruction. */
void vm_advance(struct vm *vm);

/* ---- order.c: the order of transfers and the rule of posting ---- */

void vm_order_start(struct vm_order *order, const struct fragment *fragment);
/* A SEND, POST or RECV of `box`. */
const char *vm_order_part(struct vm_order *order, const struct fragment_code *code, const struct vm_box *box);
/* A WAIT, or the waiting of a RECV of `box`. */
const char *vm_order_wait(struct vm_order *order, const struct fragment_code *code, const struct vm_box *box);
const char *vm_order_end(struct vm_order *order);

#endif
