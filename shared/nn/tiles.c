/*
 * Innermost loops over channel pairs: see tiles.h. Registers of the assembly: r0-r3 are the first channel's
 * sums of four pixels, r4-r7 the second's, r8 and r9 weights, r10 and r11 activations, r12 and lr pointers to
 * them; everything else lies on the stack. A load's result is used two multiplications later, and no two
 * loads follow each other, so that each issues beside a multiplication.
 */
#include "shared/nn/tiles.h"

#include <stddef.h>

#if NN_DSP

#pragma GCC diagnostic ignored "-Woverlength-strings"

/* Comments around an inner loop, with its multiply-accumulates, for the model of cycles
 * (tests/firmware/kernels/cycles). */
#define MODEL(name, macs) "@ MODEL " name " " macs "\n"
#define MODEL_END "@ MODEL END\n"

/* Parameters that only the assembly reads. */
#define NN_UNUSED __attribute__((unused))

_Static_assert(offsetof(struct tiles, bias) == 4 && offsetof(struct tiles, loop) == 12 &&
                   offsetof(struct tiles, rest) == 16 && offsetof(struct tiles, x) == 20 &&
                   offsetof(struct tiles, x_end) == 24 && offsetof(struct tiles, y) == 28 &&
                   offsetof(struct tiles, offset) == 32 && offsetof(struct tiles, scale) == 36 &&
                   offsetof(struct tiles, zero_point) == 52 && sizeof(struct tiles) == 56,
               "the assembly below knows these offsets");

/* clang-format off */

/* Two k of four pixels and two channels; LOAD begins a run of them, LAST ends it. */
#define LOAD              \
    "ldr r8, [r12], #4\n" \
    "ldr r10, [lr], #4\n" \
    "ldr r9, [r12], #4\n" \
    "ldr r11, [lr], #4\n"
#define FIRST_SIX             \
    "smlad r0, r10, r8, r0\n" \
    "smlad r4, r10, r9, r4\n" \
    "ldr r10, [lr], #4\n"     \
    "smlad r1, r11, r8, r1\n" \
    "smlad r5, r11, r9, r5\n" \
    "ldr r11, [lr], #4\n"     \
    "smlad r2, r10, r8, r2\n" \
    "smlad r6, r10, r9, r6\n"
#define STEP                  \
    FIRST_SIX                 \
    "ldr r10, [lr], #4\n"     \
    "smlad r3, r11, r8, r3\n" \
    "ldr r8, [r12], #4\n"     \
    "smlad r7, r11, r9, r7\n" \
    "ldr r9, [r12], #4\n"     \
    "ldr r11, [lr], #4\n"
#define LAST                  \
    FIRST_SIX                 \
    "smlad r3, r11, r8, r3\n" \
    "smlad r7, r11, r9, r7\n"

/* On the stack: the struct, then at 56 where a tile begins, at 60 where its rest begins. */
#define TILES_BODY(epilogue)                                                                    \
    "push {r4-r11, lr}\n"                                                                       \
    "sub sp, #68\n"                                                                             \
    "ldmia r0!, {r1-r7}\n"                                                                      \
    "stmia sp, {r1-r7}\n"                                                                       \
    "ldr lr, [sp, #20]\n"                                                                       \
    "add r8, sp, #28\n"                                                                         \
    "ldmia r0!, {r1-r7}\n"                                                                      \
    "stmia r8, {r1-r7}\n"                                                                       \
    "adr r1, 9f\n"                                                                              \
    "ldr r2, [sp, #16]\n"                                                                       \
    "ldr r3, [r1, r2, lsl #2]\n"                                                                \
    "ldr r4, [r1, #16]\n"                                                                       \
    "ldr r5, [sp, #0]\n"                                                                        \
    "ldr r6, [sp, #12]\n"                                                                       \
    "cmp r5, r6\n"                                                                              \
    "it eq\n"                                                                                   \
    "moveq r4, r3\n"                                                                            \
    "strd r4, r3, [sp, #56]\n"                                                                  \
    "0:\n"                                                                                      \
    "ldr r12, [sp, #0]\n"                                                                       \
    "ldrd r0, r4, [sp, #4]\n"                                                                   \
    "mov r1, r0\n"                                                                              \
    "mov r2, r0\n"                                                                              \
    "mov r3, r0\n"                                                                              \
    "mov r5, r4\n"                                                                              \
    "mov r6, r4\n"                                                                              \
    "mov r7, r4\n"                                                                              \
    "ldr pc, [sp, #56]\n"                                                                       \
    "1:\n" MODEL("tiles", "128")                                                                \
    LOAD STEP STEP STEP STEP STEP STEP STEP LAST "ldr r8, [sp, #12]\n"                          \
    "cmp r12, r8\n"                                                                             \
    "bne 1b\n" MODEL_END                                                                        \
    "ldr pc, [sp, #60]\n"                                                                       \
    "2:\n" LOAD STEP LAST "b 5f\n"                                                              \
    "4:\n" LOAD STEP LAST "3:\n" LOAD STEP STEP STEP LAST "5:\n" epilogue "ldr r8, [sp, #24]\n" \
    "cmp lr, r8\n"                                                                              \
    "bne 0b\n"                                                                                  \
    "add sp, #68\n"                                                                             \
    "pop {r4-r11, pc}\n"                                                                        \
    ".balign 4\n"                                                                               \
    "9: .word 5b + 1, 2b + 1, 3b + 1, 4b + 1, 1b + 1\n"

