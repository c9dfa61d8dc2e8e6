/*
 * The operator table against the reference executor: the need box of every output box holds every input that
 * the box depends on (changing any other input changes nothing in it) and is not larger than it must be.
 */
#include "server/model/optable.h"
#include "server/model/reference.h"
#include "tests/support/build_graph.h"
#include "tests/support/random_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct box random_part(struct prng *prng, struct shape shape)
{
    struct box box = {prng_range(prng, 0, shape.h - 1), 0, prng_range(prng, 0, shape.w - 1), 0,
                      prng_range(prng, 0, shape.c - 1), 0};
    box.h1 = prng_range(prng, box.h0 + 1, prng_one_in(prng, 3) ? shape.h : box.h0 + 1);
    box.w1 = prng_range(prng, box.w0 + 1, prng_one_in(prng, 3) ? shape.w : box.w0 + 1);
    box.c1 = prng_range(prng, box.c0 + 1, prng_one_in(prng, 3) ? shape.c : box.c0 + 1);
    return box;
}

static bool inside(struct box box, int32_t h, int32_t w, int32_t c)
{
    return box_contains(box, (struct box){h, h + 1, w, w + 1, c, c + 1});
}

#define EACH(shape, h, w, c)                    \
    for (int32_t h = 0; h < (shape).h; h++)     \
        for (int32_t w = 0; w < (shape).w; w++) \
            for (int32_t c = 0; c < (shape).c; c++)

static size_t index_of(struct shape shape, int32_t h, int32_t w, int32_t c)
{
    return ((size_t)h * (size_t)shape.w + (size_t)w) * (size_t)shape.c + (size_t)c;
}

/* One operator of a graph by itself: its reference run over given inputs. */
struct trial {
    const struct graph *graph;
    struct graph alone;
    struct op op;
    void **tensors;
};

static void trial_run(struct trial *trial)
{
    assert_int_equal(reference_run_place(&trial->alone, OP_PLACE_BODY, trial->tensors, NULL), 0);
}

static struct trial trial_new(const struct graph *graph, const struct op *op, struct prng *prng)
{
    struct trial trial = {.graph = graph, .alone = *graph, .op = *op};
    trial.op.place = OP_PLACE_BODY;
    trial.tensors = calloc((size_t)graph->n_tensors, sizeof *trial.tensors);
    assert_non_null(trial.tensors);
    for (int32_t i = 0; i < op->n_inputs; i++) {
        size_t bytes = tensor_bytes(&graph->tensors[op->inputs[i]]);
        if (graph->tensors[op->inputs[i]].data || trial.tensors[op->inputs[i]])
            continue;
        trial.tensors[op->inputs[i]] = malloc(bytes);
        assert_non_null(trial.tensors[op->inputs[i]]);
        prng_fill(prng, trial.tensors[op->inputs[i]], bytes);
    }
    return trial;
}

/* Fills the input outside (or inside) `need` anew. */
static void disturb(struct trial *trial, int32_t i, struct box need, bool outside, struct prng *prng)
{
    struct shape shape = trial->graph->tensors[trial->op.inputs[i]].shape;
    int8_t *in = trial->tensors[trial->op.inputs[i]];
    EACH(shape, h, w, c)
    if (inside(need, h, w, c) != outside)
        in[index_of(shape, h, w, c)] = (int8_t)prng_next(prng);
}

/* Whether the box of the output is as it was. */
static bool unchanged(struct trial *trial, const int8_t *before, struct box out)
{
    struct shape shape = trial->graph->tensors[trial->op.output].shape;
    const int8_t *now = trial->tensors[trial->op.output];
    EACH(shape, h, w, c)
    if (inside(out, h, w, c) && now[index_of(shape, h, w, c)] != before[index_of(shape, h, w, c)])
        return false;
    return true;
}

/* An input element at a face of the need box must be able to change the output box. Returns faces that did
 * not. */
