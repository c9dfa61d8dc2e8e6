/*
 * From a plan's steps to fragments: every step becomes one instruction, a few (ZERO, SUM, FINISH; a rescaled
 * input of a concatenation), or one a group (grouped convolution). Views come from buffers, constant boxes
 * from steps, weight slices from the hull of what a party makes of an operator.
 *
 * Invariant: an image leaves this file only after vm_check_bounds and vm_check_data have accepted it.
 */
#include "server/emit/emit.h"

#include "server/base/hash.h"
#include "server/base/stop.h"
#include "server/emit/internal.h"
#include "server/emit/params.h"
#include "server/model/optable.h"
#include "shared/vm/vm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- views ---- */

static uint16_t origin(struct emitter *emitter, int32_t lo, int32_t hi, int32_t whole)
{
    return lo == 0 && hi == whole ? FRAGMENT_NONE : image_range(&emitter->image, lo, hi);
}

/* Of a packed box at an offset. */
static uint16_t packed_view(struct emitter *emitter, uint8_t region, uint32_t offset, int32_t tensor,
                            uint8_t elem, struct shape shape, struct box box)
{
    struct fragment_view view;
    memset(&view, 0, sizeof view);
    uint32_t channels = (uint32_t)(box.c1 - box.c0), columns = (uint32_t)(box.w1 - box.w0);
    view.offset = offset;
    view.pixel_stride = channels * elem;
    view.row_stride = columns * channels * elem;
    view.tensor = (uint16_t)tensor;
    view.region = region;
    view.elem = elem;
    view.rows = (uint16_t)(box.h1 - box.h0);
    view.w_cap = (uint16_t)columns;
    view.c_cap = (uint16_t)channels;
    view.h = (uint16_t)shape.h;
    view.w = (uint16_t)shape.w;
    view.c = (uint16_t)shape.c;
    view.h0 = origin(emitter, box.h0, box.h1, shape.h);
    view.w0 = origin(emitter, box.w0, box.w1, shape.w);
    view.c0 = origin(emitter, box.c0, box.c1, shape.c);
    return image_view(&emitter->image, &view);
}

/* Of a buffer, seen as `tensor`: the buffer's own, or a RESHAPE of it (then the buffer is whole). */
static uint16_t buffer_view(struct emitter *emitter, int32_t index, struct shape seen)
{
    const struct plan_buffer *buffer = &emitter->party->buffers[index];
    struct box box = buffer->box;
    int32_t n_tensors = emitter->graph->n_tensors;
    if (buffer->tensor < n_tensors && !shape_equal(seen, emitter->graph->tensors[buffer->tensor].shape))
        box = box_whole(seen);
    return packed_view(emitter, FRAGMENT_REGION_ARENA, buffer->offset, buffer->tensor, buffer->elem, seen,
                       box);
}

static uint16_t own_view(struct emitter *emitter, int32_t index)
{
    return buffer_view(emitter, index, emitter->graph->tensors[emitter->party->buffers[index].tensor].shape);
}

uint16_t emit_constant(struct emitter *emitter, int32_t tensor)
{
    const struct tensor *item = &emitter->graph->tensors[tensor];
    uint32_t bytes = (uint32_t)shape_elements(item->shape);
    if (emitter->constants[tensor] == FRAGMENT_NONE) {
        struct fragment_slice slice;
        uint8_t *at;
        memset(&slice, 0, sizeof slice);
        slice.kind = FRAGMENT_SLICE_CONSTANT;
        slice.bytes = slice.total_bytes = bytes;
        emitter->constants[tensor] = image_slice(&emitter->image, &slice, false, &at);
        if (at)
            memcpy(at, item->data, bytes);
    }
    if (emitter->image.status < 0)
        return 0;
    return packed_view(emitter, FRAGMENT_REGION_WEIGHTS,
                       image_slice_at(&emitter->image, emitter->constants[tensor])->offset, tensor, 1,
                       item->shape, box_whole(item->shape));
}

static uint16_t input_view(struct emitter *emitter, const struct op *op, int32_t input, int32_t buffer)
{
    if (buffer < 0)
        return emit_constant(emitter, op->inputs[input]);
    return buffer_view(emitter, buffer, emitter->graph->tensors[op->inputs[input]].shape);
}

/* ---- weights ---- */

static void put32(uint8_t *at, int32_t x)
{
    memcpy(at, &x, sizeof x); /* fragments are little-endian, and so is every host we build for */
}

