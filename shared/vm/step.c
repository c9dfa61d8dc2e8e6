/*
 * run: one step is at most one kernel call over a few rows, one transfer begun, or one look whether a wait is
 * over. All addresses come from vm_view_rows(); whatever it or the decoding refuses ends the run with
 * STATUS_FRAGMENT_BOUNDS before anything is touched, also when vm_check_bounds was never called. The fields
 * of struct vm are the whole state: a run can rest between any two steps.
 */
#include "shared/nn/layout.h"
#include "shared/vm/parts.h"

enum { SKIP_BUDGET = 256 }; /* LOOP, END and skipped instructions in one step */

_Static_assert((int)VM_TABLE_ROWS == (int)NN_ROWS_MAX, "a row table holds what a kernel may get");

static struct nn_in input(const struct fragment *f, const struct vm_operand *operand, void *const *rows)
{
    return (struct nn_in){.rows = (const void *const *)rows,
                          .h0 = operand->box.h0,
                          .w0 = operand->box.w0,
                          .c0 = operand->box.c0,
                          .pixel_stride = (int32_t)f->views[operand->view].pixel_stride,
                          .width = f->views[operand->view].w};
}

static struct nn_out output(const struct fragment *f, const struct vm_operand *operand, void *const *rows)
{
    const struct vm_box *box = &operand->box;
    return (struct nn_out){.rows = rows,
                           .h0 = box->h0,
                           .h1 = box->h1,
                           .w0 = box->w0,
                           .w1 = box->w1,
                           .c0 = box->c0,
                           .c1 = box->c1,
                           .pixel_stride = (int32_t)f->views[operand->view].pixel_stride};
}

static enum nn_bcast bcast_of(const struct fragment_code *code)
{
    if (code->form & FRAGMENT_FORM_BCAST_SCALAR)
        return NN_BCAST_SCALAR;
    return code->form & FRAGMENT_FORM_BCAST_PIXEL ? NN_BCAST_PIXEL : NN_BCAST_NONE;
}

/* CONV and DW, by the layout of the weights. */
static void call_packed(const struct fragment *f, const struct vm_act *act, const struct nn_weights *w,
                        const struct nn_in *in, const struct nn_out *out, struct nn_scratch scratch)
{
    const struct fragment_code *code = act->code;
    if (code->op == FRAGMENT_DW)
        nn_depthwise_pairs_s8(act->p, w, in, out, scratch);
    else if (f->slices[code->slice].layout == NN_LAYOUT_FOURS)
        nn_conv_fours_s8(act->p, w, in, out, scratch);
    else if (code->form & FRAGMENT_FORM_ACC)
        nn_conv_pairs_acc_s32(act->p, w, in, act->k0, act->k1, out, scratch);
    else
        nn_conv_pairs_s8(act->p, w, in, act->k0, act->k1, out, scratch);
}

