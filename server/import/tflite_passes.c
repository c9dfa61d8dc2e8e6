/*
 * Passes over the converted graph before it is finished: a PAD of zero points joins the only convolution that
 * reads it, tensors that nothing uses any more go, and layers get names of their own.
 */
#include "server/import/tflite_convert.h"

#include <stdio.h>
#include <string.h>

static bool is_output(const struct graph *g, int32_t t)
{
    for (int32_t k = 0; k < g->n_outputs; k++)
        if (g->outputs[k] == t)
            return true;
    return false;
}

/* Whether `conv` may take over the padding of `pad`. Padding stays below the window's span, so that every
 * window still touches the image. */
static bool may_join(const struct graph *g, const struct op *pad, const struct op *conv)
{
    const struct tensor *x = &g->tensors[pad->inputs[0]], *y = &g->tensors[pad->output];
    if (conv->kind != OP_CONV && conv->kind != OP_DEPTHWISE)
        return false;
    if (conv->inputs[0] != pad->output || is_output(g, pad->output) || pad->pad_c0 || pad->pad_c1)
        return false;
    if (x->quant.scale < y->quant.scale || x->quant.scale > y->quant.scale ||
        x->quant.zero_point != y->quant.zero_point || pad->fill != y->quant.zero_point)
        return false;
    int64_t span_h = (int64_t)(conv->kernel_h - 1) * conv->dilation_h + 1;
    int64_t span_w = (int64_t)(conv->kernel_w - 1) * conv->dilation_w + 1;
    return (int64_t)conv->pad_top + pad->pad_top < span_h &&
           (int64_t)conv->pad_bottom + pad->pad_bottom < span_h &&
           (int64_t)conv->pad_left + pad->pad_left < span_w &&
           (int64_t)conv->pad_right + pad->pad_right < span_w;
}

int convert_fold_pads(struct convert *cx)
{
    struct graph *g = cx->graph;
    int32_t *readers = arena_alloc(cx->scratch, (size_t)g->n_tensors, sizeof *readers);
    int32_t *reader = arena_alloc(cx->scratch, (size_t)g->n_tensors, sizeof *reader);
    if (!readers || !reader)
        return error_set(cx->error, STATUS_NO_MEMORY, "out of memory while importing");
    for (int32_t i = 0; i < g->n_ops; i++)
        for (int32_t k = 0; k < g->ops[i].n_inputs; k++) {
            readers[g->ops[i].inputs[k]]++;
            reader[g->ops[i].inputs[k]] = i;
        }
    int32_t kept = 0;
    for (int32_t i = 0; i < g->n_ops; i++) {
        const struct op *pad = &g->ops[i];
        struct op *conv =
            pad->kind == OP_PAD && readers[pad->output] == 1 ? &g->ops[reader[pad->output]] : NULL;
        if (conv && may_join(g, pad, conv)) {
            conv->pad_top += pad->pad_top;
            conv->pad_left += pad->pad_left;
            conv->pad_bottom += pad->pad_bottom;
            conv->pad_right += pad->pad_right;
            conv->inputs[0] = pad->inputs[0];
            g->ops[i].kind = OP_KIND_COUNT;
        }
    }
    for (int32_t i = 0; i < g->n_ops; i++)
        if (g->ops[i].kind != OP_KIND_COUNT)
            g->ops[kept++] = g->ops[i];
    g->n_ops = kept;
    return 0;
}

int convert_drop_unused(struct convert *cx)
{
    struct graph *g = cx->graph;
    int32_t *to = arena_alloc(cx->scratch, (size_t)g->n_tensors, sizeof *to);
    if (!to)
        return error_set(cx->error, STATUS_NO_MEMORY, "out of memory while importing");
    for (int32_t i = 0; i < g->n_ops; i++) {
        for (int32_t k = 0; k < g->ops[i].n_inputs; k++)
            to[g->ops[i].inputs[k]] = 1;
        to[g->ops[i].output] = 1;
    }
    for (int32_t k = 0; k < g->n_inputs; k++)
        to[g->inputs[k]] = 1;
    for (int32_t k = 0; k < g->n_outputs; k++)
        to[g->outputs[k]] = 1;
    int32_t kept = 0;
    for (int32_t t = 0; t < g->n_tensors; t++) {
        if (!to[t])
            continue;
        g->tensors[kept] = g->tensors[t];
        to[t] = kept++;
    }
    g->n_tensors = kept;
    for (int32_t i = 0; i < g->n_ops; i++) {
        for (int32_t k = 0; k < g->ops[i].n_inputs; k++)
            g->ops[i].inputs[k] = to[g->ops[i].inputs[k]];
        g->ops[i].output = to[g->ops[i].output];
    }
    for (int32_t k = 0; k < g->n_inputs; k++)
        g->inputs[k] = to[g->inputs[k]];
    for (int32_t k = 0; k < g->n_outputs; k++)
        g->outputs[k] = to[g->outputs[k]];
    if (g->n_tensors <= GRAPH_TENSORS_MAX && g->n_ops <= GRAPH_OPS_MAX)
        return 0;
    return error_set(cx->error, STATUS_MODEL_LIMIT,
                     "the model needs %d tensors and %d operators; %d and %d fit", g->n_tensors, g->n_ops,
                     GRAPH_TENSORS_MAX, GRAPH_OPS_MAX);
}

/* A hash set of names; `next` is the number to try when the name comes again. */
struct slot {
    const char *name;
    int32_t next;
};

static struct slot *find_slot(struct slot *slots, uint32_t mask, const char *name)
{
    uint32_t h = 2166136261u;
    for (const char *p = name; *p; p++)
        h = (h ^ (unsigned char)*p) * 16777619u;
    h ^= h >> 15;
    while (slots[h & mask].name && strcmp(slots[h & mask].name, name) != 0)
        h++;
    return &slots[h & mask];
}

int convert_unique_names(struct convert *cx)
{
    struct graph *g = cx->graph;
    uint32_t count = 16;
    while (count < 4 * (uint32_t)g->n_ops)
        count *= 2;
    struct slot *slots = arena_alloc(cx->scratch, count, sizeof *slots);
    for (int32_t i = 0; i < g->n_ops && slots; i++) {
        struct op *op = &g->ops[i];
        struct slot *first = find_slot(slots, count - 1, op->name), *slot = first;
        char text[320]; /* names have at most 247 bytes so far */
        if (slot->name) {
            while (slot->name) {
                (void)snprintf(text, sizeof text, "%s#%d", op->name, ++first->next);
                slot = find_slot(slots, count - 1, text);
            }
            op->name = arena_string(g->arena, text, 255);
            if (!op->name)
                break;
        }
        *slot = (struct slot){op->name, 1};
        if (i == g->n_ops - 1)
            return 0;
    }
    return error_set(cx->error, STATUS_NO_MEMORY, "out of memory while importing");
}
