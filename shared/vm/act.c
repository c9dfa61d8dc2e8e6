/*
 * One execution of an instruction: which parameters go with which operator, which box it makes, and which
 * boxes of its inputs that needs (window back-propagation). Run, checks and cost all ask here, so they cannot
 * disagree about what an instruction touches. Nothing here reads or writes the arena.
 */
#include "shared/nn/layout.h"
#include "shared/vm/parts.h"

enum {
    WORK_MAX = 1000000, /* multiply-accumulates a call: keeps a call within 20 ms on a Cortex-M7 */
    PACKED_SPEED = 5,   /* times as many by the kernels of other layouts than plain */
    CHANNELS_UNIT = 4,
    SOFTMAX_WORK = 64,
    ELEMENT_WORK = 8, /* an element of the operators without windows, in the same unit */
    STRIDE_MAX = 4096,
    WINDOW_ROWS_MAX = 255,
    WINDOW_COLUMNS_MAX = 65535
};

/* ---- what an instruction must bring, by operator ---- */

enum { NO = 0, S8 = 1, S32 = 4, ANY = 5 };
enum { CONV = 1 << FRAGMENT_SLICE_CONV, DW = 1 << FRAGMENT_SLICE_DW, FIN = 1 << FRAGMENT_SLICE_FINISH };
enum { TABLE = 1 << FRAGMENT_SLICE_TABLE };

struct rule {
    uint8_t in[2], out; /* element sizes */
    bool params, k;
    uint8_t slices; /* kinds that it takes, as bits */
};

static const struct rule rules[FRAGMENT_OP_COUNT] = {
    [FRAGMENT_CONV] = {{S8, NO}, S8, true, true, CONV},
    [FRAGMENT_DW] = {{S8, NO}, S8, true, false, DW},
    [FRAGMENT_POOL] = {{S8, NO}, S8, true, false, 0},
    [FRAGMENT_SUM] = {{S8, NO}, S32, true, true, 0},
    [FRAGMENT_ADD] = {{S8, S8}, S8, true, false, 0},
    [FRAGMENT_MUL] = {{S8, S8}, S8, true, false, 0},
    [FRAGMENT_LUT] = {{S8, NO}, S8, false, false, TABLE},
    [FRAGMENT_COPY] = {{ANY, NO}, ANY, false, false, 0},
    [FRAGMENT_RESIZE] = {{S8, NO}, S8, true, false, 0},
    [FRAGMENT_SOFTMAX] = {{S8, NO}, S8, true, false, 0},
    [FRAGMENT_ZERO] = {{NO, NO}, S32, false, false, 0},
    [FRAGMENT_FINISH] = {{S32, NO}, S8, true, false, CONV | DW | FIN},
    [FRAGMENT_SEND] = {{ANY, NO}, NO, false, false, 0},
    [FRAGMENT_POST] = {{NO, NO}, ANY, false, false, 0},
    [FRAGMENT_RECV] = {{NO, NO}, ANY, false, false, 0},
};

static const struct nn_params plain_move = {.perm = {0, 1, 2}};

static const struct fragment_view *view_at(const struct fragment *f, uint16_t index)
{
    return index == FRAGMENT_NONE ? NULL : &f->views[index];
}

static const char *view_elem_fault(const struct fragment *f, uint16_t index, uint8_t wanted)
{
    const struct fragment_view *view = view_at(f, index);
    if (wanted == NO)
        return NULL;
    if (!view)
        return "a view is missing";
    if (wanted != ANY && view->elem != wanted)
        return "a view's elements have the wrong size";
    return NULL;
}

static const char *views_fault(const struct fragment *f, const struct fragment_code *code,
                               const struct rule *rule)
{
    bool sums = code->op == FRAGMENT_CONV && (code->form & FRAGMENT_FORM_ACC);
    const char *fault = view_elem_fault(f, code->in[0], rule->in[0]);
    if (!fault)
        fault = view_elem_fault(f, code->in[1], rule->in[1]);
    if (!fault)
        fault = view_elem_fault(f, code->out, sums ? S32 : rule->out);
    if (!fault && code->op == FRAGMENT_COPY && f->views[code->in[0]].elem != f->views[code->out].elem)
        fault = "moves between elements of unlike size";
    return fault;
}

