/*
 * Pictures as inputs. Scaling is a separable triangle filter whose width follows the scale, so that making
 * smaller averages over all source pixels and making larger interpolates; sample positions are pixel centres.
 * The guess: a pixel value is the quantised value less the type's lowest, which is what nearly every int8
 * image model was trained for.
 */
#include "server/models/pixels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const fits[] = {"stretch", "crop"};
static const char *const channel_orders[] = {"rgb", "bgr", "gray"};

/* The quantisation that the picture ends up in: of the input, or of what a float input is quantised to. */
static bool pixel_quant(const struct graph *graph, struct quant *quant, int32_t *lowest)
{
    const struct tensor *input = &graph->tensors[graph->inputs[0]];
    if (input->dtype == DTYPE_FLOAT32) {
        int32_t reader;
        if (graph_readers(graph, graph->inputs[0], &reader, 1) < 1 || graph->ops[reader].kind != OP_QUANTIZE)
            return false;
        input = &graph->tensors[graph->ops[reader].output];
    }
    *quant = input->quant;
    *lowest = input->dtype == DTYPE_UINT8 ? 0 : -128;
    return input->dtype == DTYPE_INT8 || input->dtype == DTYPE_UINT8;
}

json_t *pixels_describe(const struct graph *graph)
{
    if (graph->n_inputs != 1)
        return json_null();
    const struct tensor *input = &graph->tensors[graph->inputs[0]];
    struct shape shape = input->shape;
    bool picture = (input->rank == 4 || input->rank == 3) && (shape.c == 1 || shape.c == 3) && shape.h > 1 &&
                   shape.w > 1 && input->dtype != DTYPE_INT32;
    if (!picture)
        return json_null();
    struct quant quant;
    int32_t lowest;
    double scale = 1.0 / 255, offset = 0;
    if (pixel_quant(graph, &quant, &lowest)) {
        scale = (double)quant.scale;
        offset = (double)quant.scale * (lowest - quant.zero_point);
    }
    return json_pack("{s:i, s:i, s:i, s:f, s:f}", "height", (int)shape.h, "width", (int)shape.w, "channels",
                     (int)shape.c, "scale", scale, "offset", offset);
}

static int index_of(const json_t *value, const char *const *names, int n)
{
    const char *text = json_string_value(value);
    for (int i = 0; text && i < n; i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    return -1;
}

static bool finite_number(const json_t *value)
{
    return json_is_number(value) && isfinite((float)json_number_value(value));
}

/* One number, or one for each channel. */
static bool numbers(const json_t *value, int64_t channels)
{
    if (!json_is_array(value))
        return finite_number(value);
    bool ok = (int64_t)json_array_size(value) == channels;
    for (size_t i = 0; ok && i < json_array_size(value); i++)
        ok = finite_number(json_array_get(value, i));
    return ok;
}

static const char *check_key(const char *key, const json_t *value, int64_t channels)
{
    if (strcmp(key, "fit") == 0)
        return index_of(value, fits, 2) >= 0 ? NULL : "is stretch or crop";
    if (strcmp(key, "channels") == 0) {
        int order = index_of(value, channel_orders, 3);
        if (channels == 1)
            return order == PIXELS_GRAY ? NULL : "is gray for this model: its input has one channel";
        return order == PIXELS_RGB || order == PIXELS_BGR
                   ? NULL
                   : "is rgb or bgr for this model: its input has three channels";
    }
    if (strcmp(key, "scale") == 0 || strcmp(key, "offset") == 0)
        return numbers(value, channels) ? NULL : "is a number, or a list with one for each channel";
    return "is not known; input settings are fit, channels, scale, offset";
}

int pixels_check(const json_t *image, const json_t *settings, struct error *error)
{
    if (!json_is_object(settings))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "the body is a JSON object of fit, channels, scale and offset");
    if (!json_is_object(image) && json_object_size(settings) > 0)
        return error_set(error, STATUS_CONFLICT, "the model does not take a picture as its input");
    int64_t channels = json_integer_value(json_object_get(image, "channels"));
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)settings, key, value)
    {
        const char *wrong = check_key(key, value, channels);
        if (wrong)
            return error_set(error, STATUS_INVALID_ARGUMENT, "'%.64s' %s", key, wrong);
    }
    return 0;
}

