/* Reading of models and goldens from the facts folder; see golden.h. */
#include "tests/support/golden.h"

#include "server/base/file.h"
#include "server/import/tflite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { BYTES_MAX = 64 * 1024 * 1024 };

static const char *facts(void)
{
    const char *folder = getenv("FACTS");
    return folder && *folder ? folder : "../shared";
}

uint8_t *golden_read(const char *name, const char *end, int k, size_t *size)
{
    char path[512];
    uint8_t *bytes;
    snprintf(path, sizeof path, "%s/golden/%s.%s%d.bin", facts(), name, end, k);
    assert_int_equal(file_read(path, BYTES_MAX, &bytes, size, NULL), 0);
    return bytes;
}

struct graph *golden_load(const char *name, const char *what)
{
    char path[512];
    uint8_t *bytes;
    size_t size;
    struct error error;
    snprintf(path, sizeof path, "%s/models/%s.tflite", facts(), name);
    error_clear(&error);
    if (file_read(path, BYTES_MAX, &bytes, &size, NULL) < 0) {
        printf("SKIP %s_of_%s: no %s\n", what, name, path);
        skip();
    }
    struct graph *graph = import_tflite(bytes, size, name, &error);
    free(bytes);
    if (!graph)
        fail_msg("%s: %s", name, error.message);
    return graph;
}
