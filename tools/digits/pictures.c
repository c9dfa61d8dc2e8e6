/* Reading the digits and drawing variants of them. */
#include "tools/digits/digits.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOLD_OUT_EVERY = 5 };

void *need(void *p)
{
    if (!p) {
        (void)fprintf(stderr, "train_digits: out of memory\n");
        exit(1);
    }
    return p;
}

static struct digit *append(struct digit_set *set)
{
    if (set->n % 1024 == 0)
        set->digits = need(realloc(set->digits, (size_t)(set->n + 1024) * sizeof *set->digits));
    return &set->digits[set->n++];
}

static const char *read_label(const char *folder, int32_t label, struct digit_set *training,
                              struct digit_set *held_out)
{
    char path[1024];
    json_error_t error;
    (void)snprintf(path, sizeof path, "%s/%d.json", folder, label);
    json_t *file = json_load_file(path, 0, &error);
    const json_t *data = json_object_get(file, "data");
    size_t n = json_array_size(data);
    const char *wrong = !file                  ? "a file of digits is missing or is no JSON"
                        : n == 0 || n % PIXELS ? "a file of digits does not hold whole pictures"
                                               : NULL;
    for (size_t i = 0; !wrong && i < n / PIXELS; i++) {
        bool held = i % HOLD_OUT_EVERY == HOLD_OUT_EVERY - 1;
        struct digit *digit = append(held ? held_out : training);
        digit->label = label;
        for (size_t k = 0; k < PIXELS; k++) {
            double v = json_number_value(json_array_get(data, i * PIXELS + k));
            if (!(v >= 0 && v <= 1))
                wrong = "a pixel is not from 0 to 1";
            else
                digit->pixels[k] = (uint8_t)(v * 255 + 0.5);
        }
    }
    json_decref(file);
    return wrong;
}

const char *digits_read(const char *folder, struct digit_set *training, struct digit_set *held_out)
{
    const char *wrong = NULL;
    *training = *held_out = (struct digit_set){0};
    for (int32_t label = 0; label < CLASSES && !wrong; label++)
        wrong = read_label(folder, label, training, held_out);
    return wrong;
}

void digits_free(struct digit_set *set)
{
    free(set->digits);
    *set = (struct digit_set){0};
}

static float pixel_at(const struct digit *digit, int32_t y, int32_t x)
{
    bool inside = y >= 0 && y < SIDE && x >= 0 && x < SIDE;
    return inside ? (float)digit->pixels[y * SIDE + x] / 255.0f : 0.0f;
}

static float between(const struct digit *digit, float y, float x)
{
    float y0 = floorf(y), x0 = floorf(x), fy = y - y0, fx = x - x0;
    int32_t iy = (int32_t)y0, ix = (int32_t)x0;
    return (1 - fy) * ((1 - fx) * pixel_at(digit, iy, ix) + fx * pixel_at(digit, iy, ix + 1)) +
           fy * ((1 - fx) * pixel_at(digit, iy + 1, ix) + fx * pixel_at(digit, iy + 1, ix + 1));
}

static float spread(struct prng *prng, float most)
{
    return most * (2.0f * (float)prng_unit(prng) - 1.0f);
}

void digits_picture(const struct digit *digit, struct prng *jitter, float out[PIXELS])
{
    if (!jitter) {
        for (int32_t k = 0; k < PIXELS; k++)
            out[k] = (float)digit->pixels[k] / 255.0f;
        return;
    }
    const float middle = (SIDE - 1) / 2.0f;
    float turn = spread(jitter, 0.15f), shear = spread(jitter, 0.12f), down = spread(jitter, 2.0f),
          right = spread(jitter, 2.0f), tall = 1.0f + spread(jitter, 0.12f),
          wide = 1.0f + spread(jitter, 0.12f);
    float cosine = cosf(turn), sine = sinf(turn);
    for (int32_t y = 0; y < SIDE; y++)
        for (int32_t x = 0; x < SIDE; x++) {
            float v = ((float)y - middle - down) * tall, u = ((float)x - middle - right) * wide;
            u += shear * v;
            out[y * SIDE + x] =
                between(digit, middle + cosine * v - sine * u, middle + sine * v + cosine * u);
        }
}
