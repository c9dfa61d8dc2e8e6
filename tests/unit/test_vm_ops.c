/*
 * Every operator through the machine: whole, and one output row a time, it gives what its kernel gives over
 * the whole packed tensors. The kernels have tests of their own; these are about what the machine hands them:
 * boxes, row tables, borders, weights, broadcast, calls cut short.
 */
#include "tests/support/local_io.h"
#include "tests/support/net_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROUNDS = 60, BYTES_MAX = 1 << 20, TABLE_H0 = -40 };

struct tensor_at {
    int32_t h, w, c;
    uint8_t elem;
    uint8_t *bytes;
};

/* One instruction over packed tensors. */
struct job {
    struct prng r;
    enum fragment_op op;
    uint8_t form;
    struct nn_params p;
    struct tensor_at in[2], out;
    int8_t values[40000];
    int32_t scales[3 * 256];
    struct fragment_slice slice; /* kind 255: none */
    uint32_t value_bytes;
    int32_t k; /* input channels or rows; 0: none */
};

static struct tensor_at tensor(struct job *j, int32_t h, int32_t w, int32_t c, uint8_t elem)
{
    struct tensor_at t = {h, w, c, elem, malloc((size_t)(h * w * c * elem))};
    prng_fill(&j->r, t.bytes, (size_t)(h * w * c * elem));
    for (int32_t i = 0; elem == 4 && i < h * w * c; i++) {
        int32_t x = prng_range(&j->r, -30000, 30000);
        memcpy(t.bytes + 4 * i, &x, 4);
    }
    return t;
}

static size_t bytes_of(const struct tensor_at *t)
{
    return (size_t)(t->h * t->w * t->c * t->elem);
}

static void start(struct job *j, uint64_t seed, enum fragment_op op)
{
    memset(j, 0, sizeof *j);
    j->r = prng_seed(seed);
    j->op = op;
    j->slice.kind = 255;
    j->p = (struct nn_params){.kernel_h = 1,
                              .kernel_w = 1,
                              .stride_h = 1,
                              .stride_w = 1,
                              .dilation_h = 1,
                              .dilation_w = 1,
                              .in_zero_point = {(int16_t)prng_range(&j->r, -20, 20), 3},
                              .out_zero_point = (int16_t)prng_range(&j->r, -20, 20),
                              .act_lo = -120,
                              .act_hi = 125,
                              .multiplier = 1,
                              .m = {{1500000000, -1}, {1400000000, 0}, {1300000000, -18}},
                              .count = 20};
}

/* Weights of a slice, random; scales that spread sums over `taps` products. */
static void weigh(struct job *j, uint8_t kind, int32_t c, int32_t k, int32_t block, int32_t taps)
{
    j->slice = (struct fragment_slice){.kind = kind,
                                       .c1 = (uint16_t)c,
                                       .k1 = (uint16_t)k,
                                       .k_block = (uint16_t)block,
                                       .kernel = (uint32_t)(j->p.kernel_h * j->p.kernel_w)};
    j->value_bytes = kind == FRAGMENT_SLICE_FINISH ? 0 : (uint32_t)(taps * c);
    for (uint32_t i = 0; i < j->value_bytes; i++)
        j->values[i] = (int8_t)prng_range(&j->r, -127, 127);
    for (int32_t i = 0; i < c; i++) {
        j->scales[i] = prng_range(&j->r, 1 << 30, INT32_MAX);
        j->scales[c + i] = -8;
        j->scales[2 * c + i] = prng_range(&j->r, -2000, 2000);
    }
}

static void random_window(struct job *j)
{
    struct nn_params *p = &j->p;
    p->kernel_h = (uint16_t)prng_range(&j->r, 1, 4);
    p->kernel_w = (uint16_t)prng_range(&j->r, 1, 4);
    p->stride_h = (uint16_t)prng_range(&j->r, 1, 3);
    p->stride_w = (uint16_t)prng_range(&j->r, 1, 3);
    p->pad_top = (int16_t)prng_range(&j->r, 0, p->kernel_h - 1);
    p->pad_left = (int16_t)prng_range(&j->r, 0, p->kernel_w - 1);
    if (j->op != FRAGMENT_POOL)
        p->dilation_h = p->dilation_w = (uint16_t)prng_range(&j->r, 1, 2);
}

/* ---- the judge: one kernel call over packed tensors ---- */