static int slack(struct trial *trial, int32_t i, struct box need, struct box out, struct prng *prng)
{
    struct box faces[6] = {need, need, need, need, need, need};
    faces[0].h1 = need.h0 + 1, faces[1].h0 = need.h1 - 1, faces[2].w1 = need.w0 + 1;
    faces[3].w0 = need.w1 - 1, faces[4].c1 = need.c0 + 1, faces[5].c0 = need.c1 - 1;
    size_t bytes = tensor_bytes(&trial->graph->tensors[trial->op.output]);
    int8_t *before = malloc(bytes);
    int loose = 0;
    assert_non_null(before);
    for (int f = 0; f < 6; f++) {
        bool same = true;
        for (int round = 0; round < 4 && same; round++) {
            memcpy(before, trial->tensors[trial->op.output], bytes);
            disturb(trial, i, faces[f], false, prng);
            trial_run(trial);
            same = unchanged(trial, before, out);
        }
        loose += same;
    }
    free(before);
    return loose;
}

struct tally {
    int boxes, faces, loose;
};

static void try_op(const struct graph *graph, const struct op *op, struct prng *prng, struct tally *tally)
{
    const struct op_row *row = op_row(op->kind);
    struct shape shape = graph->tensors[op->output].shape;
    struct trial trial = trial_new(graph, op, prng);
    trial.alone.ops = &trial.op;
    trial.alone.n_ops = 1;
    trial_run(&trial);
    size_t bytes = tensor_bytes(&graph->tensors[op->output]);
    int8_t *before = malloc(bytes);
    assert_non_null(before);
    for (int round = 0; round < 4; round++) {
        struct box out = random_part(prng, shape);
        for (int32_t i = 0; i < op->n_inputs; i++) {
            const struct tensor *input = &graph->tensors[op->inputs[i]];
            struct box need = row->need(graph, op, i, out);
            assert_true(box_contains(box_whole(input->shape), need));
            bool twice = op->n_inputs > 1 && op->inputs[0] == op->inputs[1 - (i > 0)];
            if (input->data || twice)
                continue;
            for (int32_t j = 0; j < op->n_inputs; j++)
                twice = twice || (j != i && op->inputs[j] == op->inputs[i]);
            if (twice)
                continue;
            memcpy(before, trial.tensors[op->output], bytes);
            disturb(&trial, i, need, true, prng);
            trial_run(&trial);
            if (!unchanged(&trial, before, out))
                fail_msg("%s: input %d outside the need box changes the output box", row->name, i);
            tally->boxes++;
            if (box_empty(need))
                continue;
            tally->faces += 6;
            tally->loose += slack(&trial, i, need, out, prng);
        }
    }
    free(before);
    reference_free_tensors(graph, trial.tensors);
    free(trial.tensors);
}

static void need_box_holds_what_the_output_depends_on_and_little_more(void **state)
{
    (void)state;
    struct prng prng = prng_seed(5);
    struct tally tally[OP_KIND_COUNT] = {0};
    for (uint64_t seed = 0; seed < 120; seed++) {
        struct random_graph_options options = {.int8_ends = true, .max_side = 8, .max_channels = 12};
        struct graph *graph = random_graph(seed, &options);
        for (int32_t o = 0; o < graph->n_ops; o++)
            if (shape_elements(graph->tensors[graph->ops[o].output].shape) <= 1500)
                try_op(graph, &graph->ops[o], &prng, &tally[graph->ops[o].kind]);
        graph_free(graph);
    }
    /* Rounding, clamping, strides over the window and renumbered pixels leave some faces without effect. */
    for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
        if (kind == OP_QUANTIZE || kind == OP_DEQUANTIZE)
            continue;
        bool coarse = kind == OP_RESHAPE || kind == OP_SOFTMAX || kind == OP_MEAN || kind == OP_MAX_POOL;
        if (tally[kind].boxes < 10 || tally[kind].loose * (coarse ? 2 : 5) > tally[kind].faces)
            fail_msg("%s: %d boxes, %d of %d faces loose", op_row((enum op_kind)kind)->name,
                     tally[kind].boxes, tally[kind].loose, tally[kind].faces);
    }
}

/* Computing an output box by box along allowed axes needs no more than the whole does: the needs of the parts
 * join to the need of the whole. */
