/* A firmware image in any of the forms that builds leave behind, as bytes at addresses. Pure; any thread. */
#ifndef SHOAL_SERVER_PROVISION_IMAGE_H
#define SHOAL_SERVER_PROVISION_IMAGE_H

#include "server/provision/ihex.h"

/* Intel HEX, an ELF file for 32-bit ARM (what its segments load, at their physical addresses), or else plain
 * bytes from the start of the flash on; told apart by how they begin. A provisioning page of an earlier time
 * is left out. STATUS_INVALID_ARGUMENT: not well formed, or a byte lies outside of where the firmware may lie
 * (flashmap.h); STATUS_CONFLICT, STATUS_NO_MEMORY. */
int image_read(struct ihex *image, const uint8_t *bytes, size_t n, struct error *error);

#endif
