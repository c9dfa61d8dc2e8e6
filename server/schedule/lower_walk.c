/*
 * Walking a program: every execution with its boxes, loops and all. The same arithmetic as the boards' walker
 * has, over records that are not yet a fragment.
 */
#include "server/schedule/lower_internal.h"

struct span {
    int64_t first; /* unclamped */
    int32_t lo, hi;
};

static int64_t floor_div(int64_t x, int64_t by)
{
    return x >= 0 ? x / by : -((-x + by - 1) / by);
}

static int32_t clamp(int64_t x, int32_t lo, int32_t hi)
{
    return x < lo ? lo : x > hi ? hi : (int32_t)x;
}

static struct span evaluate(const struct lowered *out, const int32_t *counter, int32_t index)
{
    const struct fragment_range *r = &out->ranges[index];
    struct span limits = {0, r->lo, r->hi};
    if (r->parent != FRAGMENT_NONE)
        limits = evaluate(out, counter, r->parent);
    int64_t at = r->loop == FRAGMENT_NO_LOOP ? 0 : (int64_t)r->a * counter[r->loop];
    int64_t first = limits.first + floor_div(at + r->b0, r->div),
            last = limits.first + floor_div(at + r->b1, r->div);
    return (struct span){first, clamp(first, limits.lo, limits.hi), clamp(last, limits.lo, limits.hi)};
}

/* False: skipped. */
static bool evaluate_act(const struct lowered *out, const int32_t *counter, const struct lower_code *code,
                         struct lower_act *act)
{
    if (code->h < 0)
        return false;
    struct span h = evaluate(out, counter, code->h), w = evaluate(out, counter, code->w),
                c = evaluate(out, counter, code->c), k = {0, 0, 0};
    if (code->k >= 0)
        k = evaluate(out, counter, code->k);
    act->code = code;
    act->box = (struct box){h.lo, h.hi, w.lo, w.hi, c.lo, c.hi};
    act->k0 = k.lo;
    act->k1 = k.hi;
    return !box_empty(act->box) && (code->k < 0 || k.lo < k.hi);
}

void lowered_walk(const struct lowered *out, int32_t from, lower_act_sink *sink, void *context)
{
    int32_t counter[FRAGMENT_LOOPS_MAX] = {0}, stack[FRAGMENT_LOOPS_MAX], depth = 0;
    struct lower_act act = {.time = 0};
    for (int32_t pc = from; pc < out->n_code; pc++) {
        const struct lower_code *code = &out->code[pc];
        if (code->op == FRAGMENT_LOOP) {
            stack[depth++] = pc;
            counter[code->loop] = 0;
        } else if (code->op == FRAGMENT_END) {
            const struct lower_code *loop = &out->code[stack[depth - 1]];
            if ((uint32_t)++counter[loop->loop] < loop->count)
                pc = stack[depth - 1];
            else
                depth--;
        } else if (evaluate_act(out, counter, code, &act)) {
            sink(context, &act);
            act.time++;
        }
    }
}