static void needs_of_parts_join_to_the_need_of_the_whole(void **state)
{
    (void)state;
    struct prng prng = prng_seed(6);
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct graph *graph = random_graph(seed, NULL);
        for (int32_t o = 0; o < graph->n_ops; o++) {
            const struct op *op = &graph->ops[o];
            const struct op_row *row = op_row(op->kind);
            struct box whole = box_whole(graph->tensors[op->output].shape), first = whole, second = whole;
            uint32_t axes = row->axes(graph, op);
            if (axes & OP_AXIS_H)
                first.h1 = second.h0 = prng_range(&prng, 0, whole.h1);
            else if (axes & OP_AXIS_C)
                first.c1 = second.c0 = prng_range(&prng, 0, whole.c1);
            for (int32_t i = 0; i < op->n_inputs; i++) {
                struct box parts = box_hull(row->need(graph, op, i, first), row->need(graph, op, i, second));
                assert_true(box_equal(parts, row->need(graph, op, i, whole)));
            }
            if (first.h1 == second.h0 || first.c1 == second.c0)
                assert_true(row->macs(graph, op, first) + row->macs(graph, op, second) ==
                            row->macs(graph, op, whole));
        }
        graph_free(graph);
    }
}

static void macs_count_every_tap(void **state)
{
    (void)state;
    struct builder b = build_new(1);
    int8_t weights[3 * 3 * 2 * 8] = {0};
    float scale = 1;
    struct quant q = {1, 0};
    int32_t in = build_input(&b, DTYPE_INT8, (struct shape){10, 10, 4}, q);
    struct op op = build_plain(OP_CONV, in, -1);
    op.kernel_h = op.kernel_w = 3;
    op.pad_top = op.pad_bottom = op.pad_left = op.pad_right = 1;
    op.groups = 2;
    build_weights(&b, &op, weights, sizeof weights, &scale, 1, NULL, 0);
    int32_t x = build_op(&b, op, (struct shape){10, 10, 8}, q);
    op = build_plain(OP_DEPTHWISE, x, -1);
    op.kernel_w = 3;
    build_weights(&b, &op, weights, 3 * 8, &scale, 1, NULL, 0);
    build_output(&b, build_op(&b, op, (struct shape){10, 8, 8}, q));
    struct graph *graph = build_finish(&b);
    const struct op *conv = &graph->ops[0], *dw = &graph->ops[1];
    assert_true(op_row(OP_CONV)->macs(graph, conv, (struct box){0, 10, 0, 10, 0, 8}) == 100 * 8 * 9 * 2);
    assert_true(op_row(OP_CONV)->macs(graph, conv, (struct box){0, 1, 2, 4, 0, 3}) == 6 * 9 * 2);
    assert_true(op_row(OP_DEPTHWISE)->macs(graph, dw, (struct box){0, 10, 0, 8, 0, 8}) == 640 * 3);
    assert_int_equal(op_row(OP_CONV)->cost(graph, conv), OP_COST_CONV);
    assert_int_equal(op_row(OP_DEPTHWISE)->cost(graph, dw), OP_COST_DEPTHWISE);
    graph_free(graph);
}

static void every_kind_has_a_whole_row(void **state)
{
    (void)state;
    for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
        const struct op_row *row = op_row((enum op_kind)kind);
        assert_non_null(row);
        assert_non_null(row->name);
        assert_true(row->min_inputs >= 1 && row->max_inputs <= GRAPH_OP_INPUTS_MAX);
        assert_true(row->shape && row->need && row->axes && row->macs && row->cost);
    }
    assert_null(op_row(OP_KIND_COUNT));
    assert_null(op_row((enum op_kind) - 1));
}

static void resize_cuts_rows_only_at_integer_factors(void **state)
{
    (void)state;
    struct quant q = {1, 0};
    const struct shape outs[] = {{8, 12, 3}, {7, 12, 3}, {8, 9, 3}, {2, 2, 3}};
    const uint32_t axes[] = {7, OP_AXIS_W | OP_AXIS_C, OP_AXIS_H | OP_AXIS_C, OP_AXIS_C};
    for (int i = 0; i < 4; i++) {
        struct builder b = build_new(1);
        int32_t in = build_input(&b, DTYPE_INT8, (struct shape){4, 4, 3}, q);
        build_output(&b, build_op(&b, build_plain(OP_RESIZE_NEAREST, in, -1), outs[i], q));
        struct graph *graph = build_finish(&b);
        assert_int_equal(op_row(OP_RESIZE_NEAREST)->axes(graph, &graph->ops[0]), axes[i]);
        graph_free(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(need_box_holds_what_the_output_depends_on_and_little_more),
        cmocka_unit_test(needs_of_parts_join_to_the_need_of_the_whole),
        cmocka_unit_test(macs_count_every_tap),
        cmocka_unit_test(every_kind_has_a_whole_row),
        cmocka_unit_test(resize_cuts_rows_only_at_integer_factors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
