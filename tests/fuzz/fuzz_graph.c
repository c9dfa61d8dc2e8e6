/*
 * Byte forms of graphs from a stranger: refused with a status and a message, or a graph that every function
 * of the operator table can be asked about, that the reference executor runs, and whose byte form reads back
 * the same.
 */
#include "server/model/optable.h"
#include "server/model/reference.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/random_graph.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Runs graphs that are small enough to be quick. */
static void run(const struct graph *graph)
{
    int64_t work = 0;
    for (int32_t o = 0; o < graph->n_ops; o++) {
        const struct op *op = &graph->ops[o];
        const struct op_row *row = op_row(op->kind);
        struct box whole = box_whole(graph->tensors[op->output].shape);
        work += row->macs(graph, op, whole) + box_elements(whole) * (1 + op->kernel_h * op->kernel_w);
        for (int32_t i = 0; i < op->n_inputs; i++) {
            struct shape in = graph->tensors[op->inputs[i]].shape;
            assert(box_contains(box_whole(in), row->need(graph, op, i, whole)));
            work += shape_elements(in);
        }
    }
    if (work < 0 || work > 2000000)
        return;
    size_t in_size, out_size = graph_output_bytes(graph);
    void *in = random_input(graph, 1, &in_size), *out = malloc(out_size);
    assert(out);
    assert(reference_run(graph, in, in_size, out, out_size, NULL) == STATUS_OK);
    free(in);
    free(out);
}

void fuzz_one(const uint8_t *bytes, size_t size)
{
    struct error error;
    error_clear(&error);
    struct graph *graph = graph_read(bytes, size, &error);
    assert((graph == NULL) == (error.status < 0));
    if (!graph) {
        assert(error.message[0] && error.status != STATUS_INTERNAL);
        return;
    }
    unsigned char *form = NULL, *second = NULL;
    size_t form_size = 0, second_size = 0;
    assert(graph_write(graph, &form, &form_size, NULL) == STATUS_OK);
    struct graph *again = graph_read(form, form_size, &error);
    assert(again && graph_write(again, &second, &second_size, NULL) == STATUS_OK);
    assert(form_size == second_size && memcmp(form, second, form_size) == 0);
    run(graph);
    free(form);
    free(second);
    graph_free(again);
    graph_free(graph);
}

size_t fuzz_seed(unsigned i, uint8_t *out, size_t room)
{
    if (i >= 16)
        return 0;
    const struct random_graph_options options = {.ops = 1 + (int32_t)i % 6, .max_side = 6, .max_channels = 8};
    struct graph *graph = random_graph(i, &options);
    unsigned char *form = NULL;
    size_t size = 0;
    if (graph_write(graph, &form, &size, NULL) != STATUS_OK || size > room)
        size = 0;
    memcpy(out, form, size);
    free(form);
    graph_free(graph);
    return size;
}
