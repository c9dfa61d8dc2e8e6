/*
 * Who a board is: its private key (made on the board, never leaves it), its certificate with the authority
 * that gave it, and its name. Kept as append-only records in two erase blocks: a change is one record, or,
 * when the block is full, a fresh block that becomes valid with its last bytes. Whatever instant the power
 * goes at, the next start finds the former value or the new one, never half of one.
 *
 * The values that the functions give lie in the mapped flash and stay valid until the next put or erase. The
 * key lies in the clear: whoever can read the flash has it (a Teensy has no other place). One thread.
 */
#ifndef SHOAL_FIRMWARE_CORE_IDENTITY_H
#define SHOAL_FIRMWARE_CORE_IDENTITY_H

#include "firmware/core/flash.h"

enum identity_kind {
    IDENTITY_KEY = 1,     /* DER of the private key (SEC 1), at most 256 bytes */
    IDENTITY_CERTIFICATE, /* u16 length and DER of the certificate, u16 length and DER of its authority */
    IDENTITY_NAME,        /* as the server last said it, without a NUL, at most 63 bytes */
    IDENTITY_KINDS
};

enum { IDENTITY_KEY_MAX = 256, IDENTITY_DER_MAX = 1400, IDENTITY_NAME_MAX = 63 };

struct identity {
    const struct board_flash *flash;
    uint32_t first, block_bytes; /* the two blocks */
    uint32_t current;            /* 0 or 1: the block in use; 2: none is valid yet */
    uint32_t sequence;           /* of the current block */
    uint32_t end;                /* where the next record goes, in the block */
    struct {
        uint32_t at, n; /* where the newest value lies in the flash; n 0: none */
    } value[IDENTITY_KINDS];
};

/* Reads what is there: the `bytes` (FLASHMAP_IDENTITY_BYTES) at `first`, two blocks of half as much. An empty
 * or ruined flash is an empty identity. 0, or STATUS_INVALID_ARGUMENT (not on erase borders, or blocks too
 * small for one value of each kind). */
int identity_open(struct identity *identity, const struct board_flash *flash, uint32_t first, uint32_t bytes);

/* *bytes is NULL and *n 0 when there is none. */
void identity_get(const struct identity *identity, enum identity_kind kind, const uint8_t **bytes,
                  uint32_t *n);
/* Keeps a value (n 0: forgets it). When it returns 0 it lasts; else the former value is still there, if the
 * flash works at all. STATUS_TOO_LARGE, or as flash_program. */
int identity_put(struct identity *identity, enum identity_kind kind, const uint8_t *bytes, uint32_t n);

/* The certificate and its authority as one value, so that they never come apart. get: false: none (or not
 * well formed). */
bool identity_certificate(const struct identity *identity, const uint8_t **certificate,
                          uint32_t *n_certificate, const uint8_t **authority, uint32_t *n_authority);
int identity_put_certificate(struct identity *identity, const uint8_t *certificate, uint32_t n_certificate,
                             const uint8_t *authority, uint32_t n_authority);
/* At most 63 bytes and a NUL; "" none. */
void identity_name(const struct identity *identity, char name[IDENTITY_NAME_MAX + 1]);

/* Forgets everything, the key too. */
int identity_erase(struct identity *identity);

#endif
