/* PNG and JPEG files for tests, from RGB pixels. */
#ifndef SHOAL_TESTS_SUPPORT_IMAGE_FILE_H
#define SHOAL_TESTS_SUPPORT_IMAGE_FILE_H

#include "server/base/bytes.h"

/* out->data is malloc'ed, the caller's to bytes_free. `channels` 1, 3 or 4; JPEG ignores the fourth. */
void image_file_png(const unsigned char *pixels, int width, int height, int channels, struct bytes *out);
void image_file_jpeg(const unsigned char *pixels, int width, int height, int channels, int quality,
                     struct bytes *out);

#endif
