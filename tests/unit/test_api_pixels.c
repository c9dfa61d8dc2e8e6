/* Pictures as inputs: the guess from the quantisation, the settings' rules, scaling, channel order. */
#include "server/models/pixels.h"
#include "tests/support/build_graph.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

/* A graph of one picture input of that shape and type: an int8 one goes through a RELU, others are quantised
 * first. */
static struct graph *picture_graph(struct shape shape, enum dtype dtype, struct quant quant)
{
    struct builder b = build_new(1);
    bool ends = dtype != DTYPE_INT8;
    int32_t x = build_input(&b, dtype, shape, quant);
    if (ends)
        x = build_op(&b, build_plain(OP_QUANTIZE, x, -1), shape, (struct quant){1.0f / 255, -128});
    struct quant inner = ends ? (struct quant){1.0f / 255, -128} : quant;
    build_output(&b, build_op(&b, build_plain(OP_RELU, x, -1), shape, inner));
    return build_finish(&b);
}

static struct pixels_settings plain(void)
{
    return (struct pixels_settings){.scale = {1, 1, 1}, .offset = {-128, -128, -128}};
}

static unsigned char *to_input(const struct graph *graph, const struct pixels_settings *settings,
                               int32_t width, int32_t height, unsigned char *rgb)
{
    struct import_pixels picture = {width, height, rgb};
    unsigned char *input = NULL;
    assert_int_equal(pixels_input(graph, settings, &picture, &input, NULL), 0);
    return input;
}

static void the_guess_makes_a_pixel_the_quantised_value(void **state)
{
    (void)state;
    static const struct quant quants[] = {
        {1.0f / 255, -128}, {1.0f / 127.5f, -1}, {1.0f, 0}, {0.5f, -128}, {0.0186f, 7}};
    for (size_t q = 0; q < sizeof quants / sizeof *quants; q++) {
        struct graph *graph = picture_graph((struct shape){16, 16, 1}, DTYPE_INT8, quants[q]);
        json_t *image = pixels_describe(graph), *none = json_object();
        struct pixels_settings settings;
        assert_int_equal(pixels_settings(image, none, &settings, NULL), 0);
        unsigned char rgb[256 * 3];
        for (size_t i = 0; i < sizeof rgb; i++)
            rgb[i] = (unsigned char)(i / 3);
        unsigned char *input = to_input(graph, &settings, 16, 16, rgb);
        for (int i = 0; i < 256; i++)
            assert_int_equal((int8_t)input[i], i - 128);
        free(input);
        json_decref(image);
        json_decref(none);
        graph_free(graph);
    }
}

static void float_inputs_get_real_values(void **state)
{
    (void)state;
    struct graph *graph = picture_graph((struct shape){2, 2, 3}, DTYPE_FLOAT32, (struct quant){0, 0});
    json_t *image = pixels_describe(graph), *none = json_object();
    struct pixels_settings settings;
    assert_int_equal(pixels_settings(image, none, &settings, NULL), 0);
    unsigned char rgb[12] = {0, 51, 255, 0, 51, 255, 0, 51, 255, 0, 51, 255};
    unsigned char *input = to_input(graph, &settings, 2, 2, rgb);
    float values[3];
    memcpy(values, input, sizeof values);
    assert_true(fabsf(values[0]) < 1e-6f && fabsf(values[1] - 0.2f) < 1e-6f &&
                fabsf(values[2] - 1.0f) < 1e-6f);
    free(input);
    json_decref(image);
    json_decref(none);
    graph_free(graph);
}

static void only_pictures_are_described(void **state)
{
    (void)state;
    static const struct shape shapes[] = {{8, 8, 4}, {1, 8, 3}, {8, 1, 1}, {1, 1, 640}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct graph *graph = picture_graph(shapes[i], DTYPE_INT8, (struct quant){1, 0});
        json_t *image = pixels_describe(graph);
        assert_true(json_is_null(image));
        json_decref(image);
        graph_free(graph);
    }
}

