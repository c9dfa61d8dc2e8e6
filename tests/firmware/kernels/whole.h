/* What the host hands to the image that runs a whole network: this, transfers, the fragment, their bytes. */
#ifndef SHOAL_TESTS_FIRMWARE_KERNELS_WHOLE_H
#define SHOAL_TESTS_FIRMWARE_KERNELS_WHOLE_H

#include <stdint.h>

enum { WHOLE_MAGIC = 0x4C4F4857, WHOLE_ADDRESS = 0x60800000, WHOLE_ALIGN = 16 };

/* Offsets from the header; the bytes of a transfer as they travel: of one to the board what it gets, of one
 * from it what it must say. */
struct whole_transfer {
    uint32_t offset, bytes;
};

struct whole {
    uint32_t magic, fragment, fragment_bytes, n_transfers;
};

#endif