static struct nn_in whole_in(const struct tensor_at *t, const void **rows, int32_t h0)
{
    for (int32_t i = 0; i < NN_ROWS_MAX; i++) {
        int32_t h = h0 + i;
        rows[i] = h >= 0 && h < t->h ? t->bytes + (size_t)(h * t->w * t->c * t->elem) : NULL;
    }
    return (struct nn_in){.rows = rows, .h0 = h0, .pixel_stride = t->c * t->elem, .width = t->w};
}

static struct nn_weights whole_weights(const struct job *j)
{
    int32_t c = j->slice.c1;
    return (struct nn_weights){.values = j->values,
                               .mantissa = j->scales,
                               .shift = j->scales + c,
                               .bias = j->scales + 2 * c,
                               .c1 = c,
                               .k1 = j->slice.k1,
                               .k_block = j->slice.k_block};
}

static void judge(struct job *j)
{
    const void *rows[2][NN_ROWS_MAX];
    void *out_rows[NN_ROWS_MAX];
    enum nn_bcast bcast = j->form & FRAGMENT_FORM_BCAST_PIXEL    ? NN_BCAST_PIXEL
                          : j->form & FRAGMENT_FORM_BCAST_SCALAR ? NN_BCAST_SCALAR
                                                                 : NN_BCAST_NONE;
    struct nn_in a = {0}, b = {0};
    struct nn_weights w = whole_weights(j);
    if (j->in[0].bytes)
        a = whole_in(&j->in[0], rows[0], TABLE_H0);
    if (j->in[1].bytes)
        b = whole_in(&j->in[1], rows[1], bcast ? 0 : TABLE_H0);
    for (int32_t h = 0; h < j->out.h; h++)
        out_rows[h] = j->out.bytes + (size_t)(h * j->out.w * j->out.c * j->out.elem);
    struct nn_out out = {.rows = out_rows,
                         .h1 = j->out.h,
                         .w1 = j->out.w,
                         .c1 = j->out.c,
                         .pixel_stride = j->out.c * j->out.elem};
    switch (j->op) {
    case FRAGMENT_CONV:
        nn_conv_s8(&j->p, &w, &a, 0, j->k, &out);
        break;
    case FRAGMENT_DW:
        nn_depthwise_s8(&j->p, &w, &a, &out);
        break;
    case FRAGMENT_POOL:
        nn_pool_s8(&j->p, &a, j->in[0].h, &out);
        break;
    case FRAGMENT_SUM:
        nn_zero_s32(&out);
        nn_sum_s32(&j->p, &a, 0, j->in[0].h, 0, j->in[0].c, &out);
        break;
    case FRAGMENT_ADD:
        nn_add_s8(&j->p, &a, &b, bcast, &out);
        break;
    case FRAGMENT_MUL:
        nn_mul_s8(&j->p, &a, &b, bcast, &out);
        break;
    case FRAGMENT_LUT:
        nn_lut_s8(j->values, &a, &out);
        break;
    case FRAGMENT_COPY:
        nn_copy(&j->p, &a, j->in[0].h, j->in[0].c, j->out.elem, &out);
        break;
    case FRAGMENT_RESIZE:
        nn_resize_s8(&j->p, &a, &out);
        break;
    case FRAGMENT_SOFTMAX:
        nn_softmax_s8(&j->p, &a, &out);
        break;
    case FRAGMENT_FINISH:
        nn_finish_s8(&j->p, j->slice.kind == 255 ? NULL : &w, &a, &out);
        break;
    default:
        fail();
    }
}

/* ---- the same through the machine ---- */

static uint16_t view_at(struct program *p, const struct tensor_at *t, uint16_t number)
{
    uint32_t pixel = (uint32_t)(t->c * t->elem);
    p->arena_bytes = (p->arena_bytes + 3) / 4 * 4;
    struct fragment_view v = {.tensor = number,
                              .offset = p->arena_bytes,
                              .elem = t->elem,
                              .rows = (uint16_t)t->h,
                              .row_stride = (uint32_t)t->w * pixel,
                              .pixel_stride = pixel,
                              .w_cap = (uint16_t)t->w,
                              .c_cap = (uint16_t)t->c,
                              .h = (uint16_t)t->h,
                              .w = (uint16_t)t->w,
                              .c = (uint16_t)t->c,
                              .h0 = FRAGMENT_NONE,
                              .w0 = FRAGMENT_NONE,
                              .c0 = FRAGMENT_NONE};
    p->arena_bytes += (uint32_t)bytes_of(t);
    return program_view(p, v);
}