static const char *move_fault(const struct fragment *f, const struct fragment_code *code)
{
    const struct fragment_transfer *t = &f->transfers[code->arg];
    bool send = code->op == FRAGMENT_SEND;
    uint8_t elem = f->views[send ? code->in[0] : code->out].elem;
    if ((send ? t->from : t->to) != f->header->party)
        return "the transfer goes the other way";
    if ((t->wire == FRAGMENT_WIRE_I8) != (elem == 1))
        return "wire form and view do not match";
    if ((code->form & FRAGMENT_FORM_ACC) && (send || elem != 4))
        return "only arriving sums are added";
    return NULL;
}

/* ---- parameters ---- */

static bool zero_point_ok(int16_t z)
{
    return z >= INT8_MIN && z <= INT8_MAX;
}

static bool multiplier_ok(struct quant_multiplier m)
{
    return m.shift >= -31 && m.shift <= 31;
}

static const char *window_fault(const struct nn_params *p)
{
    if (p->kernel_h == 0 || p->kernel_w == 0)
        return "a kernel without taps";
    if (p->stride_h == 0 || p->stride_w == 0 || p->stride_h > STRIDE_MAX || p->stride_w > STRIDE_MAX)
        return "a stride out of range";
    if (p->dilation_h == 0 || p->dilation_w == 0)
        return "a dilation of 0";
    if ((uint64_t)(p->kernel_h - 1) * p->dilation_h + 1 > WINDOW_ROWS_MAX)
        return "a window of too many rows";
    if ((uint64_t)(p->kernel_w - 1) * p->dilation_w + 1 > WINDOW_COLUMNS_MAX)
        return "a window of too many columns";
    return NULL;
}

static const char *permutation_fault(const struct nn_params *p)
{
    uint32_t seen = 0;
    for (int i = 0; i < 3; i++)
        seen |= p->perm[i] < 3 ? 1u << p->perm[i] : 8u;
    if (seen != 7 && (p->perm[0] | p->perm[1] | p->perm[2]) != 0)
        return "not a permutation";
    return p->fill < INT8_MIN || p->fill > INT8_MAX ? "fills with more than a byte" : NULL;
}

static const char *activation_fault(const struct nn_params *p)
{
    if (!zero_point_ok(p->in_zero_point[0]) || !zero_point_ok(p->in_zero_point[1]) ||
        !zero_point_ok(p->out_zero_point) || p->weight_zero_point < -255 || p->weight_zero_point > 255)
        return "a zero point out of range";
    if (p->act_lo > p->act_hi || !zero_point_ok(p->act_lo) || !zero_point_ok(p->act_hi))
        return "a clamp out of range";
    return multiplier_ok(p->m[0]) && multiplier_ok(p->m[1]) && multiplier_ok(p->m[2])
               ? NULL
               : "a shift out of range";
}

static const char *resize_fault(const struct nn_params *p, const struct fragment_view *in,
                                const struct fragment_view *out)
{
    if (p->in_h != in->h || p->in_w != in->w || p->out_h != out->h || p->out_w != out->w)
        return "sizes do not match the views";
    return NULL;
}

static const char *params_fault(const struct fragment *f, const struct fragment_code *code,
                                const struct nn_params *p)
{
    const char *fault = activation_fault(p);
    bool window = code->op == FRAGMENT_CONV || code->op == FRAGMENT_DW || code->op == FRAGMENT_POOL;
    if (!fault && window)
        fault = window_fault(p);
    if (!fault && code->op == FRAGMENT_DW && p->multiplier == 0)
        fault = "a channel multiplier of 0";
    if (!fault && code->op == FRAGMENT_COPY)
        fault = permutation_fault(p);
    if (!fault && code->op == FRAGMENT_SUM && (p->reduce == 0 || p->reduce > 7))
        fault = "sums over no axis";
    if (!fault && code->op == FRAGMENT_FINISH && (p->flags & (NN_FLAG_AVERAGE | NN_FLAG_MEAN)) &&
        p->count < 1)
        fault = "an average of nothing";
    if (!fault && code->op == FRAGMENT_ADD && (p->count < 0 || p->count > 22))
        fault = "a left shift out of range";
    if (!fault && code->op == FRAGMENT_RESIZE)
        fault = resize_fault(p, &f->views[code->in[0]], &f->views[code->out]);
    return fault;
}

