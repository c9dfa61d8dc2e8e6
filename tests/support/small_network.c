/* Each operator reads one of the last tensors, and maybe an older one that fits. */
#include "tests/support/small_network.h"

#include "server/schedule/read.h"
#include "tests/support/prng.h"

#include <stdio.h>
#include <stdlib.h>

struct writer {
    struct prng prng;
    json_t *tensors, *ops, *read; /* read: names with a reader */
    struct shape shapes[SMALL_TENSORS];
    int32_t n;
};

static const char *tensor_text(int32_t t)
{
    static const char *const names[SMALL_TENSORS] = {"t0", "t1", "t2", "t3", "t4",  "t5",
                                                     "t6", "t7", "t8", "t9", "t10", "t11"};
    return names[t];
}

static int32_t add_tensor(struct writer *w, struct shape shape)
{
    json_object_set_new(w->tensors, tensor_text(w->n),
                        json_pack("{s:[i,i,i]}", "shape", shape.h, shape.w, shape.c));
    w->shapes[w->n] = shape;
    return w->n++;
}

static void add_op(struct writer *w, const char *type, int32_t a, int32_t b, struct shape out, int32_t k,
                   int32_t s)
{
    int32_t to = add_tensor(w, out);
    json_t *inputs = json_pack("[s]", tensor_text(a));
    json_object_set_new(w->read, tensor_text(a), json_true());
    if (b >= 0) {
        json_array_append_new(inputs, json_string(tensor_text(b)));
        json_object_set_new(w->read, tensor_text(b), json_true());
    }
    json_array_append_new(w->ops, json_pack("{s:s, s:s, s:o, s:s, s:[i,i], s:[i,i], s:s}", "name",
                                            tensor_text(to), "type", type, "inputs", inputs, "output",
                                            tensor_text(to), "k", k, k, "s", s, s, "pad", "same"));
}

static void random_op(struct writer *w)
{
    static const int32_t channels[] = {1, 2, 3, 4, 6, 8, 12};
    int32_t a = prng_range(&w->prng, w->n > 3 ? w->n - 4 : 0, w->n - 1),
            b = prng_range(&w->prng, 0, w->n - 1);
    struct shape in = w->shapes[a], other = w->shapes[b], out = in;
    int32_t s = prng_range(&w->prng, 1, 2), k = prng_one_in(&w->prng, 2) ? 1 : 3;
    struct shape strided = {(in.h + s - 1) / s, (in.w + s - 1) / s, in.c};
    switch (prng_range(&w->prng, 0, 8)) {
    case 0:
    case 1:
    case 2:
        strided.c = channels[prng_range(&w->prng, 0, 6)];
        add_op(w, "conv", a, -1, strided, k, s);
        break;
    case 3:
        strided.c *= prng_one_in(&w->prng, 4) ? 2 : 1;
        add_op(w, "dw", a, -1, strided, 3, s);
        break;
    case 4:
        add_op(w, "gap", a, -1, (struct shape){1, 1, in.c}, 1, 1);
        break;
    case 5:
        add_op(w, "relu", a, -1, out, 1, 1);
        break;
    default:
        if (a != b && shape_equal(in, other))
            add_op(w, "add", a, b, out, 1, 1);
        else if (a != b && other.h == 1 && other.w == 1 && (other.c == in.c || other.c == 1))
            add_op(w, "mul", a, b, out, 1, 1);
        else if (a != b && in.h == other.h && in.w == other.w)
            out.c += other.c, add_op(w, "concat", a, b, out, 1, 1);
        else
            add_op(w, "maxpool", a, -1, strided, 3, s);
    }
}

json_t *small_network(uint64_t seed)
{
    struct writer w = {
        .prng = prng_seed(seed), .tensors = json_object(), .ops = json_array(), .read = json_object()};
    int32_t inputs = prng_one_in(&w.prng, 4) ? 2 : 1, n = prng_range(&w.prng, 2, SMALL_OPS);
    struct shape shape = {prng_range(&w.prng, 2, 6), prng_range(&w.prng, 2, 6), prng_range(&w.prng, 1, 6)};
    for (int32_t i = 0; i < inputs; i++)
        add_tensor(&w, shape);
    while ((int32_t)json_array_size(w.ops) < n)
        random_op(&w);
    json_t *in = json_array(), *out = json_array();
    for (int32_t t = 0; t < w.n; t++)
        if (t < inputs && json_object_get(w.read, tensor_text(t)))
            json_array_append_new(in, json_string(tensor_text(t)));
        else if (t >= inputs && (!json_object_get(w.read, tensor_text(t)) || prng_one_in(&w.prng, 12)))
            json_array_append_new(out, json_string(tensor_text(t)));
    json_decref(w.read);
    return json_pack("{s:s, s:o, s:o, s:o, s:o}", "name", "random", "tensors", w.tensors, "ops", w.ops,
                     "inputs", in, "outputs", out);
}

struct graph *small_graph_of(json_t *json)
{
    struct error error;
    error_clear(&error);
    struct graph *graph = schedule_read(json, &error);
    if (!graph) {
        fprintf(stderr, "%s at %s\n", error.message, error.layer);
        abort();
    }
    json_decref(json);
    return graph;
}