static uint16_t transfer_at(struct program *p, const struct tensor_at *t, uint16_t id, bool out)
{
    return program_transfer(
        p, (struct fragment_transfer){.id = id,
                                      .rank = id,
                                      .from = out ? 1 : 0,
                                      .to = out ? 0 : 1,
                                      .wire = t->elem == 1 ? FRAGMENT_WIRE_I8 : FRAGMENT_WIRE_I32,
                                      .h1 = (uint16_t)t->h,
                                      .w1 = (uint16_t)t->w,
                                      .c1 = (uint16_t)t->c});
}

static struct program *write_job(const struct job *j, bool by_rows)
{
    struct program *p = program_new(1);
    struct fragment_code code = program_op(j->op);
    for (uint16_t i = 0; i < 2; i++)
        if (j->in[i].bytes) {
            code.in[i] = view_at(p, &j->in[i], i);
            program_move(p, FRAGMENT_RECV, code.in[i], transfer_at(p, &j->in[i], i, false), 0);
        }
    code.out = view_at(p, &j->out, 7);
    uint16_t w = program_span(p, 0, j->out.w), c = program_span(p, 0, j->out.c);
    if (j->op == FRAGMENT_SUM) {
        struct fragment_code zero = program_op(FRAGMENT_ZERO);
        zero.out = code.out;
        zero.h = program_span(p, 0, j->out.h);
        zero.w = w;
        zero.c = c;
        program_code(p, zero);
    }
    bool sums_rows = j->op == FRAGMENT_SUM && (j->p.reduce & 1);
    int32_t rows = sums_rows ? j->in[0].h : j->out.h;
    uint16_t row = program_range(p, (struct fragment_range){.a = by_rows,
                                                            .b1 = by_rows ? 1 : rows,
                                                            .div = 1,
                                                            .hi = (uint16_t)rows,
                                                            .parent = FRAGMENT_NONE,
                                                            .loop = by_rows ? 0 : FRAGMENT_NO_LOOP});
    code.h = sums_rows ? program_span(p, 0, 1) : row;
    code.k = sums_rows ? row : j->k > 0 ? program_span(p, 0, j->k) : (uint16_t)FRAGMENT_NONE;
    code.w = w;
    code.c = c;
    code.form = j->form;
    code.params = program_params(p, j->p);
    if (j->slice.kind != 255)
        code.slice = program_slice(p, j->slice, j->values, j->value_bytes,
                                   j->slice.kind <= FRAGMENT_SLICE_FINISH ? j->scales : NULL);
    if (by_rows)
        program_loop(p, 0, (uint32_t)rows);
    program_code(p, code);
    if (by_rows)
        program_end(p);
    program_move(p, FRAGMENT_SEND, code.out, transfer_at(p, &j->out, 9, true), 0);
    return p;
}

static void run_job(struct job *j, bool by_rows, uint32_t *steps)
{
    struct fragment_place place = {0};
    struct net_image image = net_image(write_job(j, by_rows));
    struct local_hub hub;
    struct local_party *party = malloc(sizeof *party);
    int status = net_check(&image.fragment, &place);
    if (status != STATUS_OK)
        fail_msg("operator %d: %s at %d %d", (int)j->op, place.reason, place.section, place.record);
    local_hub_start(&hub, 1);
    for (uint16_t i = 0; i < 2; i++)
        if (j->in[i].bytes)
            local_hub_put(&hub, 0, 1, i, j->in[i].bytes, (uint32_t)bytes_of(&j->in[i]));
    local_party_start(party, &hub, &image.fragment);
    *steps = 0;
    while (party->status > 0) {
        party->status = vm_step(&party->vm);
        ++*steps;
    }
    assert_int_equal(party->status, VM_DONE);
    assert_true(local_party_end(party));
    const struct local_transfer *out = local_hub_find(&hub, 1, 0, 9);
    assert_int_equal(out->filled, bytes_of(&j->out));
    assert_memory_equal(out->bytes, j->out.bytes, out->size);
    local_hub_end(&hub);
    free(party);
    free(image.bytes);
}

static void require_both(struct job *j)
{
    uint32_t steps;
    judge(j);
    run_job(j, false, &steps);
    run_job(j, true, &steps);
    free(j->in[0].bytes);
    free(j->in[1].bytes);
    free(j->out.bytes);
}

/* ---- operators ---- */

