/*
 * check, second depth: data. A shadow of the arena holds for each byte which element of which tensor was
 * written there last, and for sums how far they are (started, added to, finished). Every execution's reads
 * must find exactly the elements that they ask for; its writes replace tags. Finer than a tag by row: a wrong
 * overlap, a ring of too few rows or a skipped operator cannot pass. A second plane holds the transfer that a
 * byte waits for: memory under a queued send is not written, under a posted receive neither read nor written,
 * until a WAIT.
 *
 * Within one execution a kernel may go in any order, so an output that replaces an element which the same
 * execution reads is refused, unless the operator works in place: element-wise with the same addresses, or
 * FINISH by its rule.
 */
#include "shared/vm/parts.h"

#include <string.h>

/* A tag: tensor in 16 bits, number of the element in the whole tensor in 44, kind in 4. 0: never written. */
enum { INDEX_SHIFT = 4, TENSOR_SHIFT = 48 };
#define INDEX_MASK ((UINT64_C(1) << 44) - 1)

/* Kinds: an int8 value, or lane 0..3 of a sum in one of three states, added. */
enum { KIND_S8 = 1, KIND_STARTED = 4, KIND_ADDED = 8, KIND_FINISHED = 12, KIND_LANE = 3, KIND_STATE = 12 };

struct shadow {
    const struct fragment *fragment;
    uint64_t *tag;
    uint16_t *pending;               /* transfer + 1, or 0 */
    uint32_t pending_lo, pending_hi; /* bytes that may be pending */
    uint32_t pending_rank;           /* lowest rank that is */
};

/* Elements side by side in memory: channels of one pixel. */
struct run {
    uint32_t at;  /* arena offset */
    int32_t n;    /* elements */
    uint64_t tag; /* of the first, kind 0 */
    uint16_t transfer;
    bool accumulate;
};

static uint32_t arena_of(const struct fragment *f)
{
    return f->header->arena_bytes;
}

size_t vm_check_data_bytes(const struct fragment *fragment)
{
    return (size_t)arena_of(fragment) * (sizeof(uint64_t) + sizeof(uint16_t)) + sizeof(uint64_t);
}

/* ---- what happens to one run ---- */

typedef const char *(*run_action)(struct shadow *s, const struct run *run);

static bool arriving(const struct shadow *s, uint16_t pending)
{
    return pending != 0 && s->fragment->transfers[pending - 1].to == s->fragment->header->party;
}

static const char *stale(uint64_t tag, uint64_t wanted)
{
    if (tag == 0)
        return "reads what was never written";
    if (tag >> TENSOR_SHIFT != wanted >> TENSOR_SHIFT)
        return "reads what another tensor has overwritten";
    if ((tag ^ wanted) >> INDEX_SHIFT != 0)
        return "reads another part of the tensor";
    return "reads sums that are not ready, or values as sums";
}

static const char *read_s8(struct shadow *s, const struct run *run)
{
    uint64_t wanted = run->tag | KIND_S8;
    for (int32_t i = 0; i < run->n; i++, wanted += 1u << INDEX_SHIFT) {
        if (s->tag[run->at + (uint32_t)i] != wanted)
            return stale(s->tag[run->at + (uint32_t)i], wanted);
        if (arriving(s, s->pending[run->at + (uint32_t)i]))
            return "reads memory under a posted receive";
    }
    return NULL;
}

static const char *read_sums_in(struct shadow *s, const struct run *run, uint64_t lowest_state,
                                bool may_be_pending)
{
    for (uint32_t i = 0; i < (uint32_t)run->n * 4; i++) {
        uint64_t tag = s->tag[run->at + i], wanted = run->tag + ((uint64_t)(i / 4) << INDEX_SHIFT);
        uint64_t state = tag & KIND_STATE;
        if ((tag & ~(uint64_t)KIND_STATE) != (wanted | i % 4) || state < lowest_state ||
            state == KIND_FINISHED)
            return stale(tag, wanted);
        if (!may_be_pending && arriving(s, s->pending[run->at + i]))
            return "reads memory under a posted receive";
    }
    return NULL;
}

static const char *read_sums(struct shadow *s, const struct run *run)
{
    return read_sums_in(s, run, KIND_ADDED, false);
}

