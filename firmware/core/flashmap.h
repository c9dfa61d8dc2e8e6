/*
 * What lies where in the flash of a Cortex-M7 board: 7,936 KiB at 0x60000000, of a Teensy 4.1's 8 MB the part
 * that its loader leaves to us; mps2 has the same map. All borders are multiples of 4 KiB, the large ones of
 * 64 KiB.
 *
 *     0x000000  image A       288 KiB  the firmware; its first 8 KiB are the headers of the boot ROM
 *     0x048000  provisioning    4 KiB  written by the loader with the image, only read by the board
 *     0x049000  reserved       28 KiB
 *     0x050000  image B       288 KiB  free, for updates: a second firmware; nothing reads it yet
 *     0x098000  reserved       32 KiB
 *     0x0A0000  identity        8 KiB  two blocks of records (identity.h)
 *     0x0A2000  reserved       56 KiB  erased
 *     0x0B0000  log            64 KiB  two halves of records: which fragments lie where (flash_store.h)
 *     0x0C0000  fragments   7,168 KiB
 *     0x7C0000  the end
 *
 * The Teensy's loader erases the first 512 KiB (older ones: everything) before it writes, and more in steps
 * of 64 KiB when the image's boot data say that it is longer (docs/hardware.md). So the provisioning page,
 * which it writes, lies below that border; identity, log and fragments, which should survive it, lie above.
 */
#ifndef SHOAL_FIRMWARE_CORE_FLASHMAP_H
#define SHOAL_FIRMWARE_CORE_FLASHMAP_H

#define FLASHMAP_BASE 0x60000000u

enum {
    FLASHMAP_BYTES = 0x7C0000,
    FLASHMAP_ERASE_BYTES = 4096,
    FLASHMAP_BLOCK_BYTES = 65536,
    FLASHMAP_PROGRAM_BYTES = 256,

    FLASHMAP_IMAGE_A = 0x000000,
    FLASHMAP_IMAGE_B = 0x050000,
    FLASHMAP_IMAGE_BYTES = 0x48000,
    FLASHMAP_LOADER_ERASES = 0x80000,
    FLASHMAP_PROVISION = 0x048000,
    FLASHMAP_PROVISION_BYTES = 0x1000,
    FLASHMAP_IDENTITY = 0x0A0000,
    FLASHMAP_IDENTITY_BYTES = 0x2000,
    FLASHMAP_LOG = 0x0B0000,
    FLASHMAP_LOG_BYTES = 0x10000,
    FLASHMAP_FRAGMENTS = 0x0C0000,
    FLASHMAP_FRAGMENTS_BYTES = 0x700000
};

_Static_assert(FLASHMAP_IMAGE_A + FLASHMAP_IMAGE_BYTES <= FLASHMAP_PROVISION, "map");
_Static_assert(FLASHMAP_PROVISION + FLASHMAP_PROVISION_BYTES <= FLASHMAP_IMAGE_B, "map");
_Static_assert(FLASHMAP_PROVISION + FLASHMAP_PROVISION_BYTES <= FLASHMAP_LOADER_ERASES, "written anew");
_Static_assert(FLASHMAP_IMAGE_B + FLASHMAP_IMAGE_BYTES <= FLASHMAP_IDENTITY, "map");
_Static_assert(FLASHMAP_IDENTITY >= FLASHMAP_LOADER_ERASES, "survives the loader");
_Static_assert(FLASHMAP_IDENTITY + FLASHMAP_IDENTITY_BYTES <= FLASHMAP_LOG, "map");
_Static_assert(FLASHMAP_LOG + FLASHMAP_LOG_BYTES <= FLASHMAP_FRAGMENTS, "map");
_Static_assert(FLASHMAP_FRAGMENTS + FLASHMAP_FRAGMENTS_BYTES == FLASHMAP_BYTES, "map");
_Static_assert(FLASHMAP_FRAGMENTS % FLASHMAP_BLOCK_BYTES == 0, "fragments are erased in blocks");

#endif
