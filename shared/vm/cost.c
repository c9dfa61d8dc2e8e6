/*
 * cost: the figures of facts/cost-model, by walking the program without touching data. Multiply-accumulates
 * count taps outside the image, as published figures do. Weights (values, multipliers, biases) are read from
 * flash once an execution, or once for each time that a LOOP is entered whose weights stay in the data cache;
 * resident ones never.
 */
#include "shared/vm/parts.h"

enum { CACHE_BYTES = 24 * 1024, SCALES_BYTES = 12 };
enum { KIND_CONV1X1, KIND_DEPTHWISE, KIND_CONV, KIND_FULLY_CONNECTED };

static uint64_t elements_of(const struct vm_box *box)
{
    if (box->h0 >= box->h1 || box->w0 >= box->w1 || box->c0 >= box->c1)
        return 0;
    return (uint64_t)(box->h1 - box->h0) * (uint64_t)(box->w1 - box->w0) * (uint64_t)(box->c1 - box->c0);
}

/* Bytes of the weights that output channels [c0, c1) from input channels [k0, k1) need. */
static uint64_t weights_of(const struct fragment *f, const struct vm_act *act)
{
    if (act->code->slice == FRAGMENT_NONE || act->box.c0 >= act->box.c1)
        return 0;
    const struct fragment_slice *s = &f->slices[act->code->slice];
    if (s->resident_offset != FRAGMENT_NOT_RESIDENT)
        return 0;
    uint64_t c = (uint64_t)(act->box.c1 - act->box.c0), scales = c * SCALES_BYTES;
    switch (act->code->op) {
    case FRAGMENT_CONV:
        if (act->code->form & FRAGMENT_FORM_ACC)
            scales = 0;
        return act->k1 > act->k0 ? c * (uint64_t)(act->k1 - act->k0) * s->kernel + scales : 0;
    case FRAGMENT_DW:
        return c * s->kernel + scales;
    case FRAGMENT_FINISH:
        return scales;
    case FRAGMENT_LUT:
        return s->bytes;
    default:
        return 0;
    }
}

/* ---- LOOPs whose weights stay in the data cache ---- */

/* What a range covers over all iterations between two settings of the counters: ranges move one way. */
static void between(const struct fragment *f, const int32_t *first, const int32_t *last, uint16_t range,
                    int32_t *lo, int32_t *hi)
{
    if (range == FRAGMENT_NONE)
        return;
    struct vm_extent a = vm_range(f, first, range), b = vm_range(f, last, range);
    *lo = a.lo < b.lo ? a.lo : b.lo;
    *hi = a.hi > b.hi ? a.hi : b.hi;
}

static uint64_t weights_between(const struct fragment *f, const int32_t *first, const int32_t *last,
                                uint16_t pc)
{
    struct vm_act act = {.code = &f->code[pc]};
    between(f, first, last, act.code->c, &act.box.c0, &act.box.c1);
    between(f, first, last, act.code->k, &act.k0, &act.k1);
    return weights_of(f, &act);
}

/* All weights inside the LOOP at vm->pc, or more than the cache holds. */
static uint64_t weights_of_loop(const struct vm *vm)
{
    const struct fragment *f = vm->fragment;
    int32_t first[FRAGMENT_LOOPS_MAX], last[FRAGMENT_LOOPS_MAX];
    for (int i = 0; i < FRAGMENT_LOOPS_MAX; i++)
        first[i] = last[i] = vm->counter[i];
    uint64_t sum = 0;
    int depth = 0;
    for (uint16_t pc = vm->pc; pc < f->n_code && sum <= CACHE_BYTES; pc++) {
        const struct fragment_code *code = &f->code[pc];
        if (code->op == FRAGMENT_LOOP) {
            depth++;
            first[code->loop] = 0;
            last[code->loop] = (int32_t)code->arg - 1;
        } else if (code->op == FRAGMENT_END) {
            if (--depth == 0)
                break;
        } else {
            sum += weights_between(f, first, last, pc);
        }
    }
    return sum;
}