static void settings_outside_the_rules_are_refused(void **state)
{
    (void)state;
    json_t *colour = json_pack("{s:i, s:i, s:i, s:f, s:f}", "height", 8, "width", 8, "channels", 3, "scale",
                               1.0, "offset", 0.0);
    json_t *gray = json_pack("{s:i, s:i, s:i, s:f, s:f}", "height", 8, "width", 8, "channels", 1, "scale",
                             1.0, "offset", 0.0);
    static const char *const good[] = {"{}", "{\"fit\":\"crop\"}", "{\"channels\":\"bgr\"}",
                                       "{\"scale\":[1,2,3.5],\"offset\":0}"};
    static const char *const bad[] = {"[]",
                                      "{\"fit\":\"cut\"}",
                                      "{\"fit\":1}",
                                      "{\"channels\":\"gray\"}",
                                      "{\"scale\":[1,2]}",
                                      "{\"scale\":\"1\"}",
                                      "{\"offset\":[1,2,null]}",
                                      "{\"scale\":1e300}",
                                      "{\"mean\":0}"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        json_t *json = json_loads(good[i], 0, NULL);
        assert_int_equal(pixels_check(colour, json, NULL), 0);
        json_decref(json);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *json = json_loads(bad[i], 0, NULL);
        assert_int_equal(pixels_check(colour, json, NULL), STATUS_INVALID_ARGUMENT);
        json_decref(json);
    }
    json_t *rgb = json_loads("{\"channels\":\"rgb\"}", 0, NULL);
    assert_int_equal(pixels_check(gray, rgb, NULL), STATUS_INVALID_ARGUMENT);
    assert_int_equal(pixels_check(json_null(), rgb, NULL), STATUS_CONFLICT);
    json_decref(rgb);
    json_decref(colour);
    json_decref(gray);
}

static void what_nobody_set_is_marked_as_guessed(void **state)
{
    (void)state;
    json_t *image = json_pack("{s:i, s:i, s:i, s:f, s:f}", "height", 8, "width", 8, "channels", 3, "scale",
                              0.5, "offset", -1.0);
    json_t *set = json_loads("{\"channels\":\"bgr\",\"scale\":2}", 0, NULL);
    json_t *all = pixels_effective(image, set), *guessed = json_object_get(all, "guessed");
    assert_string_equal(json_string_value(json_object_get(all, "channels")), "bgr");
    assert_true(json_number_value(json_object_get(all, "scale")) == 2);
    assert_true(json_number_value(json_object_get(all, "offset")) == -1);
    assert_int_equal(json_array_size(guessed), 2);
    assert_string_equal(json_string_value(json_array_get(guessed, 0)), "fit");
    assert_string_equal(json_string_value(json_array_get(guessed, 1)), "offset");
    json_decref(all);
    json_decref(set);
    json_decref(image);
}

static void channels_come_in_the_models_order(void **state)
{
    (void)state;
    struct graph *colour = picture_graph((struct shape){2, 2, 3}, DTYPE_INT8, (struct quant){1, 0});
    struct graph *gray = picture_graph((struct shape){2, 2, 1}, DTYPE_INT8, (struct quant){1, 0});
    struct pixels_settings settings = plain();
    unsigned char rgb[12];
    for (size_t i = 0; i < 12; i++)
        rgb[i] = (unsigned char[]){200, 100, 50}[i % 3];
    settings.offset[2] = -118; /* of the model's third channel, whatever it is */
    settings.channels = PIXELS_BGR;
    unsigned char *input = to_input(colour, &settings, 2, 2, rgb);
    assert_int_equal((int8_t)input[0], 50 - 128);
    assert_int_equal((int8_t)input[1], 100 - 128);
    assert_int_equal((int8_t)input[2], 200 - 118);
    free(input);
    settings.channels = PIXELS_GRAY;
    input = to_input(gray, &settings, 2, 2, rgb);
    assert_int_equal((int8_t)input[0], lroundf(0.299f * 200 + 0.587f * 100 + 0.114f * 50) - 128);
    free(input);
    graph_free(colour);
    graph_free(gray);
}