static void plain_values(const struct graph *graph, const struct plan_slice *slice, uint8_t *at)
{
    const struct op *op = &graph->ops[slice->op];
    size_t taps = (size_t)op->kernel_h * (size_t)op->kernel_w, channels = (size_t)(slice->c1 - slice->c0);
    if (op_row(op->kind)->kernel == OP_KERNEL_CONV) {
        size_t each = taps * (size_t)(slice->k1 - slice->k0);
        memcpy(at, op->weights + (size_t)slice->c0 * each, channels * each);
        return;
    }
    size_t all = (size_t)graph->tensors[op->output].shape.c;
    for (size_t t = 0; t < taps; t++)
        memcpy(at + t * channels, op->weights + t * all + (size_t)slice->c0, channels);
}

/* Multipliers, shifts and biases of output channels [c0, c1). */
static void fill_scales(const struct graph *graph, const struct op *op, int32_t c0, int32_t c1, uint8_t *at)
{
    int32_t channels = c1 - c0;
    for (int32_t i = 0; i < channels; i++) {
        struct quant_multiplier m = params_channel(graph, op, c0 + i);
        put32(at + 4 * i, m.mantissa);
        put32(at + 4 * (channels + i), m.shift);
        put32(at + 4 * (2 * channels + i), op->bias ? op->bias[c0 + i] : 0);
    }
}

static void fill_slice(const struct graph *graph, const struct plan_slice *slice, uint8_t *at)
{
    plain_values(graph, slice, at);
    fill_scales(graph, &graph->ops[slice->op], slice->c0, slice->c1, at + (slice->values + 3) / 4 * 4);
}

/* A plain slice in place in another layout; some layouts have biases of their own. */
static void pack_slice(struct emitter *emitter, const struct plan_slice *slice, enum nn_layout layout,
                       uint8_t *at)
{
    const struct op *op = &emitter->graph->ops[slice->op];
    int32_t channels = slice->c1 - slice->c0;
    struct nn_params p = params_of(emitter->graph, op, 0);
    struct nn_work work = {
        .p = &p, .depthwise = op_row(op->kind)->kernel == OP_KERNEL_DW, .channels = channels};
    int8_t *plain = malloc((size_t)slice->values + 1);
    if (!plain) {
        emitter->image.status = STATUS_NO_MEMORY;
        return;
    }
    memcpy(plain, at, (size_t)slice->values);
    void *bias = at + (slice->values + 3) / 4 * 4 + 8 * (size_t)channels;
    nn_layout_pack(layout, &work, plain, (int32_t)(slice->values / channels), (int8_t *)at, bias);
    free(plain);
}

uint16_t emit_scales(struct emitter *emitter, int32_t op)
{
    const struct op *of = &emitter->graph->ops[op];
    int32_t channels = emitter->graph->tensors[of->output].shape.c;
    struct fragment_slice slice;
    uint8_t *at;
    memset(&slice, 0, sizeof slice);
    slice.kind = FRAGMENT_SLICE_FINISH;
    slice.c1 = (uint16_t)channels;
    slice.total_bytes = (uint32_t)(12 * channels);
    uint16_t index = image_slice(&emitter->image, &slice, false, &at);
    if (at)
        fill_scales(emitter->graph, of, 0, channels, at);
    return index;
}

/* The slice of an operator that covers output channel c. */
uint16_t emit_weights(struct emitter *emitter, int32_t op, int32_t c, const struct plan_slice **found)
{
    int32_t i = 0;
    while (i < emitter->n_slices &&
           (emitter->slices[i].op != op || c < emitter->slices[i].c0 || c >= emitter->slices[i].c1))
        i++;
    if (i == emitter->n_slices)
        abort(); /* plan_slices covers every task */
    const struct plan_slice *item = &emitter->slices[i];
    *found = item;
    if (emitter->slice_index[i] != FRAGMENT_NONE)
        return emitter->slice_index[i];
    const struct op *of = &emitter->graph->ops[op];
    bool conv = op_row(of->kind)->kernel == OP_KERNEL_CONV;
    struct fragment_slice slice;
    uint8_t *at;
    memset(&slice, 0, sizeof slice);
    slice.kind = conv ? FRAGMENT_SLICE_CONV : FRAGMENT_SLICE_DW;
    slice.bytes = (uint32_t)item->values;
    slice.c0 = (uint16_t)item->c0;
    slice.c1 = (uint16_t)item->c1;
    slice.k0 = (uint16_t)item->k0;
    slice.k1 = (uint16_t)item->k1;
    slice.k_block = (uint16_t)(item->k1 - item->k0);
    slice.kernel = (uint32_t)(of->kernel_h * of->kernel_w);
    slice.total_bytes = (uint32_t)((item->values + 3) / 4 * 4 + 12 * (int64_t)(item->c1 - item->c0));
    enum nn_layout layout =
        plan_layout(emitter->graph, of, emitter->plan->boards[emitter->number - 1].layouts);
    slice.layout = (uint8_t)layout;
    emitter->slice_index[i] = image_slice(&emitter->image, &slice, emitter->party->resident[op], &at);
    if (at) {
        fill_slice(emitter->graph, item, at);
        if (layout != NN_LAYOUT_PLAIN)
            pack_slice(emitter, item, layout, at);
    }
    return emitter->slice_index[i];
}