static void call_kernel(const struct vm *vm, const struct vm_act *act, const struct nn_in in[2],
                        const struct vm_operand operands[3], const struct nn_out *out,
                        struct nn_scratch scratch)
{
    const struct fragment *f = vm->fragment;
    const struct fragment_code *code = act->code;
    struct nn_weights w = {0};
    if (code->slice != FRAGMENT_NONE)
        w = fragment_weights(f, code->slice, vm->memory.resident);
    if (scratch.size > 0) {
        call_packed(f, act, &w, &in[0], out, scratch);
        return;
    }
    switch (code->op) {
    case FRAGMENT_CONV:
        if (code->form & FRAGMENT_FORM_ACC)
            nn_conv_acc_s32(act->p, &w, &in[0], act->k0, act->k1, out);
        else
            nn_conv_s8(act->p, &w, &in[0], act->k0, act->k1, out);
        break;
    case FRAGMENT_DW:
        nn_depthwise_s8(act->p, &w, &in[0], out);
        break;
    case FRAGMENT_POOL:
        nn_pool_s8(act->p, &in[0], f->views[code->in[0]].h, out);
        break;
    case FRAGMENT_SUM:
        nn_sum_s32(act->p, &in[0], operands[0].box.h0, operands[0].box.h1, operands[0].box.c0,
                   operands[0].box.c1, out);
        break;
    case FRAGMENT_ADD:
        if (!NN_ADD_QUICK || bcast_of(code) != NN_BCAST_NONE || !nn_add_quick_s8(act->p, &in[0], &in[1], out))
            nn_add_s8(act->p, &in[0], &in[1], bcast_of(code), out);
        break;
    case FRAGMENT_MUL:
        nn_mul_s8(act->p, &in[0], &in[1], bcast_of(code), out);
        break;
    case FRAGMENT_LUT:
        nn_lut_s8(w.values, &in[0], out);
        break;
    case FRAGMENT_COPY:
        nn_copy(act->p, &in[0], f->views[code->in[0]].h, f->views[code->in[0]].c, f->views[code->out].elem,
                out);
        break;
    case FRAGMENT_RESIZE:
        nn_resize_s8(act->p, &in[0], out);
        break;
    case FRAGMENT_SOFTMAX:
        nn_softmax_s8(act->p, &in[0], out);
        break;
    case FRAGMENT_ZERO:
        nn_zero_s32(out);
        break;
    case FRAGMENT_FINISH:
        nn_finish_s8(act->p, (act->p->flags & (NN_FLAG_AVERAGE | NN_FLAG_MEAN)) ? NULL : &w, &in[0], out);
        break;
    default:
        break;
    }
}

/* Operands of the next call: some rows with all their channels, or of a long row some channels. *end is the
 * row to go on with, *channel the channel (0: from the first). */
static const char *next_call(const struct vm *vm, struct vm_act *act, int32_t *end, int32_t *channel,
                             struct vm_operand operands[3])
{
    int32_t n = vm_act_channels(vm->fragment, act), c1 = act->box.c1;
    *channel = 0;
    if (n == c1 - act->box.c0)
        return vm_act_chunk(vm->fragment, act, vm->row, end, operands);
    if (vm->channel > act->box.c0)
        act->box.c0 = vm->channel;
    *end = vm->row + 1;
    if (c1 - act->box.c0 > n) {
        act->box.c1 = *channel = act->box.c0 + n;
        *end = vm->row;
    }
    return vm_act_operands(vm->fragment, act, vm->row, vm->row + 1, operands);
}

/* The scratch that the call needs, found through an input table that CONV and DW do not use. */
static const char *scratch_of(struct vm *vm, const struct fragment_code *code, struct vm_tables *tables,
                              struct nn_scratch *scratch)
{
    struct vm_operand operand = vm_act_scratch(vm->fragment, code);
    if (operand.view == FRAGMENT_NONE)
        return NULL;
    const char *fault = vm_view_rows(vm, &operand, tables->in[1]);
    if (!fault)
        *scratch = (struct nn_scratch){tables->in[1][0], (uint32_t)operand.box.c1};
    return fault;
}

static int step_kernel(struct vm *vm, const struct vm_act *whole)
{
    struct vm_tables *tables = vm->memory.tables;
    struct vm_operand operands[3];
    struct vm_act part = *whole, *act = &part;
    int32_t end, channel;
    if (tables == NULL)
        return STATUS_INVALID_ARGUMENT;
    if (next_call(vm, act, &end, &channel, operands))
        return STATUS_FRAGMENT_BOUNDS;
    struct nn_in in[2] = {{0}, {0}};
    for (int i = 0; i < 2; i++) {
        if (operands[i].view == FRAGMENT_NONE)
            continue;
        if (vm_view_rows(vm, &operands[i], tables->in[i]))
            return STATUS_FRAGMENT_BOUNDS;
        in[i] = input(vm->fragment, &operands[i], tables->in[i]);
    }
    if (vm_view_rows(vm, &operands[VM_OUT], tables->out))
        return STATUS_FRAGMENT_BOUNDS;
    struct nn_out out = output(vm->fragment, &operands[VM_OUT], tables->out);
    struct nn_scratch scratch = {NULL, 0};
    if (scratch_of(vm, act->code, tables, &scratch))
        return STATUS_FRAGMENT_BOUNDS;
    call_kernel(vm, act, in, operands, &out, scratch);
    vm->channel = channel;
    vm->row = end;
    if (end >= act->row1)
        vm_advance(vm);
    return VM_RAN;
}

