/*
 * What the files of server/emit share while one board's image is made. Not for other modules.
 */
#ifndef SHOAL_SERVER_EMIT_INTERNAL_H
#define SHOAL_SERVER_EMIT_INTERNAL_H

#include "server/emit/build.h"
#include "server/emit/emit.h"

struct emitter {
    const struct plan *plan;
    const struct graph *graph;
    const struct plan_party *party;
    int32_t number;
    struct image image;
    struct plan_slice *slices; /* of the party */
    uint16_t *slice_index;     /* in the image; FRAGMENT_NONE: not yet added */
    int32_t n_slices;
    uint16_t *constants; /* of each tensor: its slice */
    struct error *error;
};

struct fragment_code emit_blank(enum fragment_op op, int32_t layer);
/* The view of a constant tensor, whole. */
uint16_t emit_constant(struct emitter *emitter, int32_t tensor);
/* The slice of an operator that covers output channel c. */
uint16_t emit_weights(struct emitter *emitter, int32_t op, int32_t c, const struct plan_slice **found);
/* Multipliers and biases alone, of all output channels. */
uint16_t emit_scales(struct emitter *emitter, int32_t op);
/* The look-up table of an element-wise operator, or of input `input` of a concatenation. */
uint16_t emit_table(struct emitter *emitter, const struct op *op, int32_t input);
/* Transfer number `index` of the plan's table; `tall`: of a tensor of one row, as of one column. */
uint32_t emit_transfer(struct emitter *emitter, uint32_t index, bool tall);

/* program.c: the instructions of a party that runs a lowered schedule. */
int emit_program(struct emitter *emitter, const struct lowered *lowered);

#endif