uint16_t emit_table(struct emitter *emitter, const struct op *op, int32_t input)
{
    int8_t table[256];
    params_table(emitter->graph, op, input, table);
    for (uint32_t i = 0; i < emitter->image.slices.n; i++) {
        const struct fragment_slice *known = image_slice_at(&emitter->image, (uint16_t)i);
        if (known->kind == FRAGMENT_SLICE_TABLE &&
            memcmp(emitter->image.weights + known->offset, table, sizeof table) == 0)
            return (uint16_t)i;
    }
    struct fragment_slice slice;
    uint8_t *at;
    memset(&slice, 0, sizeof slice);
    slice.kind = FRAGMENT_SLICE_TABLE;
    slice.bytes = slice.total_bytes = sizeof table;
    uint16_t index = image_slice(&emitter->image, &slice, false, &at);
    if (at)
        memcpy(at, table, sizeof table);
    return index;
}

/* ---- instructions ---- */

struct fragment_code emit_blank(enum fragment_op op, int32_t layer)
{
    struct fragment_code code;
    memset(&code, 0, sizeof code);
    code.op = (uint8_t)op;
    code.params = code.in[0] = code.in[1] = code.out = code.scratch = FRAGMENT_NONE;
    code.h = code.w = code.c = code.k = code.slice = FRAGMENT_NONE;
    code.layer = layer < 0 ? FRAGMENT_NONE : (uint16_t)layer;
    return code;
}

/* CONV: one instruction for each group that the box touches. */
static void emit_conv(struct emitter *emitter, const struct plan_step *step, struct fragment_code code)
{
    for (int32_t c = step->box.c0; c < step->box.c1;) {
        const struct plan_slice *slice;
        struct box box = step->box;
        code.slice = emit_weights(emitter, step->op, c, &slice);
        box.c0 = c;
        box.c1 = slice->c1 < step->box.c1 ? slice->c1 : step->box.c1;
        image_box(&emitter->image, &code, box);
        code.k = image_range(&emitter->image, slice->k0, slice->k1);
        image_code(&emitter->image, &code);
        c = box.c1;
    }
}

/* Global pool: ZERO, SUM over the whole input, FINISH. */
static void emit_sum(struct emitter *emitter, const struct plan_step *step, struct fragment_code finish)
{
    const struct op *op = &emitter->graph->ops[step->op];
    struct shape out = emitter->graph->tensors[op->output].shape,
                 in = emitter->graph->tensors[op->inputs[0]].shape;
    struct fragment_code zero = emit_blank(FRAGMENT_ZERO, step->op), sum = emit_blank(FRAGMENT_SUM, step->op);
    uint16_t sums = buffer_view(emitter, step->scratch, out);
    zero.out = sum.out = sums;
    sum.in[0] = finish.in[0];
    sum.params = finish.params;
    sum.k = op->reduce & OP_AXIS_H ? image_range(&emitter->image, 0, in.h)
                                   : image_range(&emitter->image, step->box.h0, step->box.h1);
    finish.op = FRAGMENT_FINISH;
    finish.in[0] = sums;
    struct fragment_code *all[3] = {&zero, &sum, &finish};
    for (int i = 0; i < 3; i++) {
        image_box(&emitter->image, all[i], step->box);
        image_code(&emitter->image, all[i]);
    }
}

