/* stb_image_write's code, compiled here only; it is not written to our warnings, so they are off. */
#include "tests/support/image_file.h"

#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wunused-function"

#define STBI_WRITE_NO_STDIO
#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb/stb_image_write.h>

static void append(void *to, void *data, int size)
{
    bytes_append(to, data, (size_t)size);
}

void image_file_png(const unsigned char *pixels, int width, int height, int channels, struct bytes *out)
{
    bytes_init(out, (size_t)1 << 30);
    (void)stbi_write_png_to_func(append, out, width, height, channels, pixels, width * channels);
}

void image_file_jpeg(const unsigned char *pixels, int width, int height, int channels, int quality,
                     struct bytes *out)
{
    bytes_init(out, (size_t)1 << 30);
    (void)stbi_write_jpg_to_func(append, out, width, height, channels, pixels, quality);
}
