/*
 * A writer of networks: each function adds an operator and its tensor and returns the tensor's number. What
 * nobody reads at the end is an output. Tensors are named t0, t1, ... and operators after their tensor.
 */
#include "tests/support/networks.h"

#include "tests/support/prng.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS_MAX = 1200 };

struct dims {
    int32_t h, w, c;
};

struct net_writer {
    json_t *tensors, *ops, *inputs;
    struct dims dims[TENSORS_MAX];
    bool read[TENSORS_MAX], input[TENSORS_MAX];
    int32_t n;
};

static int32_t tensor(struct net_writer *w, int32_t h, int32_t width, int32_t c)
{
    char name[16];
    (void)snprintf(name, sizeof name, "t%d", w->n);
    json_object_set_new(w->tensors, name, json_pack("{s:[i,i,i]}", "shape", h, width, c));
    w->dims[w->n] = (struct dims){h, width, c};
    return w->n++;
}

static int32_t input(struct net_writer *w, int32_t h, int32_t width, int32_t c)
{
    char name[16];
    (void)snprintf(name, sizeof name, "t%d", w->n);
    json_array_append_new(w->inputs, json_string(name));
    w->input[w->n] = true;
    return tensor(w, h, width, c);
}

static json_t *op(struct net_writer *w, const char *type, const int32_t *in, int32_t n, struct dims out)
{
    char name[16];
    json_t *inputs = json_array();
    for (int32_t i = 0; i < n; i++) {
        (void)snprintf(name, sizeof name, "t%d", in[i]);
        json_array_append_new(inputs, json_string(name));
        w->read[in[i]] = true;
    }
    (void)snprintf(name, sizeof name, "t%d", tensor(w, out.h, out.w, out.c));
    json_t *json =
        json_pack("{s:s, s:s, s:o, s:s}", "name", name, "type", type, "inputs", inputs, "output", name);
    json_array_append_new(w->ops, json);
    return json;
}

static struct dims strided(struct dims in, int32_t s, int32_t c)
{
    return (struct dims){(in.h + s - 1) / s, (in.w + s - 1) / s, c};
}

static int32_t windowed(struct net_writer *w, const char *type, int32_t in, int32_t c, int32_t k, int32_t s,
                        int32_t dilation)
{
    json_t *json = op(w, type, &in, 1, strided(w->dims[in], s, c));
    json_object_set_new(json, "k", json_pack("[i,i]", k, k));
    json_object_set_new(json, "s", json_pack("[i,i]", s, s));
    if (dilation > 1)
        json_object_set_new(json, "dil", json_integer(dilation));
    return w->n - 1;
}

static int32_t conv(struct net_writer *w, int32_t in, int32_t c, int32_t k, int32_t s)
{
    return windowed(w, "conv", in, c, k, s, 1);
}

static int32_t dw(struct net_writer *w, int32_t in, int32_t k, int32_t s)
{
    return windowed(w, "dw", in, w->dims[in].c, k, s, 1);
}

static int32_t pool(struct net_writer *w, int32_t in, int32_t k, int32_t s)
{
    return windowed(w, "maxpool", in, w->dims[in].c, k, s, 1);
}

static int32_t unary(struct net_writer *w, const char *type, int32_t in)
{
    op(w, type, &in, 1, w->dims[in]);
    return w->n - 1;
}

static int32_t gap(struct net_writer *w, int32_t in)
{
    op(w, "gap", &in, 1, (struct dims){1, 1, w->dims[in].c});
    return w->n - 1;
}

static int32_t binary(struct net_writer *w, const char *type, int32_t a, int32_t b)
{
    int32_t in[2] = {a, b};
    op(w, type, in, 2, w->dims[a]);
    return w->n - 1;
}

static int32_t concat(struct net_writer *w, const int32_t *in, int32_t n)
{
    struct dims out = w->dims[in[0]];
    for (int32_t i = 1; i < n; i++)
        out.c += w->dims[in[i]].c;
    op(w, "concat", in, n, out);
    return w->n - 1;
}

static int32_t twice(struct net_writer *w, int32_t in)
{
    struct dims d = w->dims[in];
    op(w, "upsample", &in, 1, (struct dims){2 * d.h, 2 * d.w, d.c});
    return w->n - 1;
}

/* ---- families ---- */