static void windows_at_every_border_equal_one_whole_call(void **state)
{
    (void)state;
    static const enum fragment_op ops[] = {FRAGMENT_CONV, FRAGMENT_DW, FRAGMENT_POOL};
    struct job *j = malloc(sizeof *j);
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        start(j, seed, ops[seed % 3]);
        struct prng *r = &j->r;
        int32_t h = prng_range(r, 4, 12), w = prng_range(r, 4, 12), in_c = prng_range(r, 1, 6);
        int32_t m = j->op == FRAGMENT_DW ? prng_range(r, 1, 3) : 1;
        int32_t out_c = j->op == FRAGMENT_CONV ? prng_range(r, 1, 9) : in_c * m;
        random_window(j);
        struct nn_params *p = &j->p;
        int32_t span_h = (p->kernel_h - 1) * p->dilation_h, span_w = (p->kernel_w - 1) * p->dilation_w;
        int32_t oh = (h + span_h - 1) / p->stride_h, ow = (w + span_w - 1) / p->stride_w;
        while ((oh - 1) * p->stride_h - p->pad_top >= h)
            oh--; /* every window of a pool meets the image */
        while ((ow - 1) * p->stride_w - p->pad_left >= w)
            ow--;
        oh = oh > 0 ? oh : 1;
        ow = ow > 0 ? ow : 1;
        p->multiplier = (uint16_t)m;
        p->flags = j->op == FRAGMENT_POOL && prng_one_in(r, 2) ? NN_FLAG_MAX : 0;
        j->in[0] = tensor(j, h, w, in_c, 1);
        j->out = tensor(j, oh, ow, out_c, 1);
        int32_t taps = p->kernel_h * p->kernel_w;
        if (j->op == FRAGMENT_CONV) {
            j->k = in_c;
            weigh(j, FRAGMENT_SLICE_CONV, out_c, in_c, in_c, taps * in_c);
        } else if (j->op == FRAGMENT_DW) {
            weigh(j, FRAGMENT_SLICE_DW, out_c, 0, 0, taps);
        }
        require_both(j);
    }
    free(j);
}

static void element_wise_operators_with_any_broadcast_equal_one_whole_call(void **state)
{
    (void)state;
    static const uint8_t forms[] = {0, FRAGMENT_FORM_BCAST_PIXEL, FRAGMENT_FORM_BCAST_SCALAR};
    struct job *j = malloc(sizeof *j);
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        start(j, seed, seed % 2 ? FRAGMENT_ADD : FRAGMENT_MUL);
        struct prng *r = &j->r;
        int32_t h = prng_range(r, 1, 9), w = prng_range(r, 1, 9), c = prng_range(r, 1, 9);
        j->form = forms[seed / 2 % 3];
        if (j->op == FRAGMENT_MUL)
            j->p.m[0] = (struct quant_multiplier){1400000000, -6};
        j->in[0] = tensor(j, h, w, c, 1);
        j->in[1] = j->form == 0                           ? tensor(j, h, w, c, 1)
                   : j->form == FRAGMENT_FORM_BCAST_PIXEL ? tensor(j, 1, 1, c, 1)
                                                          : tensor(j, 1, 1, 1, 1);
        j->out = tensor(j, h, w, c, 1);
        require_both(j);
    }
    free(j);
}

static void tables_and_softmax_equal_one_whole_call(void **state)
{
    (void)state;
    struct job *j = malloc(sizeof *j);
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        start(j, seed, seed % 2 ? FRAGMENT_LUT : FRAGMENT_SOFTMAX);
        struct prng *r = &j->r;
        int32_t h = prng_range(r, 1, 9), w = prng_range(r, 1, 9), c = prng_range(r, 1, 9);
        j->in[0] = tensor(j, h, w, c, 1);
        j->out = tensor(j, h, w, c, 1);
        if (j->op == FRAGMENT_LUT) {
            weigh(j, FRAGMENT_SLICE_TABLE, 1, 0, 0, 256);
            j->slice.c1 = 0;
        } else {
            struct quant_softmax s = quant_softmax_parameters(1.0, 0.05);
            j->p.m[0] = s.m;
            j->p.count = s.diff_min;
        }
        require_both(j);
    }
    free(j);
}

static void moves_pads_and_permutations_equal_one_whole_call(void **state)
{
    (void)state;
    static const uint16_t perms[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0},
                                        {2, 0, 1}, {2, 1, 0}, {0, 0, 0}};
    struct job *j = malloc(sizeof *j);
    for (uint64_t seed = 0; seed < 2 * ROUNDS; seed++) {
        start(j, seed, FRAGMENT_COPY);
        struct prng *r = &j->r;
        const uint16_t *perm = perms[seed % 7];
        bool pads = seed % 2;
        uint8_t elem = !pads && prng_one_in(r, 3) ? 4 : 1;
        int32_t size[3] = {prng_range(r, 1, 8), prng_range(r, 1, 8), prng_range(r, 1, 8)}, out[3];
        j->in[0] = tensor(j, size[0], size[1], size[2], elem);
        memcpy(j->p.perm, perm, sizeof j->p.perm);
        for (int i = 0; i < 3; i++)
            out[i] = size[seed % 7 == 6 ? i : perm[i]] + (pads ? 3 : 0);
        if (pads) {
            j->p.pad_top = 1;
            j->p.pad_left = 2;
            j->p.pad_c = 1;
            j->p.fill = -7;
        }
        j->out = tensor(j, out[0], out[1], out[2], elem);
        require_both(j);
    }
    free(j);
}

