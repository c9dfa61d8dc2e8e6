/*
 * Random bytes from the RT1062's true random number generator, for mbedTLS's entropy source. The generator
 * tests its own samples (runs, bias, poker, frequency) and says so when one fails.
 */
#ifndef SHOAL_FIRMWARE_PORT_TEENSY41_TRNG_H
#define SHOAL_FIRMWARE_PORT_TEENSY41_TRNG_H

#include <stdint.h>

/* Both return NULL, or static text that names what failed; then the bytes must not be used. */
const char *trng_start(void);
/* About 55 ms for each 64 bytes: a full set of 2,500 samples every time. Bytes are never given out twice. */
const char *trng_read(uint8_t *bytes, uint32_t n);

#endif