static void making_smaller_averages_over_every_pixel(void **state)
{
    (void)state;
    struct graph *graph = picture_graph((struct shape){2, 2, 1}, DTYPE_INT8, (struct quant){1, 0});
    struct pixels_settings settings = plain();
    settings.channels = PIXELS_GRAY;
    enum { SIDE = 64 };
    unsigned char *rgb = malloc(SIDE * SIDE * 3);
    for (int i = 0; i < SIDE * SIDE * 3; i++) /* a chequerboard: its mean is 127.5 everywhere */
        rgb[i] = (i / 3 % SIDE + i / 3 / SIDE) % 2 ? 255 : 0;
    unsigned char *input = to_input(graph, &settings, SIDE, SIDE, rgb);
    for (int i = 0; i < 4; i++)
        assert_in_range((int8_t)input[i] + 128, 127, 128);
    free(input);
    free(rgb);
    graph_free(graph);
}

static void stretch_keeps_all_and_crop_the_middle(void **state)
{
    (void)state;
    struct graph *graph = picture_graph((struct shape){2, 2, 1}, DTYPE_INT8, (struct quant){1, 0});
    struct pixels_settings settings = plain();
    settings.channels = PIXELS_GRAY;
    unsigned char rgb[2 * 4 * 3]; /* 4 wide, 2 high: columns 0, 80, 160, 240 */
    for (int i = 0; i < 24; i++)
        rgb[i] = (unsigned char)(i / 3 % 4 * 80);
    unsigned char *crop, *stretch = to_input(graph, &settings, 4, 2, rgb);
    settings.fit = PIXELS_CROP;
    crop = to_input(graph, &settings, 4, 2, rgb);
    assert_int_equal((int8_t)crop[0] + 128, 80);
    assert_int_equal((int8_t)crop[1] + 128, 160);
    assert_true((int8_t)stretch[0] + 128 < 60 && (int8_t)stretch[1] + 128 > 180);
    free(crop);
    free(stretch);
    graph_free(graph);
}

static void any_picture_fits_any_input(void **state)
{
    (void)state;
    static const int32_t sides[] = {1, 2, 3, 7, 64, 129};
    struct graph *graph = picture_graph((struct shape){13, 29, 3}, DTYPE_INT8, (struct quant){1, 0});
    for (size_t i = 0; i < 6; i++)
        for (size_t j = 0; j < 6; j++)
            for (int fit = PIXELS_STRETCH; fit <= PIXELS_CROP; fit++) {
                struct pixels_settings settings = plain();
                settings.fit = (enum pixels_fit)fit;
                size_t n = (size_t)sides[i] * (size_t)sides[j] * 3;
                unsigned char *rgb = malloc(n);
                memset(rgb, 77, n);
                unsigned char *input = to_input(graph, &settings, sides[i], sides[j], rgb);
                for (int k = 0; k < 13 * 29 * 3; k++)
                    assert_int_equal((int8_t)input[k], 77 - 128);
                free(input);
                free(rgb);
            }
    graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_guess_makes_a_pixel_the_quantised_value),
        cmocka_unit_test(float_inputs_get_real_values),
        cmocka_unit_test(only_pictures_are_described),
        cmocka_unit_test(settings_outside_the_rules_are_refused),
        cmocka_unit_test(what_nobody_set_is_marked_as_guessed),
        cmocka_unit_test(channels_come_in_the_models_order),
        cmocka_unit_test(making_smaller_averages_over_every_pixel),
        cmocka_unit_test(stretch_keeps_all_and_crop_the_middle),
        cmocka_unit_test(any_picture_fits_any_input),
    };
    return cmocka_run_group_tests_name("api_pixels", tests, NULL, NULL);
}