/* Four sums by one channel's multiplier in r8, r9, with r12 the zero point. */
#define SCALE_FOUR(a, b, c, d, m, f)      \
    "smmulr " a ", " a ", " m "\n"        \
    "smmulr " b ", " b ", " m "\n"        \
    "smmulr " c ", " c ", " m "\n"        \
    "add " a ", " a ", " a ", asr #31\n"  \
    "smmulr " d ", " d ", " m "\n"        \
    "add " b ", " b ", " b ", asr #31\n"  \
    "smmlar " a ", " a ", " f ", r12\n"   \
    "add " c ", " c ", " c ", asr #31\n"  \
    "smmlar " b ", " b ", " f ", r12\n"   \
    "add " d ", " d ", " d ", asr #31\n"  \
    "smmlar " c ", " c ", " f ", r12\n"   \
    "ssat " a ", #8, " a "\n"             \
    "smmlar " d ", " d ", " f ", r12\n"   \
    "ssat " b ", #8, " b "\n"             \
    "ssat " c ", #8, " c "\n"             \
    "ssat " d ", #8, " d "\n"

/* r9-r12 become the four pixels' addresses, r8 the offset. */
#define OUTPUTS             \
    "ldr r8, [sp, #28]\n"   \
    "ldmia r8!, {r9-r12}\n" \
    "str r8, [sp, #28]\n"   \
    "ldr r8, [sp, #32]\n"

#define ADD_PIXEL(at, a, b)  \
    "ldr r8, [" at "]\n"     \
    "add " a ", " a ", r8\n" \
    "ldr r8, [" at ", #4]\n" \
    "add " b ", " b ", r8\n" \
    "strd " a ", " b ", [" at "]\n"

NN_ITCM __attribute__((naked)) void tiles_finish(const struct tiles *t NN_UNUSED)
{
    __asm__(TILES_BODY("ldrd r8, r9, [sp, #36]\n"
                       "ldrd r10, r11, [sp, #44]\n"
                       "ldr r12, [sp, #52]\n" SCALE_FOUR("r0", "r1", "r2", "r3", "r8", "r9")
                           SCALE_FOUR("r4", "r5", "r6", "r7", "r10", "r11") OUTPUTS "strb r0, [r9, r8]\n"
                                                                                    "strb r1, [r10, r8]\n"
                                                                                    "strb r2, [r11, r8]\n"
                                                                                    "strb r3, [r12, r8]\n"
                                                                                    "add r8, #1\n"
                                                                                    "strb r4, [r9, r8]\n"
                                                                                    "strb r5, [r10, r8]\n"
                                                                                    "strb r6, [r11, r8]\n"
                                                                                    "strb r7, [r12, r8]\n"));
}

NN_ITCM __attribute__((naked)) void tiles_add(const struct tiles *t NN_UNUSED)
{
    __asm__(TILES_BODY(OUTPUTS "add r9, r8\n"
                               "add r10, r8\n"
                               "add r11, r8\n"
                               "add r12, r8\n" ADD_PIXEL("r9", "r0", "r4") ADD_PIXEL("r10", "r1", "r5")
                                   ADD_PIXEL("r11", "r2", "r6") ADD_PIXEL("r12", "r3", "r7")));
}

