/*
 * `shoal schedule`'s table: a line a step, below it what the steps within a patch do, then the figures and
 * what is in memory at the peak. Two passes over the lines: the first finds how wide each column is. The page
 * says the same words (web/js/schedule.js); tests/web/model.mjs holds that.
 */
#include "server/cli/schedule_table.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { TEXT = 256, NAMES_WIDTH = 56, LINES_WIDTH = 40 };

static long long number(json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

static long long nth(json_t *object, const char *key, size_t i)
{
    return (long long)json_integer_value(json_array_get(json_object_get(object, key), i));
}

static const char *word(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static bool is(json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

/* Adds to a text; what has no room is left out. */
__attribute__((format(printf, 3, 4))) static void add(char *out, size_t size, const char *format, ...)
{
    size_t at = strlen(out);
    va_list list;
    va_start(list, format);
    (void)vsnprintf(out + at, size - at, format, list);
    va_end(list);
}

/* "1,505,280"; `out` takes 32 bytes. */
static const char *commas(long long n, char *out)
{
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%lld", n), at = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0 && digits[i - 1] != '-')
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = 0;
    return out;
}

/* "4-9,12" of layers in the order of the step. */
static void layers_text(json_t *layers, size_t from, size_t to, char *out, size_t size)
{
    out[0] = 0;
    for (size_t i = from; i < to;) {
        long long first = (long long)json_integer_value(json_array_get(layers, i)), last = first;
        while (++i < to && (long long)json_integer_value(json_array_get(layers, i)) == last + 1)
            last++;
        add(out, size, first == last ? "%s%lld" : "%s%lld-%lld", out[0] ? "," : "", first, last);
    }
}

/* ---- how a step runs ---- */

/* What a step goes by, and what a ring holds. */
static const char *row_word(json_t *step)
{
    return strcmp(word(step, "along"), "w") == 0 ? "column" : "row";
}

static void add_rows(json_t *step, char *out, size_t size)
{
    long long lo = nth(step, "ring_rows", 0), hi = nth(step, "ring_rows", 1);
    const char *of = row_word(step);
    if (nth(step, "rows", 0))
        add(out, size, "%ss %lld->%lld", of, nth(step, "rows", 0), nth(step, "rows", 1));
    else
        add(out, size, "%s by %s", of, of);
    if (hi && lo == hi)
        add(out, size, ", ring%s of %lld %s%s", json_array_size(json_object_get(step, "ops")) > 2 ? "s" : "",
            hi, of, hi == 1 ? "" : "s");
    else if (hi)
        add(out, size, ", rings of %lld-%lld %ss", lo, hi, of);
}

static void how_text(json_t *step, long long macs, char *out, size_t size)
{
    const char *mode = word(step, "mode");
    char layers[TEXT];
    out[0] = 0;
    if (strcmp(mode, "full") == 0) {
        add(out, size, "%s", is(step, "free") ? "free: nothing to do" : "whole");
    } else if (strcmp(mode, "channels") == 0) {
        long long turns = number(step, "turns");
        if (turns > 1)
            add(out, size, "channels, %lld at a time, %lld turns", number(step, "k"), turns);
        else
            add(out, size, "channels, all at once");
        if (is(step, "rings")) {
            add(out, size, ", ");
            add_rows(step, out, size);
        }
    } else if (strcmp(mode, "rows") == 0 && nth(step, "rows", 0) == 1 && nth(step, "rows", 1) == 1) {
        add(out, size, "whole, one after another");
    } else if (strcmp(mode, "rows") == 0) {
        add_rows(step, out, size);
    } else {
        add(out, size, "patches of %lldx%lld, %lldx%lld of them", nth(step, "tile", 0), nth(step, "tile", 1),
            nth(step, "patches", 0), nth(step, "patches", 1));
    }
    if (number(step, "again")) {
        layers_text(json_object_get(step, "layers"), 0, (size_t)number(step, "again"), layers, sizeof layers);
        add(out, size, ", %s again later", layers);
    }
    if (number(step, "extra_macs") > 0 && macs)
        add(out, size, ", +%.1f %% MACs", 100.0 * (double)number(step, "extra_macs") / (double)macs);
}

/* ---- names ---- */

/* Converters name a layer by all that was fused into it. */
static bool tells_little(const char *part, size_t length)
{
    static const char *const fused[] = {
        "BatchNorm", "FusedBatchNorm", "FusedBatchNormV3", "batch_norm", "Relu",  "Relu6",
        "relu",      "relu6",          "Conv2D",           "BiasAdd",    "MatMul"};
    for (size_t i = 0; i < sizeof fused / sizeof *fused; i++)
        if (length == strlen(fused[i]) && strncmp(part, fused[i], length) == 0)
            return true;
    return false;
}

/* Where the last step of a path begins. */
static size_t last_of(const char *path, size_t length)
{
    while (length > 0 && path[length - 1] != '/')
        length--;
    return length;
}

/* Of the first path in a name the last two steps that tell most; a step that repeats the one before it counts
 * once. */
static void add_short(const char *name, char *out, size_t size)
{
    size_t end = strcspn(name, ";"), last;
    while ((last = last_of(name, end)) > 1) {
        size_t before = last_of(name, last - 1), length = end - last;
        bool twice = length == last - 1 - before && strncmp(name + before, name + last, length) == 0;
        if (!twice && !tells_little(name + last, length))
            break;
        end = last - 1;
    }
    size_t from = last > 1 ? last_of(name, last - 1) : 0;
    add(out, size, "%.*s", (int)(end - from), name + from);
}

/* All where they are few and short, else the first and the last. */
static void names_text(json_t *ops, char *out, size_t size)
{
    size_t n = json_array_size(ops);
    out[0] = 0;
    for (size_t i = 0; i < n; i++) {
        add(out, size, i ? " " : "");
        add_short(json_string_value(json_array_get(ops, i)), out, size);
    }
    if (n < 2 || strlen(out) <= NAMES_WIDTH)
        return;
    out[0] = 0;
    add_short(json_string_value(json_array_get(ops, 0)), out, size);
    add(out, size, " ... ");
    add_short(json_string_value(json_array_get(ops, n - 1)), out, size);
}

/* ---- the table ---- */

struct line {
    char step[24], layers[TEXT], bytes[32], ms[32], how[TEXT], names[2 * TEXT];
};

struct widths {
    int layers, bytes, ms, how;
    bool measured; /* else lines are measured, not printed */
};

/* Characters, of which some have several bytes. */
static int columns(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static void widen(int *width, const char *text, int most)
{
    int length = columns(text);
    *width = length > *width && length <= most ? length : *width;
}

static void put_line(struct widths *w, const struct line *line)
{
    if (w->measured) {
        (void)printf("%4s  %-*s  %*s  %*s%s%-*s  %s\n", line->step, w->layers, line->layers, w->bytes,
                     line->bytes, w->ms, line->ms, w->ms ? "  " : "", w->how, line->how, line->names);
        return;
    }
    widen(&w->layers, line->layers, LINES_WIDTH);
    widen(&w->bytes, line->bytes, TEXT);
    widen(&w->ms, line->ms, TEXT);
    widen(&w->how, line->how, TEXT);
}

static void put_step(struct widths *w, json_t *step, size_t number_of, long long macs)
{
    json_t *layers = json_object_get(step, "layers"), *inner;
    struct line line = {.step = ""};
    char how[TEXT - 8];
    size_t i;
    bool within = number_of == 0;
    how_text(step, macs, how, sizeof how);
    (void)snprintf(line.how, sizeof line.how, "%s%s", within ? "  each: " : "", how);
    if (!within)
        (void)snprintf(line.step, sizeof line.step, "%zu", number_of);
    if (!within && json_object_get(step, "predicted_ms"))
        (void)snprintf(line.ms, sizeof line.ms, "%.2f",
                       json_real_value(json_object_get(step, "predicted_ms")));
    layers_text(layers, 0, json_array_size(layers), line.layers, sizeof line.layers);
    (void)commas(number(step, "peak_bytes"), line.bytes);
    names_text(json_object_get(step, "ops"), line.names, sizeof line.names);
    put_line(w, &line);
    json_array_foreach(json_object_get(step, "inner"), i, inner) put_step(w, inner, 0, macs);
}

void schedule_table_steps(json_t *steps, long long macs)
{
    struct line head = {"step", "layers", "bytes", "ms", "how", "operators"};
    struct widths widths = {.measured = false};
    json_t *step;
    size_t i;
    if (!json_object_get(json_array_get(steps, 0), "predicted_ms"))
        head.ms[0] = 0;
    for (int pass = 0; pass < 2; pass++, widths.measured = true) {
        put_line(&widths, &head);
        json_array_foreach(steps, i, step) put_step(&widths, step, i + 1, macs);
    }
}

/* ---- the figures ---- */

/* What the packer could not avoid, beyond alignment. */
static void put_arena(json_t *partial)
{
    char arena[32], scratch[32], over[32];
    long long more =
        number(partial, "arena_bytes") - number(partial, "peak_bytes") - number(partial, "scratch_bytes");
    if (!number(partial, "arena_bytes"))
        return;
    (void)printf("arena      %s bytes packed, with %s of kernels' scratch",
                 commas(number(partial, "arena_bytes"), arena),
                 commas(number(partial, "scratch_bytes"), scratch));
    if (more >= 32)
        (void)printf(", %s more than peak and scratch", commas(more, over));
    (void)printf("\n");
}

static void put_figures(json_t *schedule)
{
    json_t *partial = json_object_get(schedule, "partial"), *ordinary = json_object_get(schedule, "ordinary");
    long long peak = number(partial, "peak_bytes"), whole = number(ordinary, "peak_bytes");
    long long extra = number(partial, "extra_macs"), macs = number(schedule, "macs");
    char a[32], b[32];
    (void)printf("\npeak       %s bytes; operator by operator %s", commas(peak, a), commas(whole, b));
    if (peak && whole > peak)
        (void)printf(", %.1f times as much", (double)whole / (double)peak);
    (void)printf("\n");
    put_arena(partial);
    (void)printf("predicted  %.1f ms; operator by operator %.1f\n",
                 json_real_value(json_object_get(partial, "predicted_ms")),
                 json_real_value(json_object_get(ordinary, "predicted_ms")));
    (void)printf("MACs       %s", commas(macs, a));
    if (extra > 0)
        (void)printf(", and %s of them again (%.1f %%)", commas(extra, b),
                     100.0 * (double)extra / (double)macs);
    (void)printf("\n");
}

static const char *role_text(json_t *tensor, char *out, size_t size)
{
    static const char *const texts[][2] = {
        {"input", "read by the step"},           {"live", "waits for a later step"},
        {"output", "what the step makes"},       {"sums", "what the step makes, as sums"},
        {"part", "the channels of one turn"},    {"patch", "making one patch"},
        {"step", "output and rows as they pass"}};
    out[0] = 0;
    if (strcmp(word(tensor, "role"), "ring") == 0)
        add(out, size, "ring: %lld of %lld %ss", nth(tensor, "rows", 0), nth(tensor, "rows", 1),
            row_word(tensor));
    for (size_t i = 0; i < sizeof texts / sizeof *texts && !out[0]; i++)
        if (strcmp(word(tensor, "role"), texts[i][0]) == 0)
            add(out, size, "%s", texts[i][1]);
    return out;
}

static void put_bottleneck(json_t *schedule)
{
    json_t *bottleneck = json_object_get(schedule, "bottleneck"), *item, *tensors;
    json_t *steps = json_object_get(json_object_get(schedule, "partial"), "steps");
    size_t i, at = 0;
    char bytes[32], name[TEXT] = "", role[TEXT];
    if (!json_is_object(bottleneck))
        return;
    while (number(json_array_get(steps, at), "peak_bytes") < number(bottleneck, "bytes"))
        at++;
    add_short(word(bottleneck, "op"), name, sizeof name);
    (void)printf("\nbottleneck: step %zu, which ends with %s; in memory then\n", at + 1, name);
    tensors = json_object_get(bottleneck, "tensors");
    int width = 0, most = 0;
    json_array_foreach(tensors, i, item)
    {
        name[0] = 0;
        add_short(word(item, "name"), name, sizeof name);
        widen(&width, commas(number(item, "bytes"), bytes), TEXT);
        widen(&most, name, NAMES_WIDTH);
    }
    json_array_foreach(tensors, i, item)
    {
        name[0] = 0;
        add_short(word(item, "name"), name, sizeof name);
        (void)printf("  %*s  %-*s  %s\n", width, commas(number(item, "bytes"), bytes),
                     most + (int)strlen(name) - columns(name), name, role_text(item, role, sizeof role));
    }
}

void schedule_table_print(json_t *schedule)
{
    schedule_table_steps(json_object_get(json_object_get(schedule, "partial"), "steps"),
                         number(schedule, "macs"));
    put_figures(schedule);
    put_bottleneck(schedule);
    if (!is(schedule, "exhaustive"))
        (void)printf("\nthe graph is too large to try everything: less memory may be possible\n");
    const char *reason = json_string_value(json_object_get(schedule, "why_not_executable"));
    if (reason)
        (void)printf("\nboards do not run it: %s\n", reason);
}
