/*
 * The import child's side for images. The header is read first and its claims are checked before anything is
 * decoded, so that memory follows the limits, not the file.
 */
#include "server/import/child.h"

#include "server/import/import.h"
#include "server/import/stb.h"
#include "shared/base/le.h"

#include <stdlib.h>
#include <string.h>

static int check_claims(int width, int height, struct error *error)
{
    if (width < 1 || height < 1)
        return error_set(error, STATUS_IMAGE_MALFORMED, "the image claims to be %d x %d", width, height);
    int64_t pixels = (int64_t)width * height;
    bool sides = width > IMPORT_IMAGE_SIDE_MAX || height > IMPORT_IMAGE_SIDE_MAX;
    if (!sides && pixels <= IMPORT_IMAGE_PIXELS_MAX)
        return 0;
    int status = error_set(error, STATUS_TOO_LARGE, "the image is %d x %d; sides may have %d pixels", width,
                           height, IMPORT_IMAGE_SIDE_MAX);
    error_limit(error, IMPORT_IMAGE_SIDE_MAX, width > height ? width : height);
    return status;
}

/* stb knows no reason for some damage. */
static const char *reason(void)
{
    const char *text = stbi_failure_reason();
    return text && *text ? text : "the file is damaged";
}

int import_child_image(const unsigned char *input, size_t size, const char *unused, unsigned char **answer,
                       size_t *answer_size, struct error *error)
{
    int width = 0, height = 0, channels = 0;
    (void)unused;
    if (size < 8 || size > IMPORT_IMAGE_BYTES_MAX)
        return error_set(error, STATUS_IMAGE_MALFORMED, "%zu bytes are no image", size);
    if (memcmp(input, "\x89PNG", 4) != 0 && memcmp(input, "\xff\xd8\xff", 3) != 0)
        return error_set(error, STATUS_IMAGE_MALFORMED, "the file is neither PNG nor JPEG");
    if (!stbi_info_from_memory(input, (int)size, &width, &height, &channels))
        return error_set(error, STATUS_IMAGE_MALFORMED, "the image's header cannot be read: %s", reason());
    int status = check_claims(width, height, error);
    if (status)
        return status;
    unsigned char *rgb = stbi_load_from_memory(input, (int)size, &width, &height, &channels, 3);
    if (!rgb)
        return error_set(error, STATUS_IMAGE_MALFORMED, "the image cannot be decoded: %s", reason());
    size_t bytes = (size_t)width * (size_t)height * 3;
    *answer = malloc(IMAGE_HEADER_BYTES + bytes);
    if (*answer) {
        le_put32(*answer, (uint32_t)width);
        le_put32(*answer + 4, (uint32_t)height);
        memcpy(*answer + IMAGE_HEADER_BYTES, rgb, bytes);
        *answer_size = IMAGE_HEADER_BYTES + bytes;
    }
    stbi_image_free(rgb);
    return *answer ? 0 : error_set(error, STATUS_NO_MEMORY, "no memory for the image");
}