/* A COPY; an input of another scale goes through a table first. */
static void emit_copy(struct emitter *emitter, const struct plan_step *step, struct fragment_code code)
{
    const struct op *op = &emitter->graph->ops[step->op];
    if (step->scratch >= 0) {
        const struct plan_buffer *buffer = &emitter->party->buffers[step->scratch];
        struct fragment_code look = emit_blank(FRAGMENT_LUT, step->op);
        look.in[0] = code.in[0];
        look.out =
            buffer_view(emitter, step->scratch, emitter->graph->tensors[op->inputs[step->input]].shape);
        look.slice = emit_table(emitter, op, step->input);
        image_box(&emitter->image, &look, buffer->box);
        image_code(&emitter->image, &look);
        code.in[0] = look.out;
    }
    image_box(&emitter->image, &code, step->box);
    image_code(&emitter->image, &code);
}

static void set_second_input(struct emitter *emitter, const struct plan_step *step,
                             struct fragment_code *code)
{
    const struct op *op = &emitter->graph->ops[step->op];
    struct shape b = emitter->graph->tensors[op->inputs[1]].shape;
    code->in[1] = input_view(emitter, op, 1, step->in[1]);
    if (shape_equal(b, emitter->graph->tensors[op->output].shape))
        return;
    code->form = shape_elements(b) == 1 ? FRAGMENT_FORM_BCAST_SCALAR : FRAGMENT_FORM_BCAST_PIXEL;
}

static void emit_task(struct emitter *emitter, const struct plan_step *step)
{
    static const uint8_t ops[] = {
        [OP_KERNEL_CONV] = FRAGMENT_CONV,     [OP_KERNEL_DW] = FRAGMENT_DW,
        [OP_KERNEL_POOL] = FRAGMENT_POOL,     [OP_KERNEL_SUM] = FRAGMENT_SUM,
        [OP_KERNEL_ADD] = FRAGMENT_ADD,       [OP_KERNEL_MUL] = FRAGMENT_MUL,
        [OP_KERNEL_LUT] = FRAGMENT_LUT,       [OP_KERNEL_COPY] = FRAGMENT_COPY,
        [OP_KERNEL_RESIZE] = FRAGMENT_RESIZE, [OP_KERNEL_SOFTMAX] = FRAGMENT_SOFTMAX};
    const struct op *op = &emitter->graph->ops[step->op];
    enum op_kernel kernel = op_row(op->kind)->kernel;
    struct fragment_code code = emit_blank((enum fragment_op)ops[kernel], step->op);
    code.in[0] = input_view(emitter, op, kernel == OP_KERNEL_COPY ? step->input : 0, step->in[0]);
    code.out = own_view(emitter, step->out);
    if (kernel != OP_KERNEL_LUT) {
        struct nn_params params = params_of(emitter->graph, op, step->input);
        code.params = image_params(&emitter->image, &params);
    }
    const struct plan_slice *slice;
    if ((kernel == OP_KERNEL_CONV || kernel == OP_KERNEL_DW) && step->scratch >= 0) {
        int32_t bytes = emitter->party->buffers[step->scratch].box.c1;
        code.scratch = buffer_view(emitter, step->scratch, (struct shape){1, 1, bytes});
    }
    switch (kernel) {
    case OP_KERNEL_CONV:
        emit_conv(emitter, step, code);
        return;
    case OP_KERNEL_SUM:
        emit_sum(emitter, step, code);
        return;
    case OP_KERNEL_COPY:
        emit_copy(emitter, step, code);
        return;
    case OP_KERNEL_DW:
        code.slice = emit_weights(emitter, step->op, step->box.c0, &slice);
        break;
    case OP_KERNEL_LUT:
        code.slice = emit_table(emitter, op, 0);
        break;
    case OP_KERNEL_ADD:
    case OP_KERNEL_MUL:
        set_second_input(emitter, step, &code);
        break;
    default:
        break;
    }
    image_box(&emitter->image, &code, step->box);
    image_code(&emitter->image, &code);
}