static void tag_sums(struct shadow *s, const struct run *run, uint64_t state)
{
    for (uint32_t i = 0; i < (uint32_t)run->n * 4; i++)
        s->tag[run->at + i] = (run->tag + ((uint64_t)(i / 4) << INDEX_SHIFT)) | state | i % 4;
}

static const char *free_to_write(const struct shadow *s, const struct run *run, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        if (s->pending[run->at + i] != 0)
            return arriving(s, s->pending[run->at + i]) ? "writes memory under a posted receive"
                                                        : "writes memory under a queued send";
    return NULL;
}

static const char *write_s8(struct shadow *s, const struct run *run)
{
    for (int32_t i = 0; i < run->n; i++)
        s->tag[run->at + (uint32_t)i] = (run->tag + ((uint64_t)i << INDEX_SHIFT)) | KIND_S8;
    return free_to_write(s, run, (uint32_t)run->n);
}

static const char *write_sums(struct shadow *s, const struct run *run)
{
    tag_sums(s, run, KIND_ADDED);
    return free_to_write(s, run, (uint32_t)run->n * 4);
}

static const char *start_sums(struct shadow *s, const struct run *run)
{
    tag_sums(s, run, KIND_STARTED);
    return free_to_write(s, run, (uint32_t)run->n * 4);
}

static const char *add_to_sums(struct shadow *s, const struct run *run)
{
    const char *fault = read_sums_in(s, run, KIND_STARTED, false);
    if (!fault)
        fault = free_to_write(s, run, (uint32_t)run->n * 4);
    if (!fault)
        tag_sums(s, run, KIND_ADDED);
    return fault;
}

/* Sums are finished once: adding to them later without ZERO is a fault. */
static const char *consume_sums(struct shadow *s, const struct run *run)
{
    const char *fault = read_sums(s, run);
    if (!fault)
        tag_sums(s, run, KIND_FINISHED);
    return fault;
}

static const char *find_finished(struct shadow *s, const struct run *run)
{
    for (uint32_t i = 0; i < (uint32_t)run->n * 4; i++)
        if (s->tag[run->at + i] != ((run->tag + ((uint64_t)(i / 4) << INDEX_SHIFT)) | KIND_FINISHED | i % 4))
            return "overlaps";
    return NULL;
}

/* ---- transfers ---- */

static void mark_pending(struct shadow *s, const struct run *run, uint32_t bytes)
{
    uint32_t rank = s->fragment->transfers[run->transfer].rank;
    for (uint32_t i = 0; i < bytes; i++) {
        uint16_t *pending = &s->pending[run->at + i];
        if (*pending == 0 || s->fragment->transfers[*pending - 1].rank < rank)
            *pending = (uint16_t)(run->transfer + 1);
    }
    if (run->at < s->pending_lo)
        s->pending_lo = run->at;
    if (run->at + bytes > s->pending_hi)
        s->pending_hi = run->at + bytes;
    if (rank < s->pending_rank)
        s->pending_rank = rank;
}

static const char *send_s8(struct shadow *s, const struct run *run)
{
    const char *fault = read_s8(s, run);
    mark_pending(s, run, (uint32_t)run->n);
    return fault;
}

static const char *send_sums(struct shadow *s, const struct run *run)
{
    const char *fault = read_sums(s, run);
    mark_pending(s, run, (uint32_t)run->n * 4);
    return fault;
}

static const char *post_s8(struct shadow *s, const struct run *run)
{
    const char *fault = write_s8(s, run);
    mark_pending(s, run, (uint32_t)run->n);
    return fault;
}

/* Several arriving contributions of one rank may add into the same sums; else the memory must be free. Sums
 * that only arrive stand as finished until the WAIT, so that nothing is added to them before. */
static const char *post_sums(struct shadow *s, const struct run *run)
{
    uint32_t bytes = (uint32_t)run->n * 4;
    const char *fault = NULL;
    if (run->accumulate) {
        fault = read_sums_in(s, run, KIND_STARTED, true);
        for (uint32_t i = 0; !fault && i < bytes; i++) {
            uint16_t pending = s->pending[run->at + i];
            if (pending != 0 && (!arriving(s, pending) || s->fragment->transfers[pending - 1].rank !=
                                                              s->fragment->transfers[run->transfer].rank))
                fault = "adds to memory under another transfer";
        }
        tag_sums(s, run, KIND_ADDED);
    } else {
        fault = free_to_write(s, run, bytes);
        tag_sums(s, run, KIND_FINISHED);
    }
    mark_pending(s, run, bytes);
    return fault;
}