NN_ITCM __attribute__((naked)) static void raw(const struct tiles *t NN_UNUSED)
{
    __asm__(TILES_BODY("ldr r8, [sp, #28]\n"
                       "stmia r8!, {r0-r7}\n"
                       "str r8, [sp, #28]\n"));
}

NN_ITCM void tiles_raw(const struct tiles *t, int32_t *sums)
{
    struct tiles to = *t;
    to.y = (void *const *)(void *)sums;
    raw(&to);
}

/* r0 from, r1 groups, r2 to: two groups at a time, then one. */
NN_ITCM __attribute__((naked)) void tiles_unpack(const int8_t *from NN_UNUSED, uint32_t groups NN_UNUSED,
                                                 uint32_t *to NN_UNUSED)
{
    __asm__("push {r4-r11, lr}\n"
            "mov r3, r2\n" /* to */
            "bic r2, r1, #1\n"
            "add r2, r0, r2, lsl #3\n" /* end of the pairs of groups */
            "push {r1, r2}\n"
            "cmp r0, r2\n"
            "beq 2f\n"
            "1:\n"
            "ldmia r0!, {r1, r2, r12, lr}\n"
            "sxtb16 r4, r1\n"
            "sxtb16 r5, r2\n"
            "sxtb16 r6, r1, ror #8\n"
            "sxtb16 r7, r2, ror #8\n"
            "sxtb16 r8, r12\n"
            "sxtb16 r9, lr\n"
            "sxtb16 r10, r12, ror #8\n"
            "sxtb16 r11, lr, ror #8\n"
            "ldr r2, [sp, #4]\n"
            "stmia r3!, {r4-r11}\n"
            "cmp r0, r2\n"
            "bne 1b\n"
            "2:\n"
            "ldr r1, [sp]\n"
            "tst r1, #1\n"
            "beq 3f\n"
            "ldmia r0!, {r1, r2}\n"
            "sxtb16 r4, r1\n"
            "sxtb16 r5, r2\n"
            "sxtb16 r6, r1, ror #8\n"
            "sxtb16 r7, r2, ror #8\n"
            "stmia r3!, {r4-r7}\n"
            "3:\n"
            "add sp, #8\n"
            "pop {r4-r11, pc}\n");
}

_Static_assert(offsetof(struct dw3, x) == 24 && offsetof(struct dw3, x_quads) == 28 &&
                   offsetof(struct dw3, x_row) == 32 && offsetof(struct dw3, mantissa) == 36 &&
                   offsetof(struct dw3, y) == 44 && offsetof(struct dw3, stride) == 48 &&
                   offsetof(struct dw3, rows) == 52 && offsetof(struct dw3, rows_end) == 56 &&
                   offsetof(struct dw3, offset) == 60 && offsetof(struct dw3, zero_point) == 64 &&
                   offsetof(struct dw3, bias) == 68 && offsetof(struct dw3, rest) == 72 &&
                   sizeof(struct dw3) == 76 && DW_ROWS == 32 && DW_PITCH == 128,
               "the assembly below knows these offsets");

/* Depthwise: r0-r3 are four outputs' sums, r4-r9 the weights (k0, k1), (k1, k2) of three rows, r10-r12 words
 * of a row, 512 bytes apart, lr points at the first. On the stack: 0 four times the bias, 16 x of the row to
 * come, 20 x_quads, 24 x_row, 28 mantissa, 32 factor, 36 y, 40 stride, 44 rows, 48 rows_end, 52 offset, 56
 * zero point, 60 end of the row's quads, 64 what comes after them, 68 what a row begins with, 72 rest. */
#define STRIDE1_ROW(a, b, l0, l1, l2)   \
    "smlad r0, r10, " a ", r0\n"        \
    "smlatb r1, r10, " a ", r1\n" l0    \
    "smlabt r0, r11, " b ", r0\n"       \
    "smlad r1, r11, " b ", r1\n"        \
    "smlad r2, r11, " a ", r2\n"        \
    "smlatb r3, r11, " a ", r3\n" l1    \
    "smlabt r2, r12, " b ", r2\n"       \
    "smlad r3, r12, " b ", r3\n" l2