uint32_t emit_transfer(struct emitter *emitter, uint32_t index, bool tall)
{
    const struct conduct_transfer *from = &emitter->plan->table.transfers[index];
    struct fragment_transfer to;
    memset(&to, 0, sizeof to);
    to.id = from->id;
    to.exchange = from->exchange;
    to.rank = from->rank;
    to.from = from->from;
    to.to = from->to;
    to.wire = from->wire;
    to.h0 = (uint16_t)(tall ? from->box.w0 : from->box.h0);
    to.h1 = (uint16_t)(tall ? from->box.w1 : from->box.h1);
    to.w0 = (uint16_t)(tall ? from->box.h0 : from->box.w0);
    to.w1 = (uint16_t)(tall ? from->box.h1 : from->box.w1);
    to.c0 = (uint16_t)from->box.c0;
    to.c1 = (uint16_t)from->box.c1;
    return image_transfer(&emitter->image, &to);
}

static void emit_step(struct emitter *emitter, const struct plan_step *step)
{
    static const uint8_t ops[] = {[PLAN_STEP_TASK] = FRAGMENT_COPY,
                                  [PLAN_STEP_COPY] = FRAGMENT_COPY,
                                  [PLAN_STEP_SEND] = FRAGMENT_SEND,
                                  [PLAN_STEP_POST] = FRAGMENT_POST,
                                  [PLAN_STEP_WAIT] = FRAGMENT_WAIT};
    if (step->kind == PLAN_STEP_TASK) {
        emit_task(emitter, step);
        return;
    }
    struct fragment_code code = emit_blank((enum fragment_op)ops[step->kind], step->op);
    if (step->in[0] >= 0)
        code.in[0] = own_view(emitter, step->in[0]);
    if (step->out >= 0)
        code.out = own_view(emitter, step->out);
    if (step->kind == PLAN_STEP_WAIT)
        code.arg = step->rank;
    else
        image_box(&emitter->image, &code, step->box);
    if (step->kind == PLAN_STEP_SEND || step->kind == PLAN_STEP_POST)
        code.arg = emit_transfer(emitter, step->transfer, false);
    image_code(&emitter->image, &code);
}

/* ---- one board ---- */

static int begin_party(struct emitter *emitter)
{
    size_t n_tensors = (size_t)emitter->graph->n_tensors;
    emitter->n_slices = plan_slices(emitter->plan, emitter->number, NULL, 0);
    size_t n = (size_t)emitter->n_slices;
    emitter->slices = calloc(n + 1, sizeof *emitter->slices);
    emitter->slice_index = malloc((n + 1) * sizeof *emitter->slice_index);
    emitter->constants = malloc((n_tensors + 1) * sizeof *emitter->constants);
    if (!emitter->slices || !emitter->slice_index || !emitter->constants)
        return error_set(emitter->error, STATUS_NO_MEMORY, "no memory for a fragment");
    plan_slices(emitter->plan, emitter->number, emitter->slices, emitter->n_slices);
    memset(emitter->slice_index, 0xFF, n * sizeof *emitter->slice_index);
    memset(emitter->constants, 0xFF, n_tensors * sizeof *emitter->constants);
    return 0;
}

static uint32_t highest_rank(const struct plan *plan)
{
    uint32_t n = plan->table.n_transfers;
    return n ? plan->table.transfers[n - 1].rank + 1 : 0;
}

static int refused(const struct emitter *emitter, int status, const char *check,
                   const struct fragment_place *place)
{
    return error_set(emitter->error, (enum status)status,
                     "board %d's fragment fails the %s check at section %d record %d: %s", emitter->number,
                     check, place->section, place->record, place->reason ? place->reason : "");
}

static int check_image(const struct emitter *emitter, const struct emit_fragment *out)
{
    struct fragment fragment;
    struct fragment_place place = {0};
    int status = fragment_open(&fragment, out->bytes, out->size, &place);
    if (status < 0)
        return refused(emitter, status, "format", &place);
    status = vm_check_bounds(&fragment, fragment.header->arena_bytes, &place);
    if (status < 0)
        return refused(emitter, status, "bounds", &place);
    size_t bytes = vm_check_data_bytes(&fragment);
    void *shadow = aligned_alloc(FRAGMENT_ALIGN, (bytes + FRAGMENT_ALIGN) / FRAGMENT_ALIGN * FRAGMENT_ALIGN);
    if (!shadow)
        return error_set(emitter->error, STATUS_NO_MEMORY, "no memory for the data check");
    status = vm_check_data(&fragment, shadow, bytes, &place);
    free(shadow);
    return status < 0 ? refused(emitter, status, "data", &place) : 0;
}