static int32_t squeeze_excite(struct net_writer *w, int32_t x, int32_t reduced)
{
    int32_t c = w->dims[x].c, s = gap(w, x);
    s = unary(w, "logistic", conv(w, unary(w, "relu", conv(w, s, reduced, 1, 1)), c, 1, 1));
    return binary(w, "mul", x, s);
}

/* x times a table of x, as hard-swish and swish are made. */
static int32_t swish(struct net_writer *w, int32_t x)
{
    return binary(w, "mul", x, unary(w, "logistic", x));
}

static int32_t inverted(struct net_writer *w, int32_t x, int32_t expanded, int32_t c, int32_t k, int32_t s,
                        bool excite, bool hard)
{
    int32_t y = expanded == w->dims[x].c ? x : conv(w, x, expanded, 1, 1);
    y = hard && y != x ? swish(w, y) : y;
    y = dw(w, y, k, s);
    y = hard ? swish(w, y) : y;
    y = excite ? squeeze_excite(w, y, expanded / 4) : y;
    y = conv(w, y, c, 1, 1);
    return s == 1 && w->dims[x].c == c ? binary(w, "add", y, x) : y;
}

static void mobilenet_v3(struct net_writer *w)
{
    int32_t x = swish(w, conv(w, input(w, 224, 224, 3), 16, 3, 2));
    x = inverted(w, x, 16, 16, 3, 2, true, false);
    x = inverted(w, x, 72, 24, 3, 2, false, false);
    x = inverted(w, x, 88, 24, 3, 1, false, false);
    x = inverted(w, x, 96, 40, 5, 2, true, true);
    x = inverted(w, x, 240, 40, 5, 1, true, true);
    x = inverted(w, x, 240, 40, 5, 1, true, true);
    x = inverted(w, x, 120, 48, 5, 1, true, true);
    x = inverted(w, x, 288, 96, 5, 2, true, true);
    x = inverted(w, x, 576, 96, 5, 1, true, true);
    x = gap(w, swish(w, conv(w, x, 576, 1, 1)));
    conv(w, swish(w, conv(w, x, 1024, 1, 1)), 1000, 1, 1);
}

static int32_t fire(struct net_writer *w, int32_t x, int32_t squeezed, int32_t expanded)
{
    int32_t s = conv(w, x, squeezed, 1, 1),
            parts[2] = {conv(w, s, expanded, 1, 1), conv(w, s, expanded, 3, 1)};
    return concat(w, parts, 2);
}

static void squeezenet(struct net_writer *w)
{
    int32_t x = pool(w, conv(w, input(w, 128, 128, 3), 64, 3, 2), 3, 2);
    x = fire(w, fire(w, x, 16, 64), 16, 64);
    x = fire(w, fire(w, pool(w, x, 3, 2), 32, 128), 32, 128);
    x = fire(w, fire(w, pool(w, x, 3, 2), 48, 192), 64, 256);
    gap(w, conv(w, x, 10, 1, 1));
}

static void densenet(struct net_writer *w)
{
    int32_t x = pool(w, conv(w, input(w, 96, 96, 3), 24, 3, 2), 3, 2);
    for (int32_t block = 0; block < 3; block++) {
        for (int32_t layer = 0; layer < 6; layer++) {
            int32_t parts[2] = {x, conv(w, conv(w, x, 48, 1, 1), 12, 3, 1)};
            x = concat(w, parts, 2);
        }
        if (block < 2)
            x = windowed(w, "avgpool", conv(w, x, w->dims[x].c / 2, 1, 1), w->dims[x].c / 2, 2, 2, 1);
    }
    conv(w, gap(w, x), 10, 1, 1);
}

static void unet(struct net_writer *w)
{
    int32_t x = input(w, 96, 96, 1), kept[3];
    for (int32_t level = 0; level < 3; level++) {
        kept[level] = conv(w, conv(w, x, 8 << level, 3, 1), 8 << level, 3, 1);
        x = pool(w, kept[level], 2, 2);
    }
    x = conv(w, conv(w, x, 64, 3, 1), 64, 3, 1);
    for (int32_t level = 2; level >= 0; level--) {
        int32_t parts[2] = {kept[level], conv(w, twice(w, x), 8 << level, 3, 1)};
        x = conv(w, conv(w, concat(w, parts, 2), 8 << level, 3, 1), 8 << level, 3, 1);
    }
    unary(w, "logistic", conv(w, x, 2, 1, 1));
}