/* ---- transfers ---- */

static int step_post(struct vm *vm, const struct vm_act *act)
{
    const struct fragment_code *code = act->code;
    const struct fragment_transfer *t = &vm->fragment->transfers[code->arg];
    struct vm_operand operands[3];
    if (vm_act_operands(vm->fragment, act, act->row0, act->row1, operands))
        return STATUS_FRAGMENT_BOUNDS;
    bool send = code->op == FRAGMENT_SEND;
    const struct vm_box *box = &act->box;
    if (box->h0 < t->h0 || box->h1 > t->h1 || box->w0 != t->w0 || box->w1 != t->w1 || box->c0 != t->c0 ||
        box->c1 != t->c1)
        return STATUS_FRAGMENT_BOUNDS;
    struct vm_slot slot = {.transfer = (uint16_t)code->arg,
                           .wire = t->wire,
                           .accumulate = (code->form & FRAGMENT_FORM_ACC) != 0};
    if (vm_view_slot_of(vm, &operands[send ? 0 : VM_OUT], &slot))
        return STATUS_FRAGMENT_BOUNDS;
    struct fragment_transfer before = *t, part = *t;
    before.h1 = part.h0 = (uint16_t)box->h0;
    part.h1 = (uint16_t)box->h1;
    slot.first = (uint32_t)fragment_transfer_bytes(&before);
    slot.bytes = (uint32_t)fragment_transfer_bytes(&part);
    return send ? vm->io.send(vm->io.context, &slot) : vm->io.post(vm->io.context, &slot);
}

static int step_wait(struct vm *vm, uint32_t rank)
{
    int status = vm->io.wait(vm->io.context, rank);
    if (status == 0)
        return VM_WAITING;
    if (status > 0)
        vm_advance(vm);
    return status < 0 ? status : VM_RAN;
}

static int step_transfer(struct vm *vm, const struct vm_act *act, bool first)
{
    const struct fragment_code *code = act->code;
    if (first) {
        int status = step_post(vm, act);
        if (status < 0)
            return status;
    }
    if (code->op == FRAGMENT_RECV)
        return step_wait(vm, vm->fragment->transfers[code->arg].rank);
    vm_advance(vm);
    return VM_RAN;
}

/* ---- steps ---- */

static int step_end(struct vm *vm)
{
    int status = vm->io.wait(vm->io.context, UINT32_MAX);
    return status < 0 ? status : status == 0 ? VM_WAITING : VM_DONE;
}

int vm_step(struct vm *vm)
{
    struct vm_act act;
    bool first = !vm->inside;
    if (first) {
        int status = vm_fetch(vm, &act, SKIP_BUDGET);
        if (status == VM_DONE)
            return step_end(vm);
        if (status != VM_FETCHED)
            return status;
        if (vm_code_fault(vm->fragment, act.code))
            return STATUS_FRAGMENT_BOUNDS;
        status = vm_begin(vm);
        if (status != STATUS_OK)
            return status;
        vm->inside = true;
        vm->row = act.row0;
    } else {
        vm_act_evaluate(vm->fragment, vm->counter, vm->pc, &act);
    }
    if (act.code->op == FRAGMENT_WAIT)
        return step_wait(vm, act.code->arg);
    if (vm_moves(act.code->op))
        return step_transfer(vm, &act, first);
    return step_kernel(vm, &act);
}