#define STRIDE1_QUAD                    \
    "ldr r10, [lr]\n"                   \
    "ldmia sp, {r0-r3}\n"               \
    "ldr r11, [lr, #512]\n"             \
    "ldr r12, [lr, #1024]\n"            \
    STRIDE1_ROW("r4", "r5", "ldr r10, [lr, #4]\n", "ldr r11, [lr, #516]\n", "ldr r12, [lr, #1028]\n") \
    STRIDE1_ROW("r6", "r7", "ldr r10, [lr, #8]\n", "ldr r11, [lr, #520]\n", "ldr r12, [lr, #1032]\n") \
    STRIDE1_ROW("r8", "r9", "", "ldrd r10, r11, [sp, #28]\n", "ldr r12, [sp, #56]\n")
#define STRIDE1_PAIR_ROW(a, b, l0, l1)  \
    "smlad r0, r10, " a ", r0\n"        \
    "smlatb r1, r10, " a ", r1\n" l0    \
    "smlabt r0, r11, " b ", r0\n"       \
    "smlad r1, r11, " b ", r1\n" l1
#define STRIDE1_PAIR                    \
    "ldr r10, [lr]\n"                   \
    "ldmia sp, {r0-r1}\n"               \
    "ldr r11, [lr, #512]\n"             \
    STRIDE1_PAIR_ROW("r4", "r5", "ldr r10, [lr, #4]\n", "ldr r11, [lr, #516]\n") \
    STRIDE1_PAIR_ROW("r6", "r7", "ldr r10, [lr, #8]\n", "ldr r11, [lr, #520]\n") \
    STRIDE1_PAIR_ROW("r8", "r9", "", "")

#define STRIDE2_ROW(a, b, l0, l1, l2, l3, l4)   \
    "smlad r0, r10, " a ", r0\n" l0     \
    "smlabt r0, r11, " b ", r0\n"       \
    "smlad r1, r11, " a ", r1\n" l1     \
    "smlabt r1, r12, " b ", r1\n"       \
    "smlad r2, r12, " a ", r2\n" l2     \
    "smlabt r2, r10, " b ", r2\n"       \
    "smlad r3, r10, " a ", r3\n" l3     \
    "smlabt r3, r11, " b ", r3\n" l4
#define STRIDE2_QUAD                    \
    "ldr r10, [lr]\n"                   \
    "ldmia sp, {r0-r3}\n"               \
    "ldr r11, [lr, #512]\n"             \
    "ldr r12, [lr, #1024]\n"            \
    STRIDE2_ROW("r4", "r5", "ldr r10, [lr, #1536]\n", "ldr r11, [lr, #2048]\n", "ldr r12, [lr, #1028]\n", \
                "ldr r10, [lr, #4]\n", "ldr r11, [lr, #516]\n")                                           \
    STRIDE2_ROW("r6", "r7", "ldr r10, [lr, #1540]\n", "ldr r11, [lr, #2052]\n", "ldr r12, [lr, #1032]\n", \
                "ldr r10, [lr, #8]\n", "ldr r11, [lr, #520]\n")                                           \
    STRIDE2_ROW("r8", "r9", "ldr r10, [lr, #1544]\n", "ldr r11, [lr, #2056]\n", "ldr r12, [sp, #56]\n", "", "ldrd r10, r11, [sp, #28]\n")
#define STRIDE2_PAIR_ROW(a, b, l0, l1, l2)  \
    "smlad r0, r10, " a ", r0\n" l0     \
    "smlabt r0, r11, " b ", r0\n"       \
    "smlad r1, r11, " a ", r1\n" l1     \
    "smlabt r1, r12, " b ", r1\n" l2
#define STRIDE2_PAIR                    \
    "ldr r10, [lr]\n"                   \
    "ldmia sp, {r0-r1}\n"               \
    "ldr r11, [lr, #512]\n"             \
    "ldr r12, [lr, #1024]\n"            \
    STRIDE2_PAIR_ROW("r4", "r5", "ldr r10, [lr, #4]\n", "ldr r11, [lr, #516]\n", "ldr r12, [lr, #1028]\n") \
    STRIDE2_PAIR_ROW("r6", "r7", "ldr r10, [lr, #8]\n", "ldr r11, [lr, #520]\n", "ldr r12, [lr, #1032]\n") \
    STRIDE2_PAIR_ROW("r8", "r9", "", "", "")

