/*
 * What the RT1062's boot ROM reads in the first 8 KiB of the flash: how to speak to the flash (FlexSPI's
 * configuration block), where the program begins (image vector table), and how long it is (boot data). The
 * Teensy's own loader looks at the last two as well, to know how much it must erase: the mark of the table
 * has to be 0x432000D1, and the length the image's, not the flash's. scripts/check-image holds all this
 * against the linked image.
 */
#include "firmware/core/flashmap.h"

#include <stddef.h>
#include <stdint.h>

void m7_entry(void);

/* The block as the ROM reads it: the part that all serial flashes have, then that of serial NOR. */
struct flash_configuration {
    uint32_t mark, version, zero0;
    uint8_t sample_clock, hold_time, setup_time, column_bits;
    uint32_t zero1[13];
    uint8_t device_type, pads, clock, custom_table;
    uint32_t zero2[2];
    uint32_t flash_bytes[4]; /* on each chip select */
    uint32_t zero3[8];
    uint32_t sequences[16][4];
    uint32_t zero4[16];
    uint32_t page_bytes, sector_bytes, command_clock, zero5;
    uint32_t block_bytes, zero6[11];
};
_Static_assert(sizeof(struct flash_configuration) == 512, "the ROM's layout");
_Static_assert(offsetof(struct flash_configuration, device_type) == 0x44, "the ROM's layout");
_Static_assert(offsetof(struct flash_configuration, sequences) == 0x80, "the ROM's layout");
_Static_assert(offsetof(struct flash_configuration, page_bytes) == 0x1C0, "the ROM's layout");

enum { SAMPLE_LOOPED_BACK = 1, TYPE_NOR = 1, PADS_4 = 4, CLOCK_133_MHZ = 8, CHIP_BYTES = 0x800000 };
enum { SEQUENCE_READ = 0, SEQUENCE_STATUS = 1, SEQUENCE_ENABLE = 3, SEQUENCE_SECTOR = 5 };
enum { SEQUENCE_BLOCK = 8, SEQUENCE_PAGE = 9, SEQUENCE_CHIP = 11 };

const struct flash_configuration teensy41_flash_configuration
    __attribute__((section(".headers.flash"), used)) = {
        .mark = 0x42464346u, /* "FCFB" */
        .version = 0x56010000u,
        .sample_clock = SAMPLE_LOOPED_BACK,
        .hold_time = 3,
        .setup_time = 3,
        .device_type = TYPE_NOR,
        .pads = PADS_4,
        .clock = CLOCK_133_MHZ,
        .flash_bytes = {CHIP_BYTES},
        .sequences =
            {
                /* Quad read: 0xEB, 24 address bits and mode 0x20 on 4 lines, 4 dummy cycles, data. */
                [SEQUENCE_READ] = {0x0A1804EBu, 0x32041E20u, 0x7C012604u},
                [SEQUENCE_STATUS] = {0x24040405u},
                [SEQUENCE_ENABLE] = {0x00000406u},
                [SEQUENCE_SECTOR] = {0x08180420u},
                [SEQUENCE_BLOCK] = {0x081804D8u},
                [SEQUENCE_PAGE] = {0x08180402u, 0x00002004u},
                [SEQUENCE_CHIP] = {0x00000460u},
            },
        .page_bytes = 256,
        .sector_bytes = 4096,
        .command_clock = 1,
        .block_bytes = 65536,
};

struct boot_data {
    uint32_t start;
    const void *bytes; /* an absolute symbol: a number to the ROM, an address to the compiler */
    uint32_t plugin;
};

struct image_vector_table {
    uint32_t mark;
    void (*entry)(void);
    uint32_t zero;
    const void *device_configuration;
    const struct boot_data *boot_data;
    const struct image_vector_table *self;
    const void *signature;
    uint32_t zero1;
};

extern const uint8_t __image_bytes[];

const struct boot_data teensy41_boot_data
    __attribute__((section(".headers.boot"), used)) = {FLASHMAP_BASE, __image_bytes, 0};

const struct image_vector_table teensy41_image_vectors __attribute__((section(".headers.ivt"), used)) = {
    .mark = 0x432000D1u,
    .entry = m7_entry,
    .boot_data = &teensy41_boot_data,
    .self = &teensy41_image_vectors,
};