static void mcunet(struct net_writer *w)
{
    static const int32_t rows[][4] = {{48, 16, 5, 2},  {64, 16, 7, 1},  {48, 24, 7, 2},  {96, 24, 5, 1},
                                      {120, 40, 7, 2}, {160, 40, 3, 1}, {200, 48, 5, 1}, {240, 96, 7, 2},
                                      {480, 96, 5, 1}, {384, 160, 7, 1}};
    int32_t x = conv(w, dw(w, conv(w, input(w, 144, 144, 3), 16, 3, 2), 3, 1), 8, 1, 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        x = inverted(w, x, rows[i][0], rows[i][1], rows[i][2], rows[i][3], false, false);
    conv(w, gap(w, x), 1000, 1, 1);
}

static int32_t tower(struct net_writer *w, int32_t x, int32_t c)
{
    int32_t parts[4] = {conv(w, x, c, 1, 1), conv(w, conv(w, x, c / 2, 1, 1), c, 3, 1),
                        conv(w, conv(w, x, c / 4, 1, 1), c / 2, 5, 1),
                        conv(w, pool(w, x, 3, 1), c / 2, 1, 1)};
    return concat(w, parts, 4);
}

static void inception(struct net_writer *w)
{
    int32_t x = pool(w, conv(w, input(w, 112, 112, 3), 32, 5, 2), 3, 2);
    for (int32_t i = 0; i < 9; i++) {
        x = tower(w, x, 32 + 8 * i);
        x = i == 2 || i == 6 ? pool(w, x, 3, 2) : x;
    }
    conv(w, gap(w, x), 100, 1, 1);
}

/* Dilated branches side by side over a residual trunk. */
static void atrous(struct net_writer *w)
{
    int32_t x = conv(w, input(w, 128, 128, 3), 16, 3, 2);
    for (int32_t i = 0; i < 4; i++) {
        int32_t c = 16 << (i / 2), y = conv(w, conv(w, x, c, 3, i == 2 ? 2 : 1), c, 3, 1);
        x = w->dims[x].c == c && i != 2 ? binary(w, "add", y, x) : y;
    }
    int32_t parts[4] = {conv(w, x, 32, 1, 1), windowed(w, "conv", x, 32, 3, 1, 2),
                        windowed(w, "conv", x, 32, 3, 1, 4), windowed(w, "dw", x, w->dims[x].c, 3, 1, 6)};
    conv(w, conv(w, concat(w, parts, 4), 32, 1, 1), 21, 1, 1);
}

/* Two images and a vector; a class and a map. */
static void many_ends(struct net_writer *w)
{
    int32_t a = input(w, 64, 64, 3), b = input(w, 64, 64, 1), v = input(w, 1, 1, 24);
    int32_t x = conv(w, conv(w, a, 16, 3, 2), 24, 3, 2),
            y = conv(w, dw(w, conv(w, b, 8, 3, 2), 3, 2), 24, 1, 1);
    int32_t z = binary(w, "add", x, y);
    z = binary(w, "mul", z, v);
    int32_t parts[2] = {z, x};
    conv(w, gap(w, z), 5, 1, 1);
    conv(w, concat(w, parts, 2), 3, 3, 1);
}

/* A pyramid with three heads. */
static void pyramid(struct net_writer *w)
{
    int32_t x = conv(w, input(w, 160, 160, 3), 16, 3, 2), levels[3];
    for (int32_t i = 0; i < 3; i++) {
        x = inverted(w, x, 4 * w->dims[x].c, 24 << i, 3, 2, false, false);
        levels[i] = x = inverted(w, x, 4 * w->dims[x].c, 24 << i, 3, 1, false, false);
    }
    int32_t top = conv(w, levels[2], 32, 1, 1);
    conv(w, top, 18, 3, 1);
    for (int32_t i = 1; i >= 0; i--) {
        top = binary(w, "add", twice(w, top), conv(w, levels[i], 32, 1, 1));
        conv(w, dw(w, top, 3, 1), 18, 1, 1);
    }
}

/* Cells of five pairs of branches. */
static void cells(struct net_writer *w)
{
    int32_t before = conv(w, input(w, 64, 64, 3), 24, 3, 2), x = before;
    for (int32_t cell = 0; cell < 5; cell++) {
        int32_t a = conv(w, x, 24, 1, 1), b = conv(w, before, 24, 1, 1), parts[5];
        parts[0] = binary(w, "add", dw(w, a, 3, 1), dw(w, b, 5, 1));
        parts[1] = binary(w, "add", dw(w, b, 3, 1), pool(w, b, 3, 1));
        parts[2] = binary(w, "add", dw(w, a, 5, 1), conv(w, b, 24, 1, 1));
        parts[3] = binary(w, "add", dw(w, parts[0], 3, 1), parts[1]);
        parts[4] = binary(w, "add", pool(w, a, 3, 1), b);
        before = x;
        x = concat(w, parts, 5);
    }
    conv(w, gap(w, x), 10, 1, 1);
}

/* Every layer of a block reads all layers before it. */
static void dense_wide(struct net_writer *w)
{
    int32_t x[12], n = 0;
    x[n++] = conv(w, input(w, 48, 48, 3), 16, 3, 2);
    while (n < 12) {
        int32_t all = n == 1 ? x[0] : concat(w, x, n);
        x[n++] = conv(w, all, 8, 3, 1);
    }
    conv(w, gap(w, concat(w, x, n)), 10, 1, 1);
}

/* Twelve chains from one tensor to one concatenation. */
static void comb(struct net_writer *w)
{
    int32_t x = conv(w, input(w, 64, 64, 3), 24, 3, 2), parts[12];
    for (int32_t i = 0; i < 12; i++) {
        int32_t y = conv(w, x, 16, 1, 1);
        for (int32_t k = 0; k < 3; k++)
            y = k == 1 ? dw(w, y, 3, 1) : conv(w, y, 16, 3, 1);
        parts[i] = binary(w, "add", y, conv(w, x, 16, 1, 1));
    }
    conv(w, gap(w, concat(w, parts, 12)), 10, 1, 1);
}

static const struct family {
    const char *name;
    void (*write)(struct net_writer *w);
} families[NETWORKS] = {
    {"mobilenet_v3", mobilenet_v3},
    {"squeezenet", squeezenet},
    {"densenet", densenet},
    {"unet", unet},
    {"mcunet", mcunet},
    {"inception", inception},
    {"atrous", atrous},
    {"many_ends", many_ends},
    {"pyramid", pyramid},
    {"cells", cells},
    {"dense_wide", dense_wide},
    {"comb", comb},
};

static struct net_writer *writer_new(void)
{
    struct net_writer *w = calloc(1, sizeof *w);
    if (w) {
        w->tensors = json_object();
        w->ops = json_array();
        w->inputs = json_array();
    }
    return w;
}

/* `extra`: one tensor in so many that is read is an output too; 0: none. */
static json_t *finish(struct net_writer *w, const char *name, struct prng *prng, int32_t extra)
{
    json_t *outputs = json_array();
    for (int32_t t = 0; t < w->n; t++) {
        char text[16];
        (void)snprintf(text, sizeof text, "t%d", t);
        bool also = extra > 0 && json_array_size(outputs) < 8 && prng_range(prng, 1, extra) == 1;
        if (!w->input[t] && (!w->read[t] || also))
            json_array_append_new(outputs, json_string(text));
    }
    json_t *json = json_pack("{s:s, s:o, s:o, s:o, s:o}", "name", name, "tensors", w->tensors, "ops", w->ops,
                             "inputs", w->inputs, "outputs", outputs);
    free(w);
    return json;
}

const char *network_name(int32_t number)
{
    return families[number].name;
}

json_t *network_make(int32_t number)
{
    struct net_writer *w = writer_new();
    if (!w)
        return NULL;
    families[number].write(w);
    return finish(w, families[number].name, NULL, 0);
}

/* ---- random graphs ---- */

struct random {
    struct net_writer *w;
    struct prng prng;
    int32_t width;
};

static int32_t pick(struct random *r)
{
    int32_t from = r->w->n > r->width ? r->w->n - r->width : 0;
    return prng_range(&r->prng, from, r->w->n - 1);
}

/* Another tensor of the same rows and columns, or -1. */
static int32_t pick_like(struct random *r, int32_t a, bool channels)
{
    struct net_writer *w = r->w;
    for (int32_t tries = 0; tries < 12; tries++) {
        int32_t b = pick(r);
        if (b != a && w->dims[b].h == w->dims[a].h && w->dims[b].w == w->dims[a].w &&
            (!channels || w->dims[b].c == w->dims[a].c))
            return b;
    }
    return -1;
}

static void random_op(struct random *r)
{
    static const int32_t channels[] = {1, 3, 4, 8, 12, 16, 24, 32};
    struct net_writer *w = r->w;
    int32_t a = pick(r), b, c = channels[prng_range(&r->prng, 0, 7)];
    struct dims in = w->dims[a];
    int32_t s = in.h > 4 && prng_one_in(&r->prng, 5) ? 2 : 1, k = 2 * prng_range(&r->prng, 0, 3) + 1;
    int32_t dilation = s == 1 && k > 1 && prng_one_in(&r->prng, 4) ? 2 : 1;
    switch (prng_range(&r->prng, 0, 11)) {
    case 0:
    case 1:
        windowed(w, "conv", a, c, k > 5 ? 1 : k, s, k > 5 ? 1 : dilation);
        return;
    case 2:
        conv(w, a, c, 1, 1);
        return;
    case 3:
        windowed(w, "dw", a, in.c, k, s, dilation);
        return;
    case 4:
        squeeze_excite(w, a, in.c > 4 ? in.c / 4 : 1);
        return;
    case 5:
        unary(w, prng_one_in(&r->prng, 2) ? "logistic" : "relu", a);
        return;
    case 6:
    case 7:
        if ((b = pick_like(r, a, true)) >= 0)
            binary(w, "add", a, b);
        else
            swish(w, a);
        return;
    case 8:
    case 9:
        if ((b = pick_like(r, a, false)) >= 0 && in.c + w->dims[b].c < 128) {
            int32_t parts[3] = {a, b, pick_like(r, a, false)};
            bool three = parts[2] >= 0 && parts[2] != b && in.c + w->dims[b].c + w->dims[parts[2]].c < 128;
            concat(w, parts, three ? 3 : 2);
            return;
        }
        conv(w, a, in.c, 3, 1);
        return;
    case 10:
        if (in.h < 24 && in.w < 24 && prng_one_in(&r->prng, 2))
            twice(w, a);
        else
            windowed(w, prng_one_in(&r->prng, 2) ? "maxpool" : "avgpool", a, in.c, k < 3 ? 3 : k, s, 1);
        return;
    default:
        if (in.h > 1 && prng_one_in(&r->prng, 3))
            gap(w, a);
        else
            inverted(w, a, 4 * c, in.c, k < 3 ? 3 : k, s, prng_one_in(&r->prng, 3), false);
    }
}

json_t *network_random(uint64_t seed, int32_t n_ops, int32_t width, int32_t side)
{
    struct random r = {.w = writer_new(), .prng = prng_seed(seed), .width = width};
    if (!r.w)
        return NULL;
    int32_t inputs = prng_one_in(&r.prng, 4) ? 2 : 1;
    int32_t h = prng_range(&r.prng, side / 4 + 2, side), w = prng_range(&r.prng, side / 4 + 2, side);
    for (int32_t i = 0; i < inputs; i++)
        input(r.w, h, w, prng_range(&r.prng, 1, 4));
    for (int32_t i = 0; i < inputs; i++) /* each is read */
        conv(r.w, i, 8, 3, 1);
    while ((int32_t)json_array_size(r.w->ops) < n_ops)
        random_op(&r);
    int32_t unread = 0;
    for (int32_t t = 0; t < r.w->n; t++)
        unread += !r.w->read[t] && !r.w->input[t];
    /* No more outputs than a graph may have: the rest is added up. */
    for (int32_t t = 0; t < r.w->n && unread > 6; t++)
        if (!r.w->read[t] && r.w->dims[t].h > 1 && t + 1 < r.w->n)
            gap(r.w, t);
    for (int32_t t = 0; t < r.w->n && unread > 6; t++)
        for (int32_t u = t + 1; u < r.w->n && !r.w->read[t] && unread > 6; u++)
            if (!r.w->read[u] && r.w->dims[u].h == r.w->dims[t].h && r.w->dims[u].w == r.w->dims[t].w &&
                r.w->dims[u].c + r.w->dims[t].c < 4096) {
                int32_t parts[2] = {t, u};
                concat(r.w, parts, 2);
                unread--;
                break;
            }
    return finish(r.w, "random", &r.prng, 25);
}
