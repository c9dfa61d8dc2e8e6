/* c[m][n] += sum over p < k of a[i * a_row + p * a_step] * b[p * n + j], rows of b and c packed. The sums are
 * in the same order on every machine and no product is fused, so results do not depend on the processor. */
#ifndef SHOAL_TOOLS_DIGITS_GEMM_H
#define SHOAL_TOOLS_DIGITS_GEMM_H

#include <stdint.h>

void gemm(int32_t m, int32_t n, int32_t k, const float *a, int32_t a_row, int32_t a_step, const float *b,
          float *c);

#endif
