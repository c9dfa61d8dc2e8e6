/*
 * A stand-in for the boot ROM of an i.MX RT1062, for QEMU's mps2-an500: lies at 0, reads the headers of the
 * image at 0x60000000 as the ROM would, and jumps to its entry. What is wrong goes to the first serial port,
 * and it stops there.
 */
#include <stdint.h>

#define WORD(address) (*(volatile uint32_t *)(address))

static void say(const char *text)
{
    WORD(0x40004010u) = 16;
    WORD(0x40004008u) = 1;
    for (; *text; text++) {
        while (WORD(0x40004004u) & 1)
            ;
        WORD(0x40004000u) = (uint8_t)*text;
    }
}

static void need(int is, const char *what)
{
    if (is)
        return;
    say("rom: ");
    say(what);
    say("\r\n");
    for (;;)
        ;
}

void rom(void);
void rom(void)
{
    need(WORD(0x60000000u) == 0x42464346u, "no flash configuration");
    need(WORD(0x60000004u) >> 24 == 0x56, "flash configuration of another version");
    uint32_t mark = WORD(0x60001000u);
    need((mark & 0xFFFFFFu) == 0x2000D1u && mark >> 24 >= 0x40 && mark >> 24 <= 0x43,
         "no image vector table");
    need(WORD(0x60001014u) == 0x60001000u, "the image vector table is elsewhere");
    uint32_t boot = WORD(0x60001010u);
    need(boot > 0x60001000u && boot < 0x60002000u, "no boot data");
    need(WORD(boot) == 0x60000000u && WORD(boot + 4) <= 0x7C0000u && WORD(boot + 8) == 0, "wrong boot data");
    uint32_t entry = WORD(0x60001004u);
    need(entry & 1 && entry > 0x60002000u && entry < 0x60000000u + WORD(boot + 4),
         "the entry is not in the image");
    say("rom: to the image\r\n");
    ((void (*)(void))entry)();
}

static const struct {
    uint32_t stack;
    void (*reset)(void);
} vectors __attribute__((section(".vectors"), used)) = {0x20002000u, rom};