static void resizing_up_and_down_equals_one_whole_call(void **state)
{
    (void)state;
    static const uint16_t flags[] = {0, NN_FLAG_ALIGN_CORNERS, NN_FLAG_HALF_PIXEL};
    struct job *j = malloc(sizeof *j);
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        start(j, seed, FRAGMENT_RESIZE);
        struct prng *r = &j->r;
        int32_t c = prng_range(r, 1, 5);
        j->in[0] = tensor(j, prng_range(r, 1, 9), prng_range(r, 1, 9), c, 1);
        j->out = tensor(j, prng_range(r, 1, 14), prng_range(r, 1, 14), c, 1);
        j->p.in_h = (uint16_t)j->in[0].h;
        j->p.in_w = (uint16_t)j->in[0].w;
        j->p.out_h = (uint16_t)j->out.h;
        j->p.out_w = (uint16_t)j->out.w;
        j->p.flags = flags[seed % 3];
        require_both(j);
    }
    free(j);
}

static void sums_over_any_axes_equal_one_whole_call(void **state)
{
    (void)state;
    struct job *j = malloc(sizeof *j);
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        start(j, seed, FRAGMENT_SUM);
        struct prng *r = &j->r;
        int32_t h = prng_range(r, 1, 9), w = prng_range(r, 1, 9), c = prng_range(r, 1, 9);
        j->p.reduce = (uint16_t)(1 + seed % 7);
        j->in[0] = tensor(j, h, w, c, 1);
        j->out = tensor(j, j->p.reduce & 1 ? 1 : h, j->p.reduce & 2 ? 1 : w, j->p.reduce & 4 ? 1 : c, 4);
        j->k = h;
        require_both(j);
    }
    free(j);
}

static void finishing_sums_equals_one_whole_call(void **state)
{
    (void)state;
    static const uint16_t flags[] = {0, NN_FLAG_AVERAGE, NN_FLAG_MEAN};
    struct job *j = malloc(sizeof *j);
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        start(j, seed, FRAGMENT_FINISH);
        struct prng *r = &j->r;
        int32_t h = prng_range(r, 1, 9), w = prng_range(r, 1, 9), c = prng_range(r, 1, 9);
        j->p.flags = flags[seed % 3];
        j->p.count = 49;
        j->p.m[0] = (struct quant_multiplier){1400000000, -8};
        j->in[0] = tensor(j, h, w, c, 4);
        j->out = tensor(j, h, w, c, 1);
        if (j->p.flags == 0)
            weigh(j, FRAGMENT_SLICE_FINISH, c, 0, 0, 0);
        require_both(j);
    }
    free(j);
}

/* 100 x 3x3x40 x 100 channels a row: 3.6 million products. */
static void a_long_row_is_made_in_several_calls(void **state)
{
    (void)state;
    struct job *j = malloc(sizeof *j);
    uint32_t steps;
    start(j, 3, FRAGMENT_CONV);
    j->p.kernel_h = j->p.kernel_w = 3;
    j->p.pad_top = j->p.pad_left = 1;
    j->k = 40;
    j->in[0] = tensor(j, 3, 100, 40, 1);
    j->out = tensor(j, 3, 100, 101, 1);
    weigh(j, FRAGMENT_SLICE_CONV, 101, 40, 40, 9 * 40);
    judge(j);
    run_job(j, false, &steps);
    assert_true(steps >= 3 * 4);
    run_job(j, true, &steps);
    assert_true(steps >= 3 * 4);
    free(j->in[0].bytes);
    free(j->out.bytes);
    free(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_at_every_border_equal_one_whole_call),
        cmocka_unit_test(element_wise_operators_with_any_broadcast_equal_one_whole_call),
        cmocka_unit_test(tables_and_softmax_equal_one_whole_call),
        cmocka_unit_test(moves_pads_and_permutations_equal_one_whole_call),
        cmocka_unit_test(resizing_up_and_down_equals_one_whole_call),
        cmocka_unit_test(sums_over_any_axes_equal_one_whole_call),
        cmocka_unit_test(finishing_sums_equals_one_whole_call),
        cmocka_unit_test(a_long_row_is_made_in_several_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