static uint8_t layout_of(const struct fragment *f, const struct fragment_code *code)
{
    bool takes = code->op == FRAGMENT_CONV || code->op == FRAGMENT_DW;
    return takes && code->slice != FRAGMENT_NONE ? f->slices[code->slice].layout : (uint8_t)NN_LAYOUT_PLAIN;
}

static struct nn_work layout_work(const struct fragment *f, const struct fragment_code *code,
                                  const struct nn_params *p)
{
    const struct fragment_slice *s = &f->slices[code->slice];
    const struct fragment_view *out = &f->views[code->out];
    return (struct nn_work){.p = p,
                            .depthwise = code->op == FRAGMENT_DW,
                            .sums = (code->form & FRAGMENT_FORM_ACC) != 0,
                            .depth = code->op == FRAGMENT_DW ? 1 : s->k_block,
                            .channels = s->c1 - s->c0,
                            .width = out->w,
                            .pixels = (int32_t)((uint32_t)out->h * out->w > 1 ? 2 : 1)};
}

static const char *scratch_fault(const struct fragment *f, const struct fragment_code *code, uint32_t least)
{
    const struct fragment_view *view = view_at(f, code->scratch);
    if (!view)
        return "scratch is missing";
    if (view->region != FRAGMENT_REGION_ARENA || view->elem != 1 || view->offset % 8 != 0 || view->h != 1 ||
        view->w != 1 || view->c_cap != view->c || view->h0 != FRAGMENT_NONE || view->w0 != FRAGMENT_NONE ||
        view->c0 != FRAGMENT_NONE)
        return "scratch is not a stretch of bytes";
    return view->c < least ? "scratch is too small" : NULL;
}

/* What a layout other than plain asks of the instruction. */
static const char *layout_fault(const struct fragment *f, const struct fragment_code *code,
                                const struct nn_params *p)
{
    if (code->op == FRAGMENT_FINISH && f->slices[code->slice].layout == NN_LAYOUT_FOURS)
        return "weights whose bias is not that of sums";
    enum nn_layout layout = (enum nn_layout)layout_of(f, code);
    if (layout == NN_LAYOUT_PLAIN)
        return NULL;
    struct nn_work work = layout_work(f, code, p);
    const struct fragment_slice *s = &f->slices[code->slice];
    if (!nn_layout_can(layout, &work))
        return "weights in a layout that this kernel does not take";
    if (code->op == FRAGMENT_CONV && !work.sums && s->k_block != s->k1 - s->k0)
        return "finishes from blocks of input channels";
    return scratch_fault(f, code, nn_scratch_least(layout, &work));
}

struct vm_operand vm_act_scratch(const struct fragment *fragment, const struct fragment_code *code)
{
    if (layout_of(fragment, code) == NN_LAYOUT_PLAIN)
        return (struct vm_operand){.view = FRAGMENT_NONE};
    return (struct vm_operand){code->scratch, true, {0, 1, 0, 1, 0, fragment->views[code->scratch].c}};
}

static bool finishes_without_slice(const struct fragment_code *code, const struct nn_params *p)
{
    return code->op == FRAGMENT_FINISH && (p->flags & (NN_FLAG_AVERAGE | NN_FLAG_MEAN));
}

static const char *slice_fault(const struct fragment *f, const struct fragment_code *code,
                               const struct rule *rule, const struct nn_params *p)
{
    if (rule->slices == 0 || finishes_without_slice(code, p))
        return NULL;
    if (code->slice == FRAGMENT_NONE)
        return "weights are missing";
    const struct fragment_slice *s = &f->slices[code->slice];
    if (!(rule->slices & (1 << s->kind)))
        return "weights of the wrong kind";
    if (code->op != FRAGMENT_FINISH && code->op != FRAGMENT_LUT &&
        (uint32_t)p->kernel_h * p->kernel_w != s->kernel)
        return "weights of another kernel";
    return code->op == FRAGMENT_LUT ? NULL : layout_fault(f, code, p);
}

static const char *ranges_fault(const struct fragment_code *code, const struct rule *rule)
{
    if (code->h == FRAGMENT_NONE || code->w == FRAGMENT_NONE || code->c == FRAGMENT_NONE ||
        (rule->k && code->k == FRAGMENT_NONE))
        return "a range is missing";
    return NULL;
}