/* A WAIT: what was pending of rank <= `rank` is there, or gone. */
static void settle(struct shadow *s, uint32_t rank)
{
    if (s->pending_rank > rank)
        return;
    uint32_t lo = s->pending_hi, hi = 0, lowest = UINT32_MAX;
    for (uint32_t i = s->pending_lo; i < s->pending_hi; i++) {
        if (s->pending[i] == 0)
            continue;
        uint32_t its = s->fragment->transfers[s->pending[i] - 1].rank;
        if (its <= rank) {
            if (arriving(s, s->pending[i]) && (s->tag[i] & KIND_STATE) == KIND_FINISHED)
                s->tag[i] ^= KIND_FINISHED ^ KIND_ADDED;
            s->pending[i] = 0;
            continue;
        }
        lo = i < lo ? i : lo;
        hi = i + 1;
        lowest = its < lowest ? its : lowest;
    }
    s->pending_lo = lowest == UINT32_MAX ? UINT32_MAX : lo;
    s->pending_hi = hi;
    s->pending_rank = lowest;
}

/* ---- from operands to runs ---- */

struct walk {
    struct shadow *shadow;
    const struct vm *vm;
    const struct vm_act *act;
    int32_t lo,
        hi; /* output rows of the act that the operand belongs to; windows leave out what no tap reads */
};

static const char *each_pixel(const struct walk *walk, const struct vm_operand *operand,
                              struct vm_origin origin, int32_t h, run_action action)
{
    const struct fragment_view *v = &walk->vm->fragment->views[operand->view];
    const struct vm_box *box = &operand->box;
    uint64_t channels = v->part_c_of ? v->part_c_of : v->c;
    uint64_t row = v->offset + (uint64_t)vm_view_slot(v, origin, h) * v->row_stride;
    struct run run = {.n = box->c1 - box->c0,
                      .transfer = (uint16_t)walk->act->code->arg,
                      .accumulate = (walk->act->code->form & FRAGMENT_FORM_ACC) != 0};
    for (int32_t w = box->w0; w < box->w1; w++) {
        uint64_t index =
            ((uint64_t)(h + v->part_h) * v->w + (uint64_t)w) * channels + v->part_c + (uint64_t)box->c0;
        run.at = (uint32_t)(row + (uint64_t)(w - origin.w) * v->pixel_stride +
                            (uint64_t)(box->c0 - origin.c) * v->elem);
        run.tag = (uint64_t)v->tensor << TENSOR_SHIFT | (index & INDEX_MASK) << INDEX_SHIFT;
        const char *fault = action(walk->shadow, &run);
        if (fault)
            return fault;
    }
    return NULL;
}

static const char *each_run(const struct walk *walk, const struct vm_operand *operand, run_action action)
{
    if (operand->view == FRAGMENT_NONE)
        return NULL;
    const struct fragment_view *v = &walk->vm->fragment->views[operand->view];
    if (v->region != FRAGMENT_REGION_ARENA)
        return NULL;
    struct vm_origin origin = vm_view_origin(walk->vm->fragment, walk->vm->counter, v);
    struct vm_extent rows = vm_view_inside(v, operand);
    const char *fault = NULL;
    for (int32_t h = rows.lo; !fault && h < rows.hi; h++)
        if (operand->writes || vm_act_taps(walk->act, walk->lo, walk->hi, h))
            fault = each_pixel(walk, operand, origin, h, action);
    return fault;
}

/* ---- operators ---- */

static bool is_sums(const struct walk *walk, const struct vm_operand *operand)
{
    return operand->view != FRAGMENT_NONE && walk->vm->fragment->views[operand->view].elem == 4;
}

static const char *read_inputs(const struct walk *walk, const struct vm_operand operands[3])
{
    const char *fault = NULL;
    for (int i = 0; !fault && i < 2; i++)
        fault = each_run(walk, &operands[i], is_sums(walk, &operands[i]) ? read_sums : read_s8);
    return fault;
}

