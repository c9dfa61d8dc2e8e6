/*
 * The generator samples a free ring oscillator, 3,200 bus cycles a sample, 2,500 samples a set of 512 bits.
 *
 * The ROM leaves 128 bits of its own making in the registers: the first set is thrown away. Reading the last
 * word starts the next set, and one more read of any word is needed before the valid flag can be believed.
 */
#include "firmware/port/teensy41/trng.h"

#include "firmware/port/teensy41/reg.h"
#include "firmware/port/teensy41/rt1062.h"

#include <stddef.h>

enum { SET_US = 500000, TRIES = 3, ENTROPY_DELAY = 3200, SAMPLES = 2500 };

/* Largest value and range of each statistic over 2,500 raw samples. */
static const struct {
    uint32_t address, value;
} limits[] = {
    {TRNG_SCML, (268u << 16) | 1384u},
    {TRNG_SCRL(1), (178u << 16) | 405u},
    {TRNG_SCRL(2), (122u << 16) | 220u},
    {TRNG_SCRL(3), (88u << 16) | 125u},
    {TRNG_SCRL(4), (64u << 16) | 75u},
    {TRNG_SCRL(5), (46u << 16) | 47u},
    {TRNG_SCRL(6), (46u << 16) | 47u},
    {TRNG_PKRMAX, 26912u},
    {TRNG_PKRRNG, 2467u},
    {TRNG_FRQMAX, 25600u},
    {TRNG_FRQMIN, 1600u},
    {TRNG_SBLIM, 63u},
    {TRNG_SCMISC, (1u << 16) | 34u}, /* one retry; longest run */
    {TRNG_SDCTL, ((uint32_t)ENTROPY_DELAY << 16) | SAMPLES},
};

/* Waits for a set. A set that fails the generator's own tests is tried again. */
static const char *wait_for_set(void)
{
    for (int i = 0; i < TRIES; i++) {
        uint32_t start = reg_cycles();
        for (uint32_t looks = 0; looks < SET_US * (REG_CYCLES_PER_US / REG_LOOK_CYCLES); looks++) {
            uint32_t state = reg_read(TRNG_MCTL);
            if (state & MCTL_ERR)
                break;
            if (state & MCTL_ENT_VAL)
                return NULL;
            if (reg_cycles() - start >= SET_US * REG_CYCLES_PER_US)
                return "random number generator gives no set within 0.5 s";
        }
        if (!(reg_read(TRNG_MCTL) & MCTL_ERR))
            return "random number generator gives no set within 0.5 s";
        reg_set(TRNG_MCTL, MCTL_ERR); /* a one clears it; the next set begins */
    }
    return "random number generator fails its own tests";
}

static void take_set(uint32_t words[TRNG_ENT_WORDS])
{
    for (uint32_t i = 0; i < TRNG_ENT_WORDS; i++)
        words[i] = reg_read(TRNG_ENT(i));
    (void)reg_read(TRNG_ENT(0));
}

const char *trng_start(void)
{
    uint32_t thrown_away[TRNG_ENT_WORDS];
    reg_set(CCM_CCGR(6), CCGR6_TRNG);
    reg_write(TRNG_MCTL, MCTL_PRGM | MCTL_RST_DEF | MCTL_ERR);
    for (unsigned i = 0; i < sizeof limits / sizeof *limits; i++)
        reg_write(limits[i].address, limits[i].value);
    reg_write(TRNG_MCTL, MCTL_PRGM | MCTL_SAMP_RAW);
    reg_write(TRNG_MCTL, MCTL_TRNG_ACC | MCTL_SAMP_RAW);
    take_set(thrown_away); /* whatever the ROM left */
    const char *failed = wait_for_set();
    if (!failed)
        take_set(thrown_away);
    return failed;
}

const char *trng_read(uint8_t *bytes, uint32_t n)
{
    uint32_t words[TRNG_ENT_WORDS], at = 0;
    while (at < n) {
        const char *failed = wait_for_set();
        if (failed)
            return failed;
        take_set(words);
        uint32_t same = 0;
        for (uint32_t i = 0; i < TRNG_ENT_WORDS; i++)
            same += words[i] == words[0];
        if (same == TRNG_ENT_WORDS)
            return "random number generator gives one word again and again";
        for (uint32_t i = 0; i < sizeof words && at < n; i++)
            bytes[at++] = (uint8_t)(words[i / 4] >> 8 * (i % 4));
    }
    return NULL;
}
