/* Images from strangers: decoded in the limited child, within the limits, or refused with a reason. */
#include "server/import/child.h"
#include "server/import/import.h"
#include "tests/support/image_file.h"
#include "tests/support/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WIDTH = 37, HEIGHT = 21 };

static unsigned char *gradient(int channels)
{
    unsigned char *pixels = malloc((size_t)WIDTH * HEIGHT * (size_t)channels);
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        for (int c = 0; c < channels; c++)
            pixels[i * channels + c] = (unsigned char)((i % WIDTH) * (c + 2) + i / WIDTH * 3);
    return pixels;
}

static void decode(const struct bytes *file, struct import_pixels *image)
{
    struct error error;
    error_clear(&error);
    if (import_image(file->data, file->size, image, &error) != 0)
        fail_msg("%s", error.message);
    assert_int_equal(image->width, WIDTH);
    assert_int_equal(image->height, HEIGHT);
}

static void refuse(const void *bytes, size_t size, enum status status, const char *words)
{
    struct error error;
    struct import_pixels image;
    error_clear(&error);
    int result = import_image(bytes, size, &image, &error);
    if (result != (int)status || error.status != status || !strstr(error.message, words))
        fail_msg("%s '%s', expected %s '%s'", status_name(result), error.message, status_name(status), words);
    assert_null(image.rgb);
}

static void png_comes_back_pixel_by_pixel(void **state)
{
    (void)state;
    struct bytes file;
    struct import_pixels image;
    unsigned char *pixels = gradient(3);
    image_file_png(pixels, WIDTH, HEIGHT, 3, &file);
    decode(&file, &image);
    assert_memory_equal(image.rgb, pixels, WIDTH * HEIGHT * 3);
    import_pixels_free(&image);
    bytes_free(&file);
    free(pixels);
}

static void grey_and_transparent_images_become_rgb(void **state)
{
    (void)state;
    static const int channels[] = {1, 4};
    for (int k = 0; k < 2; k++) {
        struct bytes file;
        struct import_pixels image;
        int n = channels[k];
        unsigned char *pixels = gradient(n);
        image_file_png(pixels, WIDTH, HEIGHT, n, &file);
        decode(&file, &image);
        for (int i = 0; i < WIDTH * HEIGHT * 3; i++)
            assert_int_equal(image.rgb[i], pixels[i / 3 * n + (n == 1 ? 0 : i % 3)]);
        import_pixels_free(&image);
        bytes_free(&file);
        free(pixels);
    }
}

static void jpeg_comes_back_nearly(void **state)
{
    (void)state;
    struct bytes file;
    struct import_pixels image;
    unsigned char pixels[WIDTH * HEIGHT * 3];
    memset(pixels, 90, sizeof pixels);
    image_file_jpeg(pixels, WIDTH, HEIGHT, 3, 95, &file);
    decode(&file, &image);
    for (size_t i = 0; i < sizeof pixels; i++)
        assert_in_range(image.rgb[i], 88, 92);
    import_pixels_free(&image);
    bytes_free(&file);
}

/* The claim stands in the header: no pixel is needed to make it. */
static void claims_beyond_the_limits_are_refused_before_decoding(void **state)
{
    (void)state;
    static const uint32_t claims[][2] = {{65535, 65535}, {4097, 1}, {1, 4097}, {0x7fffffff, 0x7fffffff}};
    unsigned char *pixels = gradient(3);
    struct bytes file;
    image_file_png(pixels, WIDTH, HEIGHT, 3, &file);
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        struct error error;
        struct import_pixels image;
        for (int k = 0; k < 8; k++)
            file.data[16 + k] = (uint8_t)(claims[i][k / 4] >> (24 - k % 4 * 8));
        error_clear(&error);
        int status = import_image(file.data, file.size, &image, &error);
        assert_true(status == STATUS_TOO_LARGE || status == STATUS_IMAGE_MALFORMED);
    }
    bytes_free(&file);
    free(pixels);
}

static void sides_at_the_limit_are_decoded(void **state)
{
    (void)state;
    enum { SIDE = IMPORT_IMAGE_SIDE_MAX };
    unsigned char *pixels = calloc(SIDE, 3);
    struct bytes file;
    struct import_pixels image;
    struct error error;
    image_file_png(pixels, SIDE, 1, 3, &file);
    error_clear(&error);
    assert_int_equal(import_image(file.data, file.size, &image, &error), 0);
    assert_int_equal(image.width, SIDE);
    import_pixels_free(&image);
    bytes_free(&file);
    free(pixels);
    pixels = calloc(SIDE + 1, 3);
    image_file_png(pixels, SIDE + 1, 1, 3, &file);
    assert_int_not_equal(import_image(file.data, file.size, &image, NULL), 0);
    bytes_free(&file);
    free(pixels);
}

static void other_files_are_no_images(void **state)
{
    (void)state;
    refuse("", 0, STATUS_IMAGE_MALFORMED, "empty");
    refuse("GIF89a__________", 16, STATUS_IMAGE_MALFORMED, "neither PNG nor JPEG");
    refuse("\x89PNG\r\n\x1a\n________", 16, STATUS_IMAGE_MALFORMED, "cannot be read");
    refuse("\xff\xd8\xff\xe0\0\0\0\0\0\0\0\0", 12, STATUS_IMAGE_MALFORMED, "cannot be read");
    refuse("xxxxxxxxx", (size_t)IMPORT_IMAGE_BYTES_MAX + 1, STATUS_TOO_LARGE, "more than");
}

static void cut_and_mutated_images_never_crash(void **state)
{
    (void)state;
    struct prng prng = prng_seed(3);
    unsigned char *pixels = gradient(3);
    struct bytes files[2];
    image_file_png(pixels, WIDTH, HEIGHT, 3, &files[0]);
    image_file_jpeg(pixels, WIDTH, HEIGHT, 3, 80, &files[1]);
    for (int i = 0; i < 4000; i++) {
        struct error error;
        unsigned char *answer = NULL;
        size_t answer_size, size = files[i % 2].size;
        uint8_t *copy = malloc(size);
        memcpy(copy, files[i % 2].data, size);
        for (int32_t k = prng_range(&prng, 0, 4); k > 0; k--)
            copy[prng_range(&prng, 0, (int32_t)size - 1)] = (uint8_t)prng_next(&prng);
        if (prng_one_in(&prng, 3))
            size = (size_t)prng_range(&prng, 0, (int32_t)size);
        error_clear(&error);
        (void)import_child_image(copy, size, "", &answer, &answer_size, &error);
        free(answer);
        free(copy);
    }
    bytes_free(&files[0]);
    bytes_free(&files[1]);
    free(pixels);
}

int main(int argc, char **argv)
{
    int code = sandbox_child_main(argc, argv);
    if (code >= 0)
        return code;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(png_comes_back_pixel_by_pixel),
        cmocka_unit_test(grey_and_transparent_images_become_rgb),
        cmocka_unit_test(jpeg_comes_back_nearly),
        cmocka_unit_test(claims_beyond_the_limits_are_refused_before_decoding),
        cmocka_unit_test(sides_at_the_limit_are_decoded),
        cmocka_unit_test(other_files_are_no_images),
        cmocka_unit_test(cut_and_mutated_images_never_crash),
    };
    return cmocka_run_group_tests_name("image", tests, NULL, NULL);
}