static bool same_addresses(const struct walk *walk, uint16_t a, uint16_t b)
{
    const struct fragment *f = walk->vm->fragment;
    const struct fragment_view *x = &f->views[a], *y = &f->views[b];
    struct vm_origin ox = vm_view_origin(f, walk->vm->counter, x),
                     oy = vm_view_origin(f, walk->vm->counter, y);
    return x->region == y->region && x->offset == y->offset && x->row_stride == y->row_stride &&
           x->pixel_stride == y->pixel_stride && x->elem == y->elem && x->rows == y->rows && ox.h == oy.h &&
           ox.w == oy.w && ox.c == oy.c;
}

/* Inputs must outlive the writing of the output, but for those that an element-wise operator replaces one by
 * one. */
static const char *verify_after(const struct walk *walk, const struct vm_operand operands[3])
{
    uint8_t op = walk->act->code->op;
    bool in_place = op == FRAGMENT_ADD || op == FRAGMENT_MUL || op == FRAGMENT_LUT || op == FRAGMENT_SOFTMAX;
    const uint32_t bcast = FRAGMENT_FORM_BCAST_PIXEL | FRAGMENT_FORM_BCAST_SCALAR;
    for (int i = 0; i < 2; i++) {
        if (operands[i].view == FRAGMENT_NONE)
            continue;
        bool one_by_one = in_place && !(i == 1 && (walk->act->code->form & bcast)) &&
                          same_addresses(walk, operands[i].view, operands[VM_OUT].view);
        if (!one_by_one && each_run(walk, &operands[i], is_sums(walk, &operands[i]) ? read_sums : read_s8))
            return "overwrites its own input";
    }
    return NULL;
}

/* What finishes at once has summed over all input channels of its weights. */
static bool sums_up(const struct walk *walk)
{
    const struct fragment_code *code = walk->act->code;
    if (code->op != FRAGMENT_CONV)
        return true;
    const struct fragment_slice *s = &walk->vm->fragment->slices[code->slice];
    return walk->act->k0 == s->k0 && walk->act->k1 == s->k1;
}

static const char *data_plain(const struct walk *walk, const struct vm_operand operands[3])
{
    if (!sums_up(walk))
        return "finishes with some of the input channels";
    const char *fault = read_inputs(walk, operands);
    if (!fault)
        fault = each_run(walk, &operands[VM_OUT], is_sums(walk, &operands[VM_OUT]) ? write_sums : write_s8);
    return fault ? fault : verify_after(walk, operands);
}

static bool covers_channels(const struct walk *walk, uint16_t view, const struct vm_box *box)
{
    const struct fragment_view *v = &walk->vm->fragment->views[view];
    int32_t start = vm_view_origin(walk->vm->fragment, walk->vm->counter, v).c;
    int32_t end = start + v->c_cap < v->c ? start + v->c_cap : v->c;
    return box->c0 == start && box->c1 == end;
}

/* ENCODING A: in place FINISH covers all channels of its views, out and in have the same origins and rows,
 * and out's offset and strides are not above in's. */
static const char *in_place_fault(const struct walk *walk, const struct vm_operand operands[3])
{
    const struct fragment *f = walk->vm->fragment;
    const struct fragment_view *in = &f->views[operands[0].view], *out = &f->views[operands[VM_OUT].view];
    struct vm_origin a = vm_view_origin(f, walk->vm->counter, in),
                     b = vm_view_origin(f, walk->vm->counter, out);
    if (a.h != b.h || a.w != b.w || a.c != b.c || in->rows != out->rows)
        return "finishes in place between views of unlike origins";
    if (out->offset > in->offset || out->row_stride > in->row_stride || out->pixel_stride > in->pixel_stride)
        return "finishes in place upward";
    if (!covers_channels(walk, operands[0].view, &walk->act->box) ||
        !covers_channels(walk, operands[VM_OUT].view, &walk->act->box))
        return "finishes some channels in place";
    return NULL;
}

