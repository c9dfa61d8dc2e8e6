/*
 * Model files from a stranger. What is refused is refused with a reason; what is accepted survives its own
 * byte form, and every operator of it has its tensors.
 */
#include "server/import/tflite.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/import_seed.h"
#include "tests/support/random_graph.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void fuzz_one(const uint8_t *bytes, size_t size)
{
    struct error error;
    error_clear(&error);
    struct graph *graph = import_tflite(bytes, size, "fuzz", &error);
    if (!graph) {
        assert(error.status != STATUS_OK && error.message[0]);
        return;
    }
    unsigned char *form = NULL;
    size_t form_size = 0;
    if (graph_write(graph, &form, &form_size, &error) == 0) {
        struct graph *again = graph_read(form, form_size, &error);
        assert(again && again->n_ops == graph->n_ops && again->n_tensors == graph->n_tensors);
        graph_free(again);
    }
    for (int32_t i = 0; i < graph->n_ops; i++)
        assert(graph->ops[i].name && graph->ops[i].output >= 0 && graph->ops[i].output < graph->n_tensors);
    free(form);
    graph_free(graph);
}

/* The small model, as uint8, and random graphs that the format can express. */
static const char *seed_file(unsigned i, struct bytes *out)
{
    struct random_graph_options small = {.ops = 4, .max_side = 6, .max_channels = 8};
    if (i < 2) {
        struct tw_model model = import_small_model(i == 1);
        tw_encode(&model, out);
        tw_free(&model);
        return NULL;
    }
    struct graph *graph = random_graph(i, &small);
    import_make_writable(graph, false);
    const char *reason = tflite_write(graph, NULL, out);
    graph_free(graph);
    return reason;
}

size_t fuzz_seed(unsigned i, uint8_t *out, size_t room)
{
    struct bytes file;
    if (i >= 24)
        return 0;
    if (seed_file(i, &file))
        return fuzz_seed(0, out, room);
    size_t size = file.size <= room ? file.size : 0;
    if (size)
        memcpy(out, file.data, size);
    bytes_free(&file);
    return size;
}
