/*
 * K_1 of equation 5 (output KB per million cycles) needs one figure from the board: how long it takes for how
 * many bytes of output. A fixed program, a 3x3 convolution of 16 to 16 channels on a 16x16 map, is built in
 * the idle arena as a fragment like any other and walked three times; the fastest counts, so that one
 * interrupt does not. With the kernels that the board asks weights for: those are what will run.
 */
#include "firmware/core/parts.h"
#include "shared/nn/layout.h"

#include <string.h>

enum {
    SIDE = 16,
    CHANNELS = 16,
    TAPS = 9,
    MAP = SIDE * SIDE * CHANNELS,
    VALUES = CHANNELS * TAPS * CHANNELS,
    WEIGHT_BYTES = VALUES + 3 * 4 * CHANNELS,
    SCRATCH = 8192,
    IMAGE_MAX = 4096,
    TIMES = 3
};

static int no_transfer(void *context, const struct vm_slot *slot)
{
    (void)context;
    (void)slot;
    return STATUS_FRAGMENT_MALFORMED;
}

static int nothing_to_wait_for(void *context, uint32_t rank)
{
    (void)context;
    (void)rank;
    return 1;
}

static void fill_view(struct fragment_view *view, uint16_t tensor, uint32_t offset)
{
    *view = (struct fragment_view){.offset = offset,
                                   .row_stride = SIDE * CHANNELS,
                                   .pixel_stride = CHANNELS,
                                   .tensor = tensor,
                                   .region = FRAGMENT_REGION_ARENA,
                                   .elem = 1,
                                   .rows = SIDE,
                                   .w_cap = SIDE,
                                   .c_cap = CHANNELS,
                                   .h = SIDE,
                                   .w = SIDE,
                                   .c = CHANNELS,
                                   .h0 = FRAGMENT_NONE,
                                   .w0 = FRAGMENT_NONE,
                                   .c0 = FRAGMENT_NONE};
}

static void fill_scratch(struct fragment_writer *w)
{
    w->views[2] = (struct fragment_view){.offset = 2 * MAP,
                                         .row_stride = SCRATCH,
                                         .pixel_stride = SCRATCH,
                                         .tensor = 2,
                                         .region = FRAGMENT_REGION_ARENA,
                                         .elem = 1,
                                         .rows = 1,
                                         .w_cap = 1,
                                         .c_cap = SCRATCH,
                                         .h = 1,
                                         .w = 1,
                                         .c = SCRATCH,
                                         .h0 = FRAGMENT_NONE,
                                         .w0 = FRAGMENT_NONE,
                                         .c0 = FRAGMENT_NONE};
    w->code->scratch = 2;
    w->slices->layout = NN_LAYOUT_PAIRS; /* the values are as good in any order */
}

static void fill_weights(struct fragment_writer *w)
{
    for (uint32_t i = 0; i < VALUES; i++)
        w->weights[i] = (uint8_t)(i * 31 + 7);
    for (uint32_t c = 0; c < CHANNELS; c++) {
        const int32_t mantissa = 1 << 30, shift = -8;
        memcpy(w->weights + VALUES + 4 * c, &mantissa, 4);
        memcpy(w->weights + VALUES + 4 * (CHANNELS + c), &shift, 4);
    }
    *w->slices = (struct fragment_slice){.bytes = VALUES,
                                         .c1 = CHANNELS,
                                         .k1 = CHANNELS,
                                         .k_block = CHANNELS,
                                         .kind = FRAGMENT_SLICE_CONV,
                                         .kernel = TAPS,
                                         .total_bytes = WEIGHT_BYTES,
                                         .resident_offset = UINT32_MAX};
}

static uint32_t arena_for(bool packed)
{
    return 2 * MAP + (packed ? SCRATCH : 0);
}

static int build(uint8_t *bytes, uint32_t room, bool packed, uint32_t *size)
{
    const struct fragment_layout layout = {1, packed ? 3 : 2, 1, 0, 1, 1, WEIGHT_BYTES};
    struct fragment_writer w;
    *size = (uint32_t)fragment_image_bytes(&layout);
    if (*size > room)
        return STATUS_RAM_FULL;
    int status = fragment_write(&w, &layout, bytes, *size);
    if (status < 0)
        return status;
    w.header->party = 1;
    w.header->arena_bytes = w.header->peak_bytes = arena_for(packed);
    w.header->executions = 1;
    *w.ranges = (struct fragment_range){
        .b1 = SIDE, .div = 1, .hi = SIDE, .parent = FRAGMENT_NONE, .loop = FRAGMENT_NO_LOOP};
    fill_view(&w.views[0], 0, 0);
    fill_view(&w.views[1], 1, MAP);
    *w.params = (struct nn_params){.kernel_h = 3,
                                   .kernel_w = 3,
                                   .stride_h = 1,
                                   .stride_w = 1,
                                   .dilation_h = 1,
                                   .dilation_w = 1,
                                   .pad_top = 1,
                                   .pad_left = 1,
                                   .act_lo = -128,
                                   .act_hi = 127};
    *w.code = (struct fragment_code){.op = FRAGMENT_CONV,
                                     .loop = FRAGMENT_NO_LOOP,
                                     .in = {0, FRAGMENT_NONE},
                                     .out = 1,
                                     .scratch = FRAGMENT_NONE,
                                     .layer = FRAGMENT_NONE};
    fill_weights(&w);
    if (packed)
        fill_scratch(&w);
    return STATUS_OK;
}

/* With the board's own room for a check, which need not lie on its stack. */
static int check_bounds(struct board *board, const struct fragment *fragment, struct fragment_place *place)
{
    board->check.active = false;
    int status = vm_check_start(&board->check.state, fragment, fragment->header->arena_bytes, place);
    return status < 0 ? status : vm_check_step(&board->check.state, INT32_MAX, place);
}

int board_calibrate(struct board *board)
{
    struct fragment fragment;
    struct fragment_place place;
    uint32_t size;
    if (board_run_busy(board))
        return STATUS_BUSY;
    if (board->config.arena_bytes < 2 * MAP)
        return STATUS_RAM_FULL;
    bool packed = (board->config.layouts & 1u << NN_LAYOUT_PAIRS) != 0 &&
                  board->config.arena_bytes >= arena_for(true) + IMAGE_MAX;
    uint32_t arena_bytes = arena_for(packed);
    uint8_t *image = board->config.arena + arena_bytes;
    int status = build(image, board->config.arena_bytes - arena_bytes, packed, &size);
    if (status == STATUS_OK)
        status = fragment_open(&fragment, image, size, &place);
    if (status == STATUS_OK)
        status = check_bounds(board, &fragment, &place);
    uint64_t best = UINT64_MAX;
    for (int i = 0; status == STATUS_OK && i < TIMES; i++) {
        struct vm vm;
        uint64_t start = board_now(board);
        vm_start(&vm, &fragment, (struct vm_memory){board->config.arena, arena_bytes, NULL, &board->tables},
                 (struct vm_io){NULL, no_transfer, no_transfer, nothing_to_wait_for});
        do
            status = vm_step(&vm);
        while (status == VM_RAN);
        uint64_t us = board_now(board) - start;
        best = us < best ? us : best;
    }
    if (status < 0)
        return status;
    board->calibrations++;
    board->calibration_bytes = MAP;
    board->calibration_us = best == 0 ? 1 : best > UINT32_MAX ? UINT32_MAX : (uint32_t)best;
    return STATUS_OK;
}
