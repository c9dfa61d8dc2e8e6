/*
 * Two blocks of records. A block begins with a head (magic, sequence, CRC), which is programmed last when a
 * block is made, so a block with a head is whole; of two the one with the higher sequence counts. Records
 * follow: a head with kind, length and two CRCs, then the value, each aligned to 16. The newest record of a
 * kind that is whole is its value. Where a record's head is ruined, reading goes on at the next place that
 * looks like one, and nothing is appended to that block any more.
 */
#include "firmware/core/identity.h"

#include "shared/base/le.h"
#include "shared/base/status.h"

#include <stddef.h>
#include <string.h>

enum {
    ALIGN = 16,
    HEAD = 16, /* of a block: magic, sequence, zero, CRC; of a record: magic and kind, n, CRC of value, CRC */
    CERTIFICATE_MAX = 2 * (2 + IDENTITY_DER_MAX),
    NO_BLOCK = 2
};
#define BLOCK_MAGIC 0x44494853u  /* "SHID" */
#define RECORD_MAGIC 0x52444900u /* and the kind in the low byte */

static uint32_t room_of(uint32_t n)
{
    return HEAD + (n + ALIGN - 1) / ALIGN * ALIGN;
}

static uint32_t max_of(enum identity_kind kind)
{
    return kind == IDENTITY_KEY    ? IDENTITY_KEY_MAX
           : kind == IDENTITY_NAME ? IDENTITY_NAME_MAX
                                   : CERTIFICATE_MAX;
}

static uint32_t block_at(const struct identity *identity, uint32_t block)
{
    return identity->first + block * identity->block_bytes;
}

static void put_head(uint8_t head[HEAD], uint32_t a, uint32_t b, uint32_t c)
{
    le_put32(head, a);
    le_put32(head + 4, b);
    le_put32(head + 8, c);
    le_put32(head + 12, flash_crc32(0, head, 12));
}

static bool head_valid(const uint8_t *head)
{
    return le_get32(head + 12) == flash_crc32(0, head, 12);
}

static bool block_valid(const struct identity *identity, uint32_t block, uint32_t *sequence)
{
    const uint8_t *head = identity->flash->base + block_at(identity, block);
    *sequence = le_get32(head + 4);
    return le_get32(head) == BLOCK_MAGIC && head_valid(head);
}

/* ---- reading ---- */

/* A record's kind at an address, 0: there is none. */
static uint32_t record_at(const uint8_t *head, uint32_t room)
{
    uint32_t kind = le_get32(head) ^ RECORD_MAGIC, n = le_get32(head + 4);
    if (kind == 0 || kind >= IDENTITY_KINDS || !head_valid(head) || n > max_of((enum identity_kind)kind) ||
        room_of(n) > room)
        return 0;
    return kind;
}

static void read_block(struct identity *identity)
{
    uint32_t start = block_at(identity, identity->current), at = HEAD;
    const uint8_t *base = identity->flash->base;
    bool ruined = false;
    while (at + HEAD <= identity->block_bytes) {
        const uint8_t *head = base + start + at;
        uint32_t kind = record_at(head, identity->block_bytes - at), n = le_get32(head + 4);
        if (kind == 0) {
            if (flash_blank(identity->flash, start + at, identity->block_bytes - at))
                break;
            ruined = true;
            at += ALIGN;
            continue;
        }
        if (flash_crc32(0, head + HEAD, n) == le_get32(head + 8)) {
            identity->value[kind].at = start + at + HEAD;
            identity->value[kind].n = n;
        }
        at += room_of(n);
    }
    identity->end = ruined ? identity->block_bytes : at;
}

int identity_open(struct identity *identity, const struct board_flash *flash, uint32_t first, uint32_t bytes)
{
    uint32_t sequence[2];
    memset(identity, 0, sizeof *identity);
    identity->flash = flash;
    identity->first = first;
    identity->block_bytes = bytes / 2;
    identity->current = NO_BLOCK;
    if (!flash_valid(flash) || first % flash->erase_bytes != 0 || bytes == 0 ||
        bytes % (2 * flash->erase_bytes) != 0 || first > flash->bytes || bytes > flash->bytes - first ||
        identity->block_bytes <
            HEAD + room_of(IDENTITY_KEY_MAX) + room_of(IDENTITY_NAME_MAX) + room_of(CERTIFICATE_MAX))
        return STATUS_INVALID_ARGUMENT;
    bool valid[2] = {block_valid(identity, 0, &sequence[0]), block_valid(identity, 1, &sequence[1])};
    if (!valid[0] && !valid[1])
        return STATUS_OK;
    identity->current = !valid[0] || (valid[1] && (int32_t)(sequence[1] - sequence[0]) > 0);
    identity->sequence = sequence[identity->current];
    read_block(identity);
    return STATUS_OK;
}

void identity_get(const struct identity *identity, enum identity_kind kind, const uint8_t **bytes,
                  uint32_t *n)
{
    *n = identity->value[kind].n;
    *bytes = *n > 0 ? identity->flash->base + identity->value[kind].at : NULL;
}

/* ---- writing ---- */

/* A value in pieces, so that nobody needs room for the whole of it. */
struct piece {
    const uint8_t *bytes;
    uint32_t n;
};
enum { PIECES = 4 };