const char *vm_code_fault(const struct fragment *fragment, const struct fragment_code *code)
{
    if (code->op == FRAGMENT_LOOP || code->op == FRAGMENT_END || code->op == FRAGMENT_WAIT)
        return NULL;
    const struct rule *rule = &rules[code->op];
    const char *fault = ranges_fault(code, rule);
    if (!fault)
        fault = views_fault(fragment, code, rule);
    if (fault)
        return fault;
    if (vm_moves(code->op))
        return move_fault(fragment, code);
    if (rule->params && code->params == FRAGMENT_NONE)
        return "parameters are missing";
    const struct nn_params *p = code->params == FRAGMENT_NONE ? &plain_move : &fragment->params[code->params];
    if (rule->params || code->op == FRAGMENT_COPY)
        fault = params_fault(fragment, code, p);
    return fault ? fault : slice_fault(fragment, code, rule, p);
}

/* ---- boxes ---- */

/* Without a range: one, so that the fault of a missing range can be told. False: empty. */
static bool extent_of(const struct fragment *fragment, const int32_t *counter, uint16_t index, int32_t *lo,
                      int32_t *hi)
{
    struct vm_extent extent = {0, 0, 1};
    if (index != FRAGMENT_NONE)
        extent = vm_range(fragment, counter, index);
    *lo = extent.lo;
    *hi = extent.hi;
    return extent.lo < extent.hi;
}

bool vm_act_evaluate(const struct fragment *fragment, const int32_t *counter, uint16_t pc, struct vm_act *act)
{
    const struct fragment_code *code = &fragment->code[pc];
    *act = (struct vm_act){.code = code, .p = &plain_move};
    if (code->op == FRAGMENT_WAIT || code->op == FRAGMENT_LOOP || code->op == FRAGMENT_END)
        return true;
    if (code->params != FRAGMENT_NONE)
        act->p = &fragment->params[code->params];
    bool over_rows = code->op == FRAGMENT_SUM && (act->p->reduce & 1);
    bool only_adds =
        code->op == FRAGMENT_SUM || (code->op == FRAGMENT_CONV && (code->form & FRAGMENT_FORM_ACC));
    struct vm_box *box = &act->box;
    bool full = extent_of(fragment, counter, code->h, &box->h0, &box->h1) &&
                extent_of(fragment, counter, code->w, &box->w0, &box->w1) &&
                extent_of(fragment, counter, code->c, &box->c0, &box->c1);
    if (full && code->k != FRAGMENT_NONE)
        full = extent_of(fragment, counter, code->k, &act->k0, &act->k1) || !only_adds;
    act->row0 = over_rows ? act->k0 : box->h0;
    act->row1 = over_rows ? act->k1 : box->h1;
    return full;
}

struct pair {
    int32_t lo, hi;
};

static struct pair clamped(struct pair x, int32_t size)
{
    if (x.lo < 0)
        x.lo = 0;
    if (x.hi > size)
        x.hi = size;
    if (x.hi < x.lo)
        x.hi = x.lo;
    return x;
}

static struct pair window(int32_t lo, int32_t hi, int32_t kernel, int32_t stride, int32_t dilation,
                          int32_t pad)
{
    return (struct pair){lo * stride - pad, (hi - 1) * stride - pad + (kernel - 1) * dilation + 1};
}

static void window_box(const struct vm_act *act, const struct fragment_view *in, struct vm_box *box)
{
    const struct nn_params *p = act->p;
    struct pair h = window(box->h0, box->h1, p->kernel_h, p->stride_h, p->dilation_h, p->pad_top);
    struct pair w =
        clamped(window(box->w0, box->w1, p->kernel_w, p->stride_w, p->dilation_w, p->pad_left), in->w);
    int32_t c0 = act->box.c0, c1 = act->box.c1;
    if (act->code->op == FRAGMENT_CONV) {
        c0 = act->k0;
        c1 = act->k1;
    } else if (act->code->op == FRAGMENT_DW) {
        c0 = c0 / p->multiplier;
        c1 = (c1 + p->multiplier - 1) / p->multiplier;
    }
    *box = (struct vm_box){h.lo, h.hi, w.lo, w.hi, c0, c1};
}

static void sum_box(const struct vm_act *act, const struct fragment_view *in, struct vm_box *box)
{
    if (act->p->reduce & 2) {
        box->w0 = 0;
        box->w1 = in->w;
    }
    if (act->p->reduce & 4) {
        box->c0 = 0;
        box->c1 = in->c;
    }
}

