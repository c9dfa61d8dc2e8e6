/*
 * Arithmetic on shapes: SHAPE, STRIDED_SLICE and PACK of values known while importing become constants, which
 * only other parameters (RESHAPE's shape, a RESIZE's size) read. On anything else they are refused. Files
 * list operators in the order in which they run, so one walk is enough.
 */
#include "server/import/tflite_convert.h"

#include <string.h>

int convert_ints(struct convert *cx, int32_t t, const char *what, int32_t max, struct fold *out)
{
    memset(out, 0, sizeof *out);
    const struct tflite_tensor *x = &cx->file->tensors[t];
    if (cx->folds[t]) {
        *out = *cx->folds[t];
    } else if (!x->data) {
        return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED, "its %s (tensor %d) is not constant", what, t);
    } else if (x->type != TFLITE_INT32 && x->type != TFLITE_INT64) {
        return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED, "its %s (tensor %d) is %s, not INT32", what, t,
                              tflite_type_name(x->type));
    } else {
        size_t bytes = x->type == TFLITE_INT32 ? 4 : 8, n = x->data_bytes / bytes;
        for (size_t i = 0; i < n && i < FOLD_VALUES_MAX; i++) {
            int32_t narrow;
            memcpy(&out->v[i], x->data + i * bytes, bytes);
            memcpy(&narrow, x->data + i * bytes, sizeof narrow);
            if (bytes == 4)
                out->v[i] = narrow;
        }
        out->n = (int32_t)n;
    }
    if (out->n < 1 || out->n > max || out->n > FOLD_VALUES_MAX)
        return CONVERT_REFUSE(cx, STATUS_MODEL_MALFORMED, "its %s (tensor %d) has %d values, not 1 to %d",
                              what, t, out->n, max);
    return 0;
}

/* Records the constant that the operator being converted makes. */
static int record(struct convert *cx, const struct fold *fold)
{
    int32_t t = cx->file->ops[cx->at].outputs[0];
    const struct tflite_tensor *x = &cx->file->tensors[t];
    if (x->type != TFLITE_INT32 && x->type != TFLITE_INT64)
        return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED,
                              "only arithmetic on shapes is supported, not on %s", tflite_type_name(x->type));
    if (tflite_elements(x) != fold->n)
        return CONVERT_REFUSE(cx, STATUS_MODEL_MALFORMED, "its output (tensor %d) has not %d elements", t,
                              fold->n);
    struct fold *copy = arena_copy(cx->scratch, fold, sizeof *fold);
    if (!copy)
        return error_set(cx->error, STATUS_NO_MEMORY, "out of memory while importing");
    cx->folds[t] = copy;
    return 0;
}

int fold_shape(struct convert *cx, const struct tflite_op *in, struct op *op)
{
    (void)op;
    const struct tflite_tensor *x = &cx->file->tensors[in->inputs[0]];
    struct fold fold = {.n = x->rank};
    for (int32_t i = 0; i < x->rank; i++)
        fold.v[i] = x->dims[i];
    return record(cx, &fold);
}

/* One end of a slice: from the end when negative, then clamped to [low, high]. */
static int64_t slice_end(int64_t v, int64_t n, int64_t low, int64_t high)
{
    v = v < 0 ? v + n : v;
    return v < low ? low : v > high ? high : v;
}

int fold_strided_slice(struct convert *cx, const struct tflite_op *in, struct op *op)
{
    (void)op;
    const struct tflite_options *o = &in->options;
    struct fold x, begin, end, stride, out = {0};
    int status = convert_ints(cx, in->inputs[0], "input", FOLD_VALUES_MAX, &x);
    if (!status)
        status = convert_ints(cx, in->inputs[1], "begin", 1, &begin);
    if (!status)
        status = convert_ints(cx, in->inputs[2], "end", 1, &end);
    if (!status)
        status = convert_ints(cx, in->inputs[3], "strides", 1, &stride);
    if (status)
        return status;
    if (o->ellipsis_mask || o->new_axis_mask || o->offset_slice)
        return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED, "only plain slices of shapes are supported");
    int64_t n = x.n, s = stride.v[0];
    if (s == 0 || s < -n || s > INT32_MAX)
        return CONVERT_REFUSE(cx, STATUS_MODEL_MALFORMED, "its stride is %lld", (long long)s);
    int64_t low = s > 0 ? 0 : -1, high = s > 0 ? n : n - 1;
    int64_t from = o->begin_mask & 1 ? (s > 0 ? 0 : n - 1) : slice_end(begin.v[0], n, low, high);
    int64_t to = o->end_mask & 1 ? (s > 0 ? n : -1) : slice_end(end.v[0], n, low, high);
    if (o->shrink_mask & 1) {
        if (from < 0 || from >= n)
            return CONVERT_REFUSE(cx, STATUS_MODEL_MALFORMED, "it takes element %lld of %lld",
                                  (long long)from, (long long)n);
        to = from + 1;
        s = 1;
    }
    for (int64_t i = from; s > 0 ? i < to : i > to; i += s)
        out.v[out.n++] = x.v[i];
    return record(cx, &out);
}

int fold_pack(struct convert *cx, const struct tflite_op *in, struct op *op)
{
    (void)op;
    struct fold out = {0};
    for (int32_t i = 0; i < in->n_inputs; i++) {
        struct fold one;
        int status = convert_ints(cx, in->inputs[i], "input", 1, &one);
        if (status)
            return status;
        if (out.n == FOLD_VALUES_MAX)
            return CONVERT_REFUSE(cx, STATUS_MODEL_LIMIT, "it packs more than %d values", FOLD_VALUES_MAX);
        out.v[out.n++] = one.v[0];
    }
    return record(cx, &out);
}