/* The rows have left mantissa, factor and zero point in r10-r12. */
#define SCALE_QUAD                      \
    SCALE_FOUR("r0", "r1", "r2", "r3", "r10", "r11")
#define SCALE_PAIR                      \
    "ldrd r10, r11, [sp, #28]\n"        \
    "ldr r12, [sp, #56]\n"              \
    "smmulr r0, r0, r10\n"              \
    "smmulr r1, r1, r10\n"              \
    "add r0, r0, r0, asr #31\n"         \
    "add r1, r1, r1, asr #31\n"         \
    "smmlar r0, r0, r11, r12\n"         \
    "smmlar r1, r1, r11, r12\n"         \
    "ssat r0, #8, r0\n"                 \
    "ssat r1, #8, r1\n"
#define STORE_THREE                     \
    "ldrd r10, r11, [sp, #36]\n"        \
    "strb r0, [r10]\n"                  \
    "strb r1, [r10, r11]\n"             \
    "add r10, r10, r11, lsl #1\n"       \
    "strb r2, [r10]\n"

#define DW3_BODY(quad, pair, advance)   \
    "push {r4-r11, lr}\n"               \
    "sub sp, #76\n"                     \
    "ldmia r0!, {r4-r9}\n"              \
    "add lr, sp, #16\n"                 \
    "ldmia r0!, {r1-r3, r10-r12}\n"     \
    "stmia lr!, {r1-r3, r10-r12}\n"     \
    "mov r12, r2\n"                     \
    "ldmia r0!, {r1-r3, r10-r11}\n"     \
    "stmia lr!, {r1-r3, r10-r11}\n"     \
    "ldmia r0, {r0, r1}\n"              \
    "mov r2, r0\n"                      \
    "mov r3, r0\n"                      \
    "mov r10, r0\n"                     \
    "str r1, [sp, #72]\n"               \
    "stmia sp, {r0, r2, r3, r10}\n"     \
    "adr r2, 9f\n"                      \
    "ldr r3, [r2, r1, lsl #2]\n"        \
    "ldr r2, [r2, #16]\n"               \
    "cmp r12, #0\n"                     \
    "it eq\n"                           \
    "moveq r2, r3\n"                    \
    "strd r3, r2, [sp, #64]\n"          \
    "0:\n" /* a row */                  \
    "ldr r10, [sp, #44]\n"              \
    "ldrd r12, r0, [sp, #16]\n"         \
    "ldr r11, [sp, #52]\n"              \
    "ldr r1, [r10], #4\n"               \
    "ldr r2, [sp, #24]\n"               \
    "add r0, r12, r0\n"                 \
    "add r1, r1, r11\n"                 \
    "str r10, [sp, #44]\n"              \
    "add r2, r12, r2\n"                 \
    "str r0, [sp, #60]\n"               \
    "mov lr, r12\n"                     \
    "str r2, [sp, #16]\n"               \
    "str r1, [sp, #36]\n"               \
    "ldr pc, [sp, #68]\n"               \
    "1:\n" MODEL("dw3", "36")           \
    quad SCALE_QUAD STORE_THREE         \
    "strb r3, [r10, r11]\n"             \
    "ldr r12, [sp, #60]\n"              \
    "add r10, r10, r11, lsl #1\n"       \
    "add lr, lr, #" advance "\n"        \
    "str r10, [sp, #36]\n"              \
    "cmp lr, r12\n"                     \
    "bne 1b\n" MODEL_END                \
    "ldr pc, [sp, #64]\n"               \
    "2:\n" pair SCALE_PAIR              \
    "ldrd r10, r11, [sp, #36]\n"        \
    "ldr r12, [sp, #72]\n"              \
    "strb r0, [r10]\n"                  \
    "cmp r12, #2\n"                     \
    "it eq\n"                           \
    "strbeq r1, [r10, r11]\n"           \
    "b 4f\n"                            \
    "3:\n" quad SCALE_QUAD STORE_THREE  \
    "4:\n"                              \
    "ldrd r10, r11, [sp, #44]\n"        \
    "cmp r10, r11\n"                    \
    "bne 0b\n"                          \
    "add sp, #76\n"                     \
    "pop {r4-r11, pc}\n"                \
    ".balign 4\n"                       \
    "9: .word 4b + 1, 2b + 1, 2b + 1, 3b + 1, 1b + 1\n"