static void copy_box(const struct vm_act *act, const struct fragment_view *in, struct vm_box *box)
{
    const struct nn_params *p = act->p;
    bool still = p->perm[0] == p->perm[1]; /* a record without a permutation has zeros there */
    struct pair out[3] = {{box->h0 - p->pad_top, box->h1 - p->pad_top},
                          {box->w0 - p->pad_left, box->w1 - p->pad_left},
                          {box->c0 - p->pad_c, box->c1 - p->pad_c}};
    struct pair axis[3];
    for (int i = 0; i < 3; i++)
        axis[still ? i : p->perm[i]] = out[i];
    axis[1] = clamped(axis[1], in->w);
    axis[2] = clamped(axis[2], in->c);
    *box = (struct vm_box){axis[0].lo, axis[0].hi, axis[1].lo, axis[1].hi, axis[2].lo, axis[2].hi};
}

static void resize_box(const struct vm_act *act, struct vm_box *box)
{
    const struct nn_params *p = act->p;
    box->h1 = nn_resize_source(box->h1 - 1, p->in_h, p->out_h, p->flags) + 1;
    box->h0 = nn_resize_source(box->h0, p->in_h, p->out_h, p->flags);
    box->w1 = nn_resize_source(box->w1 - 1, p->in_w, p->out_w, p->flags) + 1;
    box->w0 = nn_resize_source(box->w0, p->in_w, p->out_w, p->flags);
}

/* The box of in[0] that output box `box` needs. */
static void input_box(const struct vm_act *act, const struct fragment_view *in, struct vm_box *box)
{
    switch (act->code->op) {
    case FRAGMENT_CONV:
    case FRAGMENT_DW:
    case FRAGMENT_POOL:
        window_box(act, in, box);
        break;
    case FRAGMENT_SUM:
        sum_box(act, in, box);
        break;
    case FRAGMENT_COPY:
        copy_box(act, in, box);
        break;
    case FRAGMENT_RESIZE:
        resize_box(act, box);
        break;
    default:
        break;
    }
}

static void second_box(const struct vm_act *act, struct vm_box *box)
{
    if (!(act->code->form & (FRAGMENT_FORM_BCAST_PIXEL | FRAGMENT_FORM_BCAST_SCALAR)))
        return;
    *box = (struct vm_box){0, 1, 0, 1, box->c0, box->c1};
    if (act->code->form & FRAGMENT_FORM_BCAST_SCALAR) {
        box->c0 = 0;
        box->c1 = 1;
    }
}

/* Weights cover the box; what an operator needs whole is whole. */
static const char *act_fault(const struct fragment *f, const struct vm_act *act)
{
    const struct fragment_code *code = act->code;
    if (rules[code->op].slices & (CONV | DW | FIN) && !finishes_without_slice(code, act->p)) {
        const struct fragment_slice *s = &f->slices[code->slice];
        if (act->box.c0 < s->c0 || act->box.c1 > s->c1)
            return "output channels without weights";
        if (code->op == FRAGMENT_CONV && (act->k0 < s->k0 || act->k1 > s->k1 || act->k0 >= act->k1))
            return "input channels without weights";
    }
    if (code->op == FRAGMENT_SOFTMAX && (act->box.c0 != 0 || act->box.c1 != f->views[code->out].c))
        return "softmax needs all channels";
    if (code->op == FRAGMENT_SUM && (((act->p->reduce & 1) && act->box.h1 - act->box.h0 != 1) ||
                                     ((act->p->reduce & 2) && act->box.w1 - act->box.w0 != 1) ||
                                     ((act->p->reduce & 4) && act->box.c1 - act->box.c0 != 1)))
        return "an axis summed over has size 1";
    if (code->op == FRAGMENT_FINISH && code->in[0] == code->out)
        return "finishes into its own view";
    return NULL;
}

static const char *copy_fault(const struct fragment_view *in, const struct vm_box *from)
{
    if (in->elem == 4 && (from->h0 < 0 || from->h1 > in->h))
        return "sums are not padded";
    return NULL;
}