/* Row by row, upward, as the kernel does. */
static const char *data_finish(struct walk *walk)
{
    struct vm_operand operands[3];
    for (int32_t h = walk->act->row0; h < walk->act->row1; h++) {
        const char *fault = vm_act_operands(walk->vm->fragment, walk->act, h, h + 1, operands);
        if (!fault)
            fault = each_run(walk, &operands[0], consume_sums);
        if (!fault)
            fault = each_run(walk, &operands[VM_OUT], write_s8);
        if (!fault && each_run(walk, &operands[0], find_finished))
            fault = in_place_fault(walk, operands);
        if (fault)
            return fault;
    }
    return NULL;
}

static const char *data_transfer(const struct walk *walk, const struct vm_operand operands[3])
{
    const struct fragment_code *code = walk->act->code;
    if (code->op == FRAGMENT_SEND)
        return each_run(walk, &operands[0], is_sums(walk, &operands[0]) ? send_sums : send_s8);
    const char *fault =
        each_run(walk, &operands[VM_OUT], is_sums(walk, &operands[VM_OUT]) ? post_sums : post_s8);
    if (code->op == FRAGMENT_RECV)
        settle(walk->shadow, walk->vm->fragment->transfers[code->arg].rank);
    return fault;
}

/* Scratch is written before anything is read, and outlives what is written: so it meets neither inputs nor
 * outputs nor what a transfer needs. */
static const char *data_kernel(const struct walk *walk, const struct vm_operand operands[3])
{
    struct vm_operand scratch = vm_act_scratch(walk->vm->fragment, walk->act->code);
    const char *fault = each_run(walk, &scratch, write_s8);
    if (!fault && (walk->act->code->op == FRAGMENT_SUM ||
                   (walk->act->code->op == FRAGMENT_CONV && (walk->act->code->form & FRAGMENT_FORM_ACC)))) {
        fault = read_inputs(walk, operands);
        if (!fault)
            fault = each_run(walk, &operands[VM_OUT], add_to_sums);
    } else if (!fault) {
        fault = data_plain(walk, operands);
    }
    if (!fault && each_run(walk, &scratch, read_s8))
        fault = "writes its output over its scratch";
    return fault;
}

static const char *data_act(struct shadow *shadow, const struct vm *vm, const struct vm_act *act)
{
    struct walk walk = {shadow, vm, act, act->box.h0, act->box.h1};
    struct vm_operand operands[3];
    const char *fault;
    if (act->code->op == FRAGMENT_WAIT) {
        settle(shadow, act->code->arg);
        return NULL;
    }
    if (act->code->op == FRAGMENT_FINISH)
        return data_finish(&walk);
    fault = vm_act_operands(vm->fragment, act, act->row0, act->row1, operands);
    if (fault)
        return fault;
    if (vm_moves(act->code->op))
        return data_transfer(&walk, operands);
    if (act->code->op == FRAGMENT_ZERO)
        return each_run(&walk, &operands[VM_OUT], start_sums);
    return data_kernel(&walk, operands);
}

static int refuse(struct fragment_place *place, uint16_t record, const char *reason)
{
    if (place)
        *place = (struct fragment_place){.record = record, .section = FRAGMENT_CODE, .reason = reason};
    return STATUS_FRAGMENT_DATA;
}

int vm_check_data(const struct fragment *fragment, void *shadow, size_t shadow_bytes,
                  struct fragment_place *place)
{
    size_t bytes = vm_check_data_bytes(fragment);
    if (shadow_bytes < bytes)
        return STATUS_INVALID_ARGUMENT;
    memset(shadow, 0, bytes);
    struct shadow s = {.fragment = fragment,
                       .tag = shadow,
                       .pending = (uint16_t *)((uint64_t *)shadow + arena_of(fragment)),
                       .pending_lo = UINT32_MAX,
                       .pending_rank = UINT32_MAX};
    struct vm vm;
    struct vm_act act;
    int status;
    vm_start(&vm, fragment, (struct vm_memory){0}, (struct vm_io){0});
    while ((status = vm_fetch(&vm, &act, INT32_MAX)) == VM_FETCHED) {
        status = vm_begin(&vm);
        if (status != STATUS_OK)
            return status;
        const char *fault = data_act(&s, &vm, &act);
        if (fault)
            return refuse(place, vm.pc, fault);
        vm_advance(&vm);
    }
    return status;
}
