/*
 * Four rows by sixteen or eight columns stay in registers while the inner dimension passes; what is left over
 * goes one row and one column at a time. AVX2 is taken where it is there; without fused products it gives the
 * same bits.
 */
#include "tools/digits/gemm.h"

#include <stdbool.h>
#include <string.h>

enum { ROWS = 4, LANES = 8, COLUMNS = 2 * LANES };

typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

#if defined(__x86_64__) && defined(__linux__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define CLONES __attribute__((target_clones("avx2", "default"), optimize("O3", "fp-contract=off")))
#else
#define CLONES
#endif

struct product {
    int32_t n, k, a_row, a_step;
    const float *a, *b;
    float *c;
};

CLONES static void wide_block(const struct product *x, int32_t i, int32_t j)
{
    lanes sum[ROWS][2], v0, v1;
    for (int32_t r = 0; r < ROWS; r++)
        memcpy(sum[r], x->c + (int64_t)(i + r) * x->n + j, sizeof sum[r]);
    const float *a = x->a + (int64_t)i * x->a_row, *b = x->b + j;
    for (int32_t p = 0; p < x->k; p++, a += x->a_step, b += x->n) {
        memcpy(&v0, b, sizeof v0);
        memcpy(&v1, b + LANES, sizeof v1);
        for (int32_t r = 0; r < ROWS; r++) {
            float f = a[(int64_t)r * x->a_row];
            sum[r][0] += f * v0;
            sum[r][1] += f * v1;
        }
    }
    for (int32_t r = 0; r < ROWS; r++)
        memcpy(x->c + (int64_t)(i + r) * x->n + j, sum[r], sizeof sum[r]);
}

CLONES static void block(const struct product *x, int32_t i, int32_t j)
{
    lanes sum[ROWS], v;
    for (int32_t r = 0; r < ROWS; r++)
        memcpy(&sum[r], x->c + (int64_t)(i + r) * x->n + j, sizeof sum[r]);
    const float *a = x->a + (int64_t)i * x->a_row, *b = x->b + j;
    for (int32_t p = 0; p < x->k; p++, a += x->a_step, b += x->n) {
        memcpy(&v, b, sizeof v);
        for (int32_t r = 0; r < ROWS; r++)
            sum[r] += a[(int64_t)r * x->a_row] * v;
    }
    for (int32_t r = 0; r < ROWS; r++)
        memcpy(x->c + (int64_t)(i + r) * x->n + j, &sum[r], sizeof sum[r]);
}

static void single(const struct product *x, int32_t i, int32_t j)
{
    float sum = x->c[(int64_t)i * x->n + j];
    for (int32_t p = 0; p < x->k; p++)
        sum += x->a[(int64_t)i * x->a_row + (int64_t)p * x->a_step] * x->b[(int64_t)p * x->n + j];
    x->c[(int64_t)i * x->n + j] = sum;
}

void gemm(int32_t m, int32_t n, int32_t k, const float *a, int32_t a_row, int32_t a_step, const float *b,
          float *c)
{
    struct product x = {n, k, a_row, a_step, a, b, c};
    int32_t rows = m - m % ROWS, columns = n - n % LANES;
    for (int32_t i = 0; i < rows; i += ROWS)
        for (int32_t j = 0; j < columns;) {
            bool wide = j + COLUMNS <= columns;
            (wide ? wide_block : block)(&x, i, j);
            j += wide ? COLUMNS : LANES;
        }
    for (int32_t i = 0; i < m; i++)
        for (int32_t j = i < rows ? columns : 0; j < n; j++)
            single(&x, i, j);
}