NN_ITCM __attribute__((naked)) void dw3_stride1(const struct dw3 *d NN_UNUSED)
{
    __asm__(DW3_BODY(STRIDE1_QUAD, STRIDE1_PAIR, "1024"));
}

NN_ITCM __attribute__((naked)) void dw3_stride2(const struct dw3 *d NN_UNUSED)
{
    __asm__(DW3_BODY(STRIDE2_QUAD, STRIDE2_PAIR, "2048"));
}

/* Two rows of two pixels, widened: their planes' words, two rows each. */
#define DW_PACK_STORE(a0, a1, b0, b1, first, second)    \
    "pkhtb lr, " a1 ", " a0 ", asr #16\n"               \
    "pkhbt " a0 ", " a0 ", " a1 ", lsl #16\n"           \
    "pkhtb " a1 ", " b1 ", " b0 ", asr #16\n"           \
    "pkhbt " b0 ", " b0 ", " b1 ", lsl #16\n"           \
    "strd lr, " a1 ", " second "\n"                     \
    "strd " a0 ", " b0 ", " first "\n"
#define DW_PACK_STEP                    \
    "ldr r4, [r0, r2]\n"                \
    "ldr r5, [r0]\n"                    \
    "add r0, r0, r2, lsl #1\n"          \
    "ldr r6, [r1, r2]\n"                \
    "ldr r7, [r1]\n"                    \
    "add r1, r1, r2, lsl #1\n"          \
    "sxtab16 r8, r12, r5, ror #8\n"     \
    "sxtab16 r9, r12, r4, ror #8\n"     \
    "sxtab16 r10, r12, r7, ror #8\n"    \
    "sxtab16 r11, r12, r6, ror #8\n"    \
    "sxtab16 r5, r12, r5\n"             \
    "sxtab16 r4, r12, r4\n"             \
    DW_PACK_STORE("r8", "r9", "r10", "r11", "[r3, #128]", "[r3, #384]") \
    "sxtab16 r7, r12, r7\n"             \
    "sxtab16 r6, r12, r6\n"             \
    DW_PACK_STORE("r5", "r4", "r7", "r6", "[r3], #512", "[r3, #256]")

/* r0 a, r1 b, r2 stride, r3 words; on the stack zero, to. Two steps at a time. */
NN_ITCM __attribute__((naked)) void dw_pack(const uint8_t *a NN_UNUSED, const uint8_t *b NN_UNUSED,
                                            int32_t stride NN_UNUSED, uint32_t words NN_UNUSED,
                                            uint32_t zero NN_UNUSED, uint32_t *to NN_UNUSED)
{
    __asm__("push {r4-r11, lr}\n"
            "ldrd r12, lr, [sp, #36]\n"
            "tst r3, #1\n"
            "add r4, lr, r3, lsl #9\n"
            "mov r3, lr\n"
            "push {r4}\n"
            "bne 2f\n"
            "1:\n"
            DW_PACK_STEP
            "2:\n"
            DW_PACK_STEP
            "ldr lr, [sp]\n"
            "cmp r3, lr\n"
            "bne 1b\n"
            "add sp, #4\n"
            "pop {r4-r11, pc}\n");
}

/* Four k of four channels: r4-r7 are the sums, r8 and r9 activations, r12 and lr where weights and
 * activations go on. */
#define FOURS_STEP                      \
    "ldrd r8, r9, [lr], #8\n"           \
    "ldrd r0, r1, [r12], #8\n"          \
    "ldrd r10, r11, [r12], #8\n"        \
    "smlad r4, r0, r8, r4\n"            \
    "sxtb16 r0, r0\n"                   \
    "smlad r5, r1, r8, r5\n"            \
    "sxtb16 r1, r1\n"                   \
    "smlad r6, r10, r8, r6\n"           \
    "sxtb16 r10, r10\n"                 \
    "smlad r7, r11, r8, r7\n"           \
    "sxtb16 r11, r11\n"                 \
    "smlad r4, r0, r9, r4\n"            \
    "smlad r5, r1, r9, r5\n"            \
    "smlad r6, r10, r9, r6\n"           \
    "smlad r7, r11, r9, r7\n"

/* r0 w, r1 x, r2 x_end, r3 sums. Sums of 256 times: at most 448 + 60 k at a time, that none exceeds 2^31, then
 * what is above the lowest byte goes to the stack. They begin with 255, so that the division rounds up. */