const char *vm_act_operands(const struct fragment *fragment, const struct vm_act *act, int32_t lo, int32_t hi,
                            struct vm_operand operands[3])
{
    const struct fragment_code *code = act->code;
    const struct rule *rule = &rules[code->op];
    const char *fault = act_fault(fragment, act);
    bool over_rows = code->op == FRAGMENT_SUM && (act->p->reduce & 1);
    struct vm_box part = act->box;
    part.h0 = lo;
    part.h1 = hi;
    for (int i = 0; i < 2; i++) {
        operands[i] =
            (struct vm_operand){rule->in[i] == NO ? (uint16_t)FRAGMENT_NONE : code->in[i], false, part};
        if (operands[i].view == FRAGMENT_NONE)
            continue;
        if (i == 0)
            input_box(act, &fragment->views[code->in[0]], &operands[0].box);
        else
            second_box(act, &operands[1].box);
    }
    bool out = rule->out != NO;
    operands[VM_OUT] =
        (struct vm_operand){out ? code->out : (uint16_t)FRAGMENT_NONE, out, over_rows ? act->box : part};
    if (!fault && code->op == FRAGMENT_COPY)
        fault = copy_fault(&fragment->views[code->in[0]], &operands[0].box);
    return fault;
}

/* ---- chunks ---- */

static int64_t work_of_row(const struct fragment *f, const struct vm_act *act)
{
    const struct vm_box *box = &act->box;
    int64_t elements = (int64_t)(box->w1 - box->w0) * (box->c1 - box->c0);
    int64_t taps = (int64_t)act->p->kernel_h * act->p->kernel_w;
    switch (act->code->op) {
    case FRAGMENT_CONV:
        return elements * taps * (act->k1 - act->k0);
    case FRAGMENT_DW:
        return elements * taps;
    case FRAGMENT_POOL:
        return elements * taps * 2;
    case FRAGMENT_SUM:
        return (int64_t)f->views[act->code->in[0]].w * f->views[act->code->in[0]].c * 2;
    case FRAGMENT_SOFTMAX:
        return elements * SOFTMAX_WORK;
    default:
        return elements * ELEMENT_WORK;
    }
}

/* What one call may do, in the unit of work_of_row. */
static int64_t work_max(const struct fragment *f, const struct fragment_code *code)
{
    return layout_of(f, code) == NN_LAYOUT_PLAIN ? WORK_MAX : (int64_t)WORK_MAX * PACKED_SPEED;
}

int32_t vm_act_channels(const struct fragment *fragment, const struct vm_act *act)
{
    int32_t all = act->box.c1 - act->box.c0;
    int64_t work = work_of_row(fragment, act), max = work_max(fragment, act->code);
    if (act->code->op != FRAGMENT_CONV || work < 2 * max)
        return all;
    int64_t channels = all * max / work / CHANNELS_UNIT * CHANNELS_UNIT;
    return channels < CHANNELS_UNIT ? (all < CHANNELS_UNIT ? all : CHANNELS_UNIT) : (int32_t)channels;
}

static bool tables_hold(const struct vm_operand operands[3])
{
    for (int i = 0; i < 3; i++)
        if (operands[i].view != FRAGMENT_NONE && operands[i].box.h1 - operands[i].box.h0 > NN_ROWS_MAX)
            return false;
    return true;
}

const char *vm_act_chunk(const struct fragment *fragment, const struct vm_act *act, int32_t row, int32_t *end,
                         struct vm_operand operands[3])
{
    int64_t work = work_of_row(fragment, act);
    int64_t rows = work > 0 ? work_max(fragment, act->code) / work : NN_ROWS_MAX;
    rows = rows < 1 ? 1 : rows > NN_ROWS_MAX ? NN_ROWS_MAX : rows;
    if (rows > act->row1 - row)
        rows = act->row1 - row;
    for (;; rows /= 2) {
        const char *fault = vm_act_operands(fragment, act, row, row + (int32_t)rows, operands);
        *end = row + (int32_t)rows;
        if (fault || tables_hold(operands))
            return fault;
        if (rows == 1)
            return "more rows than a table holds";
    }
}

bool vm_act_taps(const struct vm_act *act, int32_t lo, int32_t hi, int32_t row)
{
    uint8_t op = act->code->op;
    if (op != FRAGMENT_CONV && op != FRAGMENT_DW && op != FRAGMENT_POOL)
        return true;
    const struct nn_params *p = act->p;
    for (int32_t y = 0; y < p->kernel_h; y++) {
        int32_t at = row + p->pad_top - y * p->dilation_h;
        if (at >= lo * p->stride_h && at <= (hi - 1) * p->stride_h && at % p->stride_h == 0)
            return true;
    }
    return false;
}
