/* SHA-256 (FIPS 180-4), so that the board's core needs no crypto library. Not for keys: time may depend on
 * data. */
#ifndef SHOAL_FIRMWARE_CORE_SHA256_H
#define SHOAL_FIRMWARE_CORE_SHA256_H

#include "firmware/core/board.h"

void board_sha256_begin(struct board_sha256 *sha);
void board_sha256_add(struct board_sha256 *sha, const uint8_t *bytes, uint32_t n);
void board_sha256_end(struct board_sha256 *sha, uint8_t out[32]);

#endif