static void enter_loop(struct vm *vm, struct vm_cost *cost)
{
    if (vm->cached != 0)
        return;
    uint64_t bytes = weights_of_loop(vm);
    if (bytes > CACHE_BYTES)
        return;
    vm->cached = (uint8_t)(vm->depth + 1);
    cost->weight_bytes += bytes;
}

/* ---- one execution ---- */

static int kind_of(const struct fragment *f, const struct vm_act *act)
{
    const struct nn_params *p = act->p;
    const struct fragment_view *in = &f->views[act->code->in[0]];
    if (act->code->op == FRAGMENT_DW)
        return KIND_DEPTHWISE;
    if (p->kernel_h == in->h && p->kernel_w == in->w)
        return KIND_FULLY_CONNECTED;
    return p->kernel_h == 1 && p->kernel_w == 1 ? KIND_CONV1X1 : KIND_CONV;
}

static void add_kernel(const struct fragment *f, const struct vm_act *act, struct vm_cost *cost)
{
    struct vm_operand operands[3];
    uint64_t out = elements_of(&act->box), in = 0;
    bool conv = act->code->op == FRAGMENT_CONV, acc = conv && (act->code->form & FRAGMENT_FORM_ACC);
    if (conv || act->code->op == FRAGMENT_DW) {
        uint64_t taps = (uint64_t)act->p->kernel_h * act->p->kernel_w;
        uint64_t k = conv && act->k1 > act->k0 ? (uint64_t)(act->k1 - act->k0) : 1;
        cost->macs[kind_of(f, act)] += out * taps * k;
        cost->elements += acc ? out : 0;
        return;
    }
    if (!vm_act_operands(f, act, act->row0, act->row1, operands) && operands[0].view != FRAGMENT_NONE) {
        struct vm_extent rows = vm_view_inside(&f->views[operands[0].view], &operands[0]);
        operands[0].box.h0 = rows.lo;
        operands[0].box.h1 = rows.hi;
        in = elements_of(&operands[0].box);
    }
    cost->elements += in > out ? in : out;
}

static void add_transfer(const struct fragment *f, const struct vm_act *act, struct vm_cost *cost)
{
    static const uint64_t element[] = {1, 3, 4};
    const struct fragment_transfer *t = &f->transfers[act->code->arg];
    uint64_t elements = elements_of(&act->box);
    bool first = act->box.h0 == t->h0;
    if (act->code->op == FRAGMENT_SEND) {
        cost->sent_bytes += elements * element[t->wire];
        cost->sends += first;
        return;
    }
    cost->received_bytes += elements * element[t->wire];
    cost->receives += first;
    if (act->code->form & FRAGMENT_FORM_ACC)
        cost->elements += elements;
}

static void add_act(struct vm *vm, const struct vm_act *act, struct vm_cost *cost)
{
    cost->executions++;
    if (act->code->op == FRAGMENT_WAIT)
        return;
    if (vm_moves(act->code->op)) {
        add_transfer(vm->fragment, act, cost);
        return;
    }
    add_kernel(vm->fragment, act, cost);
    if (vm->cached == 0)
        cost->weight_bytes += weights_of(vm->fragment, act);
}

int vm_cost(struct vm *vm, struct vm_cost *cost, uint32_t *rank)
{
    const struct fragment *f = vm->fragment;
    struct vm_act act;
    for (;;) {
        if (vm->pc < f->n_code && f->code[vm->pc].op == FRAGMENT_LOOP)
            enter_loop(vm, cost);
        int status = vm_fetch(vm, &act, 1);
        if (vm->depth < vm->cached)
            vm->cached = 0;
        if (status == VM_RAN)
            continue;
        if (status == VM_FETCHED)
            status = vm_begin(vm);
        if (status != STATUS_OK || vm->pc >= f->n_code)
            return status;
        add_act(vm, &act, cost);
        vm_advance(vm);
        if (act.code->op != FRAGMENT_WAIT && act.code->op != FRAGMENT_RECV)
            continue;
        *rank = act.code->op == FRAGMENT_WAIT ? act.code->arg : f->transfers[act.code->arg].rank;
        return VM_WAITING;
    }
}