NN_ITCM __attribute__((naked)) void fours_dot(const int8_t *w NN_UNUSED, const uint32_t *x NN_UNUSED,
                                              const uint32_t *x_end NN_UNUSED,
                                              int32_t sums[FOURS_CHANNELS] NN_UNUSED)
{
    __asm__("push {r3-r11, lr}\n"
            "sub sp, #16\n"
            "mov r12, r0\n"
            "mov lr, r1\n"
            "ldmia r3, {r4-r7}\n"
            "stmia sp, {r4-r7}\n"
            "mov r4, #255\n"
            "mov r5, #255\n"
            "mov r6, #255\n"
            "mov r7, #255\n"
            "1:\n"
            "sub r3, r2, lr\n"
            "bic r3, r3, #127\n"
            "cmp r3, #896\n"
            "it hi\n"
            "movhi r3, #896\n"
            "cmp r3, #0\n"
            "beq 3f\n"
            "add r3, r3, lr\n"
            "2:\n" MODEL("fours", "256")
            FOURS_STEP FOURS_STEP FOURS_STEP FOURS_STEP FOURS_STEP FOURS_STEP FOURS_STEP FOURS_STEP
            FOURS_STEP FOURS_STEP FOURS_STEP FOURS_STEP FOURS_STEP FOURS_STEP FOURS_STEP FOURS_STEP
            "cmp lr, r3\n"
            "bne 2b\n" MODEL_END
            "sub r3, r2, lr\n"
            "cmp r3, #128\n"
            "bhs 4f\n"
            "3:\n"
            "cmp lr, r2\n"
            "beq 4f\n"
            FOURS_STEP
            "b 3b\n"
            "4:\n"
            "ldmia sp, {r0, r1, r10, r11}\n"
            "add r0, r0, r4, asr #8\n"
            "add r1, r1, r5, asr #8\n"
            "add r10, r10, r6, asr #8\n"
            "add r11, r11, r7, asr #8\n"
            "uxtb r4, r4\n"
            "uxtb r5, r5\n"
            "uxtb r6, r6\n"
            "uxtb r7, r7\n"
            "stmia sp, {r0, r1, r10, r11}\n"
            "cmp lr, r2\n"
            "bne 1b\n"
            "add sp, #16\n"
            "ldr r3, [sp]\n"
            "stmia r3, {r0, r1, r10, r11}\n"
            "pop {r3-r11, pc}\n");
}

/* clang-format on */

#else

/* The sums of one tile; *x moves on to the next. */
static void tile_sums(const struct tiles *t, const uint32_t **x, int32_t sums[2][TILE_PIXELS])
{
    uint32_t steps = (uint32_t)(t->loop - t->w) / 2 + t->rest * 2;
    for (int c = 0; c < 2; c++)
        for (int i = 0; i < TILE_PIXELS; i++)
            sums[c][i] = t->bias[c];
    for (uint32_t k = 0; k < steps; k++)
        for (int i = 0; i < TILE_PIXELS; i++, (*x)++)
            for (int c = 0; c < 2; c++)
                sums[c][i] = dsp_smlad(**x, t->w[2 * k + (uint32_t)c], sums[c][i]);
}

void tiles_finish(const struct tiles *t)
{
    void *const *y = t->y;
    for (const uint32_t *x = t->x; x != t->x_end; y += TILE_PIXELS) {
        int32_t sums[2][TILE_PIXELS];
        tile_sums(t, &x, sums);
        for (int c = 0; c < 2; c++)
            for (int i = 0; i < TILE_PIXELS; i++) {
                int32_t s = dsp_smmulr(sums[c][i], t->scale[c].mantissa);
                s = dsp_smmlar(s + (s >> 31), t->scale[c].factor, t->zero_point);
                ((int8_t *)y[i])[t->offset + c] = (int8_t)dsp_ssat8(s);
            }
    }
}

void tiles_add(const struct tiles *t)
{
    void *const *y = t->y;
    for (const uint32_t *x = t->x; x != t->x_end; y += TILE_PIXELS) {
        int32_t sums[2][TILE_PIXELS];
        tile_sums(t, &x, sums);
        for (int i = 0; i < TILE_PIXELS; i++) {
            int32_t *at = (int32_t *)(void *)((char *)y[i] + t->offset);
            at[0] = (int32_t)((uint32_t)at[0] + (uint32_t)sums[0][i]);
            at[1] = (int32_t)((uint32_t)at[1] + (uint32_t)sums[1][i]);
        }
    }
}