static int write_party(struct emitter *emitter, struct emit_fragment *out)
{
    struct fragment fragment;
    struct fragment_place place = {0};
    out->bytes = image_write(&emitter->image, &out->size, emitter->error);
    if (!out->bytes)
        return emitter->error->status;
    struct fragment_header *header = (struct fragment_header *)(void *)out->bytes;
    header->party = (uint16_t)emitter->number;
    header->arena_bytes = (uint32_t)emitter->party->arena_bytes;
    header->peak_bytes = (uint32_t)emitter->party->peak_bytes;
    header->ranks = highest_rank(emitter->plan);
    hash_from_hex(emitter->plan->hash, header->plan);
    int status = fragment_open(&fragment, out->bytes, out->size, &place);
    if (status < 0)
        return refused(emitter, status, "format", &place);
    status = vm_count(&fragment, &header->executions);
    if (status < 0)
        return error_set(emitter->error, (enum status)status, "board %d's program is too long",
                         emitter->number);
    hash_sha256(out->bytes, out->size, out->hash);
    return check_image(emitter, out);
}

static int emit_party(const struct plan *plan, int32_t number, struct emit_fragment *out, struct error *error)
{
    struct emitter emitter = {.plan = plan,
                              .graph = plan->graph,
                              .party = &plan->parties[number - 1],
                              .number = number,
                              .error = error};
    int status = begin_party(&emitter);
    if (status == 0 && emitter.party->program)
        status = emit_program(&emitter, emitter.party->program);
    for (int32_t s = 0; s < emitter.party->n_steps && status == 0 && !emitter.party->program; s++) {
        emit_step(&emitter, &emitter.party->steps[s]);
        if (emitter.image.status < 0)
            status = error_set(error, (enum status)emitter.image.status, "board %d's fragment is too large",
                               number);
    }
    if (status == 0)
        status = write_party(&emitter, out);
    image_drop(&emitter.image);
    free(emitter.slices);
    free(emitter.slice_index);
    free(emitter.constants);
    return status;
}

static int flash_check(const struct plan *plan, int32_t b, uint32_t size, struct error *error)
{
    const struct plan_board *board = &plan->boards[b];
    if (size <= board->flash_bytes)
        return 0;
    const char *name = board->name[0] ? board->name : board->id;
    int status = error_set(error, STATUS_DOES_NOT_FIT, "board '%s' needs %u bytes of flash and has %lld",
                           name, size, (long long)board->flash_bytes);
    if (error) {
        error->shortfall = (struct error_shortfall){
            .segment = -1, .resource = "flash", .need_bytes = size, .have_bytes = board->flash_bytes};
        snprintf(error->shortfall.board, sizeof error->shortfall.board, "%s", name);
    }
    return status;
}

int emit_plan(struct plan *plan, struct emit_fragment **fragments, struct error *error)
{
    struct error own;
    int status = 0;
    if (!error)
        error = &own;
    error_clear(error);
    *fragments = calloc((size_t)plan->n_boards + 1, sizeof **fragments);
    if (!*fragments)
        return error_set(error, STATUS_NO_MEMORY, "no memory for fragments");
    for (int32_t b = 0; b < plan->n_boards && status == 0; b++) {
        struct emit_fragment *out = &(*fragments)[b];
        if (!plan->parties[b].used)
            continue;
        status = stop_check(error);
        if (status == 0)
            status = emit_party(plan, b + 1, out, error);
        if (status == 0)
            status = flash_check(plan, b, out->size, error);
        if (status < 0)
            break;
        plan->parties[b].fragment_bytes = out->size;
        memcpy(plan->table.fragments[b], out->hash, WIRE_HASH_BYTES);
    }
    if (status < 0) {
        emit_free(*fragments, plan->n_boards);
        *fragments = NULL;
    }
    return status;
}

void emit_free(struct emit_fragment *fragments, int32_t n)
{
    for (int32_t i = 0; fragments && i < n; i++)
        free(fragments[i].bytes);
    free(fragments);
}

int emit_schedule(const struct graph *graph, const struct schedule *schedule,
                  const struct schedule_options *options, struct error *error)
{
    struct plan_board board = *plan_profile("teensy41-good");
    struct emit_fragment *fragments = NULL;
    board.arena_bytes = board.flash_bytes = INT64_MAX / 2;
    struct plan *plan = plan_scheduled(graph, "", &board, schedule, options, error);
    int status = plan ? emit_plan(plan, &fragments, error) : (int)error->status;
    emit_free(fragments, 1);
    plan_free(plan);
    return status;
}
