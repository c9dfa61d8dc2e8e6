/* Parameters and tables of an operator as the kernels take them. Not for other modules. */
#ifndef SHOAL_SERVER_EMIT_PARAMS_H
#define SHOAL_SERVER_EMIT_PARAMS_H

#include "server/model/graph.h"
#include "shared/nn/nn.h"

/* For the task of input `input` of a concatenation, 0 otherwise. */
struct nn_params params_of(const struct graph *graph, const struct op *op, int32_t input);
/* The multiplier of output channel c: input scale * weight scale / output scale. */
struct quant_multiplier params_channel(const struct graph *graph, const struct op *op, int32_t c);
/* The 256-entry table of an element-wise operator, or of an input of a concatenation of another scale. */
void params_table(const struct graph *graph, const struct op *op, int32_t input, int8_t table[256]);

#endif