json_t *pixels_effective(const json_t *image, const json_t *settings)
{
    static const char *const keys[] = {"fit", "channels", "scale", "offset"};
    if (!json_is_object(image))
        return json_null();
    bool gray = json_integer_value(json_object_get(image, "channels")) == 1;
    json_t *all =
        json_pack("{s:s, s:s, s:O, s:O}", "fit", "stretch", "channels", gray ? "gray" : "rgb", "scale",
                  json_object_get(image, "scale"), "offset", json_object_get(image, "offset"));
    json_t *guessed = json_array();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *value = json_object_get(settings, keys[i]);
        if (value)
            json_object_set(all, keys[i], value);
        else
            json_array_append_new(guessed, json_string(keys[i]));
    }
    json_object_set_new(all, "guessed", guessed);
    return all;
}

static void fill_numbers(const json_t *value, float out[3])
{
    for (size_t c = 0; c < 3; c++)
        out[c] = (float)json_number_value(json_is_array(value) ? json_array_get(value, c) : value);
}

int pixels_settings(const json_t *image, const json_t *settings, struct pixels_settings *out,
                    struct error *error)
{
    if (!json_is_object(image))
        return error_set(error, STATUS_CONFLICT, "the model does not take a picture as its input");
    int status = pixels_check(image, settings, error);
    if (status < 0)
        return status;
    json_t *all = pixels_effective(image, settings);
    out->fit = (enum pixels_fit)index_of(json_object_get(all, "fit"), fits, 2);
    out->channels = (enum pixels_channels)index_of(json_object_get(all, "channels"), channel_orders, 3);
    fill_numbers(json_object_get(all, "scale"), out->scale);
    fill_numbers(json_object_get(all, "offset"), out->offset);
    json_decref(all);
    return 0;
}

/* ---- scaling ---- */

/* `count` source pixels from `first` on, with weights that sum to one. */
struct taps {
    int32_t first, count;
    float *weight;
};

/* For `to` pixels over the source stretch [from, from + length). All weights lie in one block, which
 * taps[0].weight owns. */
static struct taps *make_taps(float from, float length, int32_t source, int32_t to)
{
    float scale = length / (float)to, support = scale > 1 ? scale : 1;
    int32_t most = (int32_t)ceilf(support) * 2 + 2;
    struct taps *taps = calloc((size_t)to, sizeof *taps);
    float *weights = calloc((size_t)to * (size_t)most, sizeof *weights);
    if (!taps || !weights) {
        free(taps);
        free(weights);
        return NULL;
    }
    for (int32_t o = 0; o < to; o++) {
        float centre = from + ((float)o + 0.5f) * scale, sum = 0;
        int32_t first = (int32_t)floorf(centre - support), last = (int32_t)ceilf(centre + support);
        first = first < 0 ? 0 : first > source - 1 ? source - 1 : first;
        last = last > source ? source : last;
        taps[o].first = first;
        taps[o].weight = weights + (size_t)o * (size_t)most;
        for (int32_t i = first; i < last && i - first < most; i++) {
            float w = 1 - fabsf((float)i + 0.5f - centre) / support;
            taps[o].weight[i - first] = w > 0 ? w : 0;
            sum += w > 0 ? w : 0;
            taps[o].count = i - first + 1;
        }
        if (sum <= 0) {
            taps[o].count = 1;
            taps[o].weight[0] = sum = 1;
        }
        for (int32_t i = 0; i < taps[o].count; i++)
            taps[o].weight[i] /= sum;
    }
    return taps;
}

static void free_taps(struct taps *taps)
{
    if (taps)
        free(taps[0].weight);
    free(taps);
}

