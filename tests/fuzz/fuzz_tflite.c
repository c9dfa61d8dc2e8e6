/* Model files from a stranger: refused with a status and a message, or a graph whose byte form reads back. */
#include "server/import/tflite.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/random_graph.h"
#include "tests/support/tflite_write.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void fuzz_one(const uint8_t *bytes, size_t size)
{
    struct error error;
    error_clear(&error);
    struct graph *graph = import_tflite(bytes, size, "fuzz", &error);
    assert((graph == NULL) == (error.status < 0));
    if (!graph) {
        assert(error.message[0] && error.status != STATUS_INTERNAL);
        return;
    }
    unsigned char *form = NULL;
    size_t form_size = 0;
    if (graph_write(graph, &form, &form_size, &error) == STATUS_OK) {
        struct graph *again = graph_read(form, form_size, &error);
        assert(again);
        graph_free(again);
    }
    free(form);
    graph_free(graph);
}

size_t fuzz_seed(unsigned i, uint8_t *out, size_t room)
{
    size_t size = 0;
    for (uint64_t seed = i * 16; i < 48 && size == 0; seed++) {
        const struct random_graph_options options = {
            .ops = 1 + (int32_t)i % 6, .max_side = 6, .max_channels = 8};
        struct graph *graph = random_graph(seed, &options);
        struct bytes file;
        /* Not every graph can be said in a file; then the next one. */
        if (!tflite_write(graph, NULL, &file)) {
            if (file.status == STATUS_OK && file.size <= room) {
                size = file.size;
                memcpy(out, file.data, size);
            }
            bytes_free(&file);
        }
        graph_free(graph);
    }
    return size;
}
