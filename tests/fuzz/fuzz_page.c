/*
 * What a board reads from its flash at the start, as any bytes: the provisioning page (the first byte of the
 * input says that its hash is made right) and the identity's records; and Intel HEX as `shoal board
 * provision` reads it. What is taken comes back the same.
 */
#include "firmware/core/identity.h"
#include "firmware/core/provision.h"
#include "firmware/core/sha256.h"
#include "server/provision/image.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/nor_flash.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE, IDENTITY, HEX, KINDS };

static void try_page(const uint8_t *bytes, size_t size)
{
    uint8_t page[PROVISION_BYTES] = {0}, again[PROVISION_BYTES];
    struct provision p;
    const char *what = NULL;
    memcpy(page, bytes, size < sizeof page ? size : sizeof page);
    if (size % 2 == 0) {
        struct board_sha256 sha;
        board_sha256_begin(&sha);
        board_sha256_add(&sha, page, PROVISION_BYTES - 32);
        board_sha256_end(&sha, page + PROVISION_BYTES - 32);
    }
    int status = provision_decode(page, &p, &what);
    assert(status == 0 || what != NULL);
    if (status == 0)
        assert(provision_encode(&p, again, NULL) == 0 && provision_decode(again, &p, NULL) == 0);
}

static void try_identity(const uint8_t *bytes, size_t size)
{
    struct nor_flash nor;
    struct identity identity;
    const uint8_t *value, *authority;
    uint32_t n, n_authority;
    char name[IDENTITY_NAME_MAX + 1];
    nor_flash_new(&nor, 8192, 4096, 0);
    memcpy(nor.bytes, bytes, size < 8192 ? size : 8192);
    assert(identity_open(&identity, &nor.flash, 0, 8192) == 0);
    identity_name(&identity, name);
    if (identity_certificate(&identity, &value, &n, &authority, &n_authority))
        assert(value >= nor.bytes && authority + n_authority <= nor.bytes + 8192);
    assert(identity_put(&identity, IDENTITY_NAME, (const uint8_t *)"kept", 4) == 0);
    assert(identity_open(&identity, &nor.flash, 0, 8192) == 0);
    identity_name(&identity, name);
    assert(strcmp(name, "kept") == 0);
    nor_flash_free(&nor);
}

static void try_hex(const uint8_t *bytes, size_t size)
{
    struct ihex one = {0}, two = {0};
    struct error error;
    char *text;
    size_t n;
    error_clear(&error);
    if (image_read(&one, bytes, size, &error) == 0) {
        assert(ihex_format(&one, &text, &n, &error) == 0);
        assert(ihex_parse(&two, text, n, &error) == 0);
        assert(ihex_bytes(&one) == ihex_bytes(&two) && one.start == two.start);
        free(text);
    } else {
        assert(error.message[0] != 0);
    }
    ihex_free(&one);
    ihex_free(&two);
}

void fuzz_one(const uint8_t *bytes, size_t size)
{
    static void (*const tries[KINDS])(const uint8_t *, size_t) = {try_page, try_identity, try_hex};
    if (size > 0)
        tries[bytes[0] % KINDS](bytes + 1, size - 1);
}

static size_t seed_page(uint8_t *out, bool is_static)
{
    struct provision p = {.name = "desk",
                          .servers = {{"192.0.2.9", 8443}, {"192.0.2.10", 443}},
                          .n_servers = is_static ? 2 : 1,
                          .code = "ABCDEF",
                          .trust = {1},
                          .is_static = is_static};
    if (is_static) {
        memcpy(p.address, (const uint8_t[]){192, 0, 2, 7}, 4);
        memcpy(p.mask, (const uint8_t[]){255, 255, 255, 0}, 4);
    }
    assert(provision_encode(&p, out, NULL) == 0);
    return PROVISION_BYTES;
}

static size_t seed_identity(uint8_t *out, int changes)
{
    static uint8_t value[700];
    struct nor_flash nor;
    struct identity identity;
    nor_flash_new(&nor, 8192, 4096, 0);
    assert(identity_open(&identity, &nor.flash, 0, 8192) == 0);
    assert(identity_put(&identity, IDENTITY_KEY, value, 121) == 0);
    for (int i = 0; i < changes; i++) {
        assert(identity_put_certificate(&identity, value, 500, value, 480) == 0);
        assert(identity_put(&identity, IDENTITY_NAME, value, 9) == 0);
    }
    memcpy(out, nor.bytes, 8192);
    nor_flash_free(&nor);
    return 8192;
}

static size_t seed_hex(uint8_t *out)
{
    static const char text[] = ":020000046000"
                               "9A\n:0100100055"
                               "9A\n:0400000560002001"
                               "76\n:00000001FF\n";
    memcpy(out, text, sizeof text - 1);
    return sizeof text - 1;
}

/* An ELF file with one segment. */
static size_t seed_elf(uint8_t *out)
{
    memset(out, 0, 84);
    memcpy(out,
           "\x7F"
           "ELF\1\1\1",
           7);
    out[18] = 40;
    out[28] = 52;
    out[42] = 32;
    out[44] = out[52] = 1;
    out[56] = 84;
    out[67] = 0x60;
    out[68] = 8;
    memcpy(out + 84, "segment!", 8);
    return 92;
}

size_t fuzz_seed(unsigned i, uint8_t *out, size_t room)
{
    if (i >= 6 || room < 8193)
        return 0;
    out[0] = (uint8_t)(i % KINDS);
    switch (i % KINDS) {
    case PAGE:
        return 1 + seed_page(out + 1, i >= KINDS);
    case IDENTITY:
        return 1 + seed_identity(out + 1, i >= KINDS ? 7 : 1);
    default:
        return 1 + (i >= KINDS ? seed_elf(out + 1) : seed_hex(out + 1));
    }
}