/* One source row made `width` pixels wide: 3 values each. */
static void scale_row(const unsigned char *rgb, const struct taps *taps, int32_t width, float *out)
{
    for (int32_t x = 0; x < width; x++)
        for (int32_t c = 0; c < 3; c++) {
            float sum = 0;
            for (int32_t i = 0; i < taps[x].count; i++)
                sum += taps[x].weight[i] * (float)rgb[(size_t)(taps[x].first + i) * 3 + (size_t)c];
            out[x * 3 + c] = sum;
        }
}

/* height x width x 3 values in 0..255; malloc'ed, NULL without memory. Only source rows in use are kept. */
static float *scale(const struct import_pixels *image, enum pixels_fit fit, int32_t height, int32_t width)
{
    float x = 0, y = 0, w = (float)image->width, h = (float)image->height;
    if (fit == PIXELS_CROP && w * (float)height > h * (float)width) {
        w = h * (float)width / (float)height;
        x = ((float)image->width - w) / 2;
    } else if (fit == PIXELS_CROP) {
        h = w * (float)height / (float)width;
        y = ((float)image->height - h) / 2;
    }
    struct taps *columns = make_taps(x, w, image->width, width);
    struct taps *rows = make_taps(y, h, image->height, height);
    size_t line = (size_t)width * 3;
    float *out = calloc((size_t)height * line, sizeof *out), *row = malloc(line * sizeof *row);
    if (columns && rows && out && row)
        for (int32_t o = 0; o < height; o++)
            for (int32_t i = 0; i < rows[o].count; i++) {
                size_t at = (size_t)(rows[o].first + i) * (size_t)image->width * 3;
                scale_row(image->rgb + at, columns, width, row);
                for (size_t k = 0; k < line; k++)
                    out[(size_t)o * line + k] += rows[o].weight[i] * row[k];
            }
    bool ok = columns && rows && out && row;
    free_taps(columns);
    free_taps(rows);
    free(row);
    if (!ok)
        free(out);
    return ok ? out : NULL;
}

/* ---- values ---- */

static float channel_value(const float rgb[3], enum pixels_channels channels, int32_t c)
{
    if (channels == PIXELS_GRAY)
        return 0.299f * rgb[0] + 0.587f * rgb[1] + 0.114f * rgb[2];
    return rgb[channels == PIXELS_BGR ? 2 - c : c];
}

static void put_value(const struct tensor *tensor, float real, unsigned char *out, size_t at)
{
    if (tensor->dtype == DTYPE_FLOAT32) {
        memcpy(out + at * 4, &real, 4);
        return;
    }
    int32_t lowest = tensor->dtype == DTYPE_UINT8 ? 0 : -128;
    float q = roundf(real / tensor->quant.scale) + (float)tensor->quant.zero_point;
    q = q < (float)lowest ? (float)lowest : q > (float)(lowest + 255) ? (float)(lowest + 255) : q;
    out[at] = (unsigned char)((int32_t)q & 0xff);
}

int pixels_input(const struct graph *graph, const struct pixels_settings *settings,
                 const struct import_pixels *image, unsigned char **input, struct error *error)
{
    const struct tensor *tensor = &graph->tensors[graph->inputs[0]];
    struct shape shape = tensor->shape;
    float *pixels = scale(image, settings->fit, shape.h, shape.w);
    *input = pixels ? malloc(graph_input_bytes(graph)) : NULL;
    if (!*input) {
        free(pixels);
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    }
    size_t n = (size_t)shape.h * (size_t)shape.w;
    for (size_t p = 0; p < n; p++)
        for (int32_t c = 0; c < shape.c; c++) {
            float value = channel_value(pixels + p * 3, settings->channels, c);
            put_value(tensor, value * settings->scale[c] + settings->offset[c], *input,
                      p * (size_t)shape.c + (size_t)c);
        }
    free(pixels);
    return 0;
}
