/* Scores are the dequantised values of the first output, in an order that never depends on the sort. */
#include "server/models/scores.h"

#include <stdlib.h>
#include <string.h>

static int higher_first(const void *a, const void *b)
{
    const struct score *p = a, *q = b;
    if (p->value != q->value)
        return p->value < q->value ? 1 : -1;
    return p->index < q->index ? -1 : p->index > q->index;
}

static float real_value(const struct tensor *tensor, const unsigned char *data, int64_t i)
{
    int32_t number;
    float real;
    switch (tensor->dtype) {
    case DTYPE_INT8:
        return tensor->quant.scale * (float)((int8_t)data[i] - tensor->quant.zero_point);
    case DTYPE_UINT8:
        return tensor->quant.scale * (float)(data[i] - tensor->quant.zero_point);
    case DTYPE_INT32:
        memcpy(&number, data + i * 4, 4);
        return (float)number;
    default:
        memcpy(&real, data + i * 4, 4);
        return real;
    }
}

int64_t scores_count(const struct graph *graph)
{
    return shape_elements(graph->tensors[graph->outputs[0]].shape);
}

struct score *scores_make(const struct graph *graph, const void *output)
{
    const struct tensor *tensor = &graph->tensors[graph->outputs[0]];
    int64_t n = scores_count(graph);
    struct score *scores = calloc((size_t)n, sizeof *scores);
    if (!scores)
        return NULL;
    for (int64_t i = 0; i < n; i++)
        scores[i] = (struct score){i, real_value(tensor, output, i)};
    qsort(scores, (size_t)n, sizeof *scores, higher_first);
    return scores;
}