void tiles_raw(const struct tiles *t, int32_t *sums)
{
    for (const uint32_t *x = t->x; x != t->x_end; sums += 2 * TILE_PIXELS) {
        int32_t two[2][TILE_PIXELS];
        tile_sums(t, &x, two);
        memcpy(sums, two, sizeof two);
    }
}

void tiles_unpack(const int8_t *from, uint32_t groups, uint32_t *to)
{
    for (; groups > 0; groups--, from += 8) {
        uint32_t a = dsp_load(from), b = dsp_load(from + 4);
        *to++ = dsp_add_even(0, a);
        *to++ = dsp_add_even(0, b);
        *to++ = dsp_add_odd(0, a);
        *to++ = dsp_add_odd(0, b);
    }
}

void dw_pack(const uint8_t *a, const uint8_t *b, int32_t stride, uint32_t words, uint32_t zero, uint32_t *to)
{
    for (; words > 0; words--, to += DW_PITCH) {
        for (int r = 0; r < 2; r++) {
            const uint8_t *row = r ? b : a;
            uint32_t p = dsp_load(row), q = dsp_load(row + stride);
            uint32_t x = dsp_add_even(zero, p), y = dsp_add_even(zero, q);
            to[r] = dsp_lows(x, y);
            to[2 * DW_ROWS + r] = dsp_highs(x, y);
            x = dsp_add_odd(zero, p);
            y = dsp_add_odd(zero, q);
            to[DW_ROWS + r] = dsp_lows(x, y);
            to[3 * DW_ROWS + r] = dsp_highs(x, y);
        }
        a += 2 * (ptrdiff_t)stride;
        b += 2 * (ptrdiff_t)stride;
    }
}

/* Outputs [first, first + n) of a row, the words of its input at x. */
static void dw3_outputs(const struct dw3 *d, const uint32_t *x, uint32_t stride, int8_t *y, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        int32_t sum = d->bias;
        for (int r = 0; r < 3; r++) {
            const uint32_t *at = x + i * stride / 2 * DW_PITCH + r;
            uint32_t a = at[0], b = at[DW_PITCH];
            if (i * stride % 2 == 0) {
                sum = dsp_smlad(a, d->w[2 * r], sum);
                sum = dsp_smlad(b & 0xFFFF, d->w[2 * r + 1] >> 16, sum);
            } else {
                sum = dsp_smlad(a >> 16, d->w[2 * r] & 0xFFFF, sum);
                sum = dsp_smlad(b, d->w[2 * r + 1], sum);
            }
        }
        sum = dsp_smmulr(sum, d->mantissa);
        sum = dsp_smmlar(sum + (sum >> 31), d->factor, d->zero_point);
        y[(intptr_t)i * (intptr_t)d->stride] = (int8_t)dsp_ssat8(sum);
    }
}

static void dw3_rows(const struct dw3 *d, uint32_t stride)
{
    const uint32_t *x = d->x;
    uint32_t quads = d->x_quads / (2 * DW_PITCH * 4 * stride);
    for (void *const *row = d->rows; row != d->rows_end; row++, x += d->x_row / 4)
        dw3_outputs(d, x, stride, (int8_t *)*row + d->offset, quads * DW_QUAD + d->rest);
}

void dw3_stride1(const struct dw3 *d)
{
    dw3_rows(d, 1);
}

void dw3_stride2(const struct dw3 *d)
{
    dw3_rows(d, 2);
}

void fours_dot(const int8_t *w, const uint32_t *x, const uint32_t *x_end, int32_t sums[FOURS_CHANNELS])
{
    int64_t high[FOURS_CHANNELS] = {0};
    for (; x != x_end; x += 2)
        for (int c = 0; c < FOURS_CHANNELS; c++, w += 4)
            high[c] += fours_step(dsp_load(w), x);
    for (int c = 0; c < FOURS_CHANNELS; c++)
        sums[c] = (int32_t)((uint32_t)sums[c] + (uint32_t)(uint64_t)((high[c] + 255) >> 8));
}

#endif
