/* How much scratch each kernel's file wants; nn_scratch_*() dispatches here. Private to shared/nn. */
#ifndef SHOAL_SHARED_NN_SCRATCH_H
#define SHOAL_SHARED_NN_SCRATCH_H

#include "shared/nn/layout.h"

uint32_t nn_conv_pairs_scratch_least(const struct nn_work *work);
uint32_t nn_conv_pairs_scratch_most(const struct nn_work *work);
uint32_t nn_depthwise_pairs_scratch_least(const struct nn_work *work);
uint32_t nn_depthwise_pairs_scratch_most(const struct nn_work *work);
uint32_t nn_conv_fours_scratch(const struct nn_work *work);

#endif
