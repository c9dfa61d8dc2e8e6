/*
 * The smallest fragment that does something: receive a box of int8, look each value up in a table, send the
 * result. With filler slices, so that pushes have weights to move and to share.
 */
#ifndef SHOAL_TESTS_SUPPORT_TINY_FRAGMENT_H
#define SHOAL_TESTS_SUPPORT_TINY_FRAGMENT_H

#include "shared/fragment/fragment.h"

enum { TINY_FILLERS_MAX = 8 };

struct tiny_fragment {
    uint16_t party;
    uint16_t h, w, c; /* of the tensor, which is received and sent whole */
    uint8_t add;      /* the table adds this, modulo 256 */
    bool by_rows;     /* in a LOOP: receive a row, look it up, send it; else everything at once */
    uint32_t fillers; /* constant slices */
    struct {
        uint32_t bytes;
        uint8_t seed; /* their content; the same seed and bytes, the same content */
    } filler[TINY_FILLERS_MAX];
    uint32_t resident_bytes; /* the table is resident when this is at least 256 */
    /* filled in by tiny_fragment_make */
    uint8_t *bytes; /* aligned to 16, freed by tiny_fragment_free */
    uint32_t size;
    uint8_t hash[32];
};

/* Transfer 0 (rank 1) comes down, transfer 1 (rank 2) goes up; the table is slice 0. */
void tiny_fragment_make(struct tiny_fragment *tiny);
void tiny_fragment_free(struct tiny_fragment *tiny);

#endif