static int put_record(const struct board_flash *flash, uint32_t at, uint32_t kind,
                      const struct piece piece[PIECES], uint32_t n)
{
    uint8_t head[HEAD];
    uint32_t crc = 0;
    for (int i = 0; i < PIECES; i++)
        crc = flash_crc32(crc, piece[i].bytes, piece[i].n);
    put_head(head, RECORD_MAGIC ^ kind, n, crc);
    int status = flash_program(flash, at, head, HEAD);
    at += HEAD;
    for (int i = 0; i < PIECES && status == STATUS_OK; i++) {
        status = flash_program(flash, at, piece[i].bytes, piece[i].n);
        at += piece[i].n;
    }
    return status;
}

/* The other block anew, with every value as it shall be; its head last. */
static int make_block(struct identity *identity, uint32_t changed, const struct piece piece[PIECES],
                      uint32_t n)
{
    const struct board_flash *flash = identity->flash;
    struct identity new = *identity;
    uint8_t head[HEAD];
    new.current = identity->current == 0 ? 1 : 0;
    new.sequence = identity->sequence + 1;
    new.end = HEAD;
    uint32_t start = block_at(&new, new.current);
    int status = flash_erase(flash, start, new.block_bytes);
    for (uint32_t kind = 1; status == STATUS_OK && kind < IDENTITY_KINDS; kind++) {
        struct piece whole[PIECES] = {0};
        identity_get(identity, (enum identity_kind)kind, &whole[0].bytes, &whole[0].n);
        uint32_t size = kind == changed ? n : whole[0].n;
        new.value[kind].at = start + new.end + HEAD;
        new.value[kind].n = size;
        if (size == 0)
            continue;
        status = put_record(flash, start + new.end, kind, kind == changed ? piece : whole, size);
        new.end += room_of(size);
    }
    put_head(head, BLOCK_MAGIC, new.sequence, 0);
    if (status == STATUS_OK)
        status = flash_program(flash, start, head, HEAD);
    if (status == STATUS_OK)
        *identity = new;
    return status;
}

static int put(struct identity *identity, uint32_t kind, const struct piece piece[PIECES], uint32_t n)
{
    if (identity->current != NO_BLOCK && room_of(n) <= identity->block_bytes - identity->end) {
        uint32_t at = block_at(identity, identity->current) + identity->end;
        int status = put_record(identity->flash, at, kind, piece, n);
        identity->end += room_of(n);
        if (status == STATUS_OK) {
            identity->value[kind].at = at + HEAD;
            identity->value[kind].n = n;
            return STATUS_OK;
        }
        identity->end = identity->block_bytes; /* no more into this block */
    }
    return make_block(identity, kind, piece, n);
}

int identity_put(struct identity *identity, enum identity_kind kind, const uint8_t *bytes, uint32_t n)
{
    const struct piece piece[PIECES] = {{bytes, n}};
    return n > max_of(kind) ? STATUS_TOO_LARGE : put(identity, (uint32_t)kind, piece, n);
}

int identity_erase(struct identity *identity)
{
    uint32_t last = identity->current == 1 ? 1 : 0;
    int first_status = flash_erase(identity->flash, block_at(identity, 1 - last), identity->block_bytes);
    int status = flash_erase(identity->flash, block_at(identity, last), identity->block_bytes);
    memset(identity->value, 0, sizeof identity->value);
    identity->current = NO_BLOCK;
    return status < 0 ? status : first_status;
}

/* ---- certificate and name ---- */

bool identity_certificate(const struct identity *identity, const uint8_t **certificate,
                          uint32_t *n_certificate, const uint8_t **authority, uint32_t *n_authority)
{
    const uint8_t *bytes;
    uint32_t n;
    identity_get(identity, IDENTITY_CERTIFICATE, &bytes, &n);
    if (n < 4)
        return false;
    *n_certificate = le_get16(bytes);
    if (*n_certificate > n - 4)
        return false;
    *certificate = bytes + 2;
    *n_authority = le_get16(bytes + 2 + *n_certificate);
    *authority = bytes + 4 + *n_certificate;
    return *n_certificate > 0 && *n_authority > 0 && 4 + *n_certificate + *n_authority == n;
}

int identity_put_certificate(struct identity *identity, const uint8_t *certificate, uint32_t n_certificate,
                             const uint8_t *authority, uint32_t n_authority)
{
    uint8_t length[2][2];
    const struct piece piece[PIECES] = {
        {length[0], 2}, {certificate, n_certificate}, {length[1], 2}, {authority, n_authority}};
    if (n_certificate > IDENTITY_DER_MAX || n_authority > IDENTITY_DER_MAX)
        return STATUS_TOO_LARGE;
    le_put16(length[0], (uint16_t)n_certificate);
    le_put16(length[1], (uint16_t)n_authority);
    return put(identity, IDENTITY_CERTIFICATE, piece, 4 + n_certificate + n_authority);
}

void identity_name(const struct identity *identity, char name[IDENTITY_NAME_MAX + 1])
{
    const uint8_t *bytes;
    uint32_t n;
    identity_get(identity, IDENTITY_NAME, &bytes, &n);
    memset(name, 0, IDENTITY_NAME_MAX + 1);
    if (n > 0)
        memcpy(name, bytes, n);
}
