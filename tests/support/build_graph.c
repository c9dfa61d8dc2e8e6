/* Builders of hand-made graphs: see the header. */
#include "tests/support/build_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TENSORS = 1024, MAX_OPS = 512 };

static _Noreturn void fail(const char *what)
{
    (void)fprintf(stderr, "build_graph: %s\n", what);
    abort();
}

static void *need(void *p)
{
    if (!p)
        fail("out of memory");
    return p;
}

struct builder build_new(uint64_t seed)
{
    struct builder b = {.prng = prng_seed(seed), .max_tensors = MAX_TENSORS, .max_ops = MAX_OPS};
    b.graph = need(graph_new((size_t)64 << 20));
    b.graph->name = "test";
    b.graph->tensors = need(arena_alloc(b.graph->arena, MAX_TENSORS, sizeof *b.graph->tensors));
    b.graph->ops = need(arena_alloc(b.graph->arena, MAX_OPS, sizeof *b.graph->ops));
    return b;
}

int32_t build_tensor(struct builder *b, enum dtype dtype, struct shape shape, struct quant quant)
{
    char name[32];
    int32_t t = b->graph->n_tensors;
    if (t == b->max_tensors)
        fail("too many tensors");
    (void)snprintf(name, sizeof name, "t%d", t);
    b->graph->tensors[t] = (struct tensor){.name = need(arena_string(b->graph->arena, name, sizeof name)),
                                           .dtype = dtype,
                                           .rank = 4,
                                           .dims = {1, shape.h, shape.w, shape.c},
                                           .shape = shape,
                                           .quant = quant,
                                           .producer = -1};
    b->graph->n_tensors++;
    return t;
}

int32_t build_input(struct builder *b, enum dtype dtype, struct shape shape, struct quant quant)
{
    int32_t t = build_tensor(b, dtype, shape, quant);
    if (b->graph->n_inputs == GRAPH_ENDS_MAX)
        fail("too many inputs");
    b->graph->inputs[b->graph->n_inputs++] = t;
    return t;
}

int32_t build_constant(struct builder *b, struct shape shape, struct quant quant, const int8_t *values)
{
    int32_t t = build_tensor(b, DTYPE_INT8, shape, quant);
    b->graph->tensors[t].data = need(arena_copy(b->graph->arena, values, (size_t)shape_elements(shape)));
    return t;
}

void build_output(struct builder *b, int32_t tensor)
{
    if (b->graph->n_outputs == GRAPH_ENDS_MAX)
        fail("too many outputs");
    b->graph->outputs[b->graph->n_outputs++] = tensor;
}

int32_t build_typed_op(struct builder *b, struct op op, enum dtype dtype, struct shape out,
                       struct quant quant)
{
    char name[32];
    int32_t o = b->graph->n_ops;
    if (o == b->max_ops)
        fail("too many operators");
    (void)snprintf(name, sizeof name, "op%d", o);
    op.name = need(arena_string(b->graph->arena, name, sizeof name));
    op.file_op = "TEST";
    op.output = build_tensor(b, dtype, out, quant);
    b->graph->ops[o] = op;
    b->graph->n_ops++;
    return op.output;
}

int32_t build_op(struct builder *b, struct op op, struct shape out, struct quant quant)
{
    return build_typed_op(b, op, DTYPE_INT8, out, quant);
}

struct op build_plain(enum op_kind kind, int32_t a, int32_t b)
{
    return (struct op){.kind = kind,
                       .inputs = {a, b},
                       .n_inputs = b < 0 ? 1 : 2,
                       .kernel_h = 1,
                       .kernel_w = 1,
                       .stride_h = 1,
                       .stride_w = 1,
                       .dilation_h = 1,
                       .dilation_w = 1,
                       .groups = 1,
                       .multiplier = 1,
                       .perm = {0, 1, 2},
                       .beta = 1};
}

void build_weights(struct builder *b, struct op *op, const int8_t *weights, int64_t n_weights,
                   const float *scales, int32_t n_scales, const int32_t *bias, int32_t n_bias)
{
    struct arena *arena = b->graph->arena;
    op->weights = need(arena_copy(arena, weights, (size_t)n_weights));
    op->weight_bytes = n_weights;
    op->weight_scales = need(arena_copy(arena, scales, (size_t)n_scales * sizeof *scales));
    op->n_weight_scales = n_scales;
    op->bias = bias ? need(arena_copy(arena, bias, (size_t)n_bias * sizeof *bias)) : NULL;
}

int32_t build_window(int32_t in, int32_t kernel, int32_t stride, int32_t dilation, int32_t before,
                     int32_t after)
{
    int32_t room = in + before + after - ((kernel - 1) * dilation + 1);
    return room < 0 ? 0 : room / stride + 1;
}

struct graph *build_unfinished(struct builder *b)
{
    struct graph *graph = b->graph;
    b->graph = NULL;
    return graph;
}

struct graph *build_finish(struct builder *b)
{
    struct error error;
    error_clear(&error);
    if (graph_finish(b->graph, &error) < 0) {
        (void)fprintf(stderr, "layer '%s': ", error.layer);
        fail(error.message);
    }
    return build_unfinished(b);
}
