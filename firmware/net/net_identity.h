/*
 * The board's identity as TLS needs it: the key and the certificates, read from the flash records of
 * firmware/core/identity.h at the start and kept there when they change. The key is made here, once, and
 * never leaves.
 */
#ifndef SHOAL_FIRMWARE_NET_IDENTITY_H
#define SHOAL_FIRMWARE_NET_IDENTITY_H

#include "firmware/core/identity.h"

#include "mbedtls/pk.h"
#include "mbedtls/x509_crt.h"

#include <stdbool.h>

enum { NET_ID_BYTES = 33, NET_KEY_HASH_BYTES = 32 };

struct net_identity {
    struct identity records;
    mbedtls_pk_context key;
    char board[NET_ID_BYTES]; /* the first 16 bytes of the public key's SHA-256, hex */
    bool enrolled;            /* certificate and authority are there */
    mbedtls_x509_crt certificate, authority;
    uint8_t authority_hash[NET_KEY_HASH_BYTES]; /* SHA-256 of the authority's public key */
    char name[IDENTITY_NAME_MAX + 1];
};

/* After net_tls_start(). Makes a key if there is none. 0 or a negative status (the flash, no randomness). A
 * key or a certificate that cannot be read is as if there were none. */
int net_identity_open(struct net_identity *identity, const struct board_flash *flash);
/* A certificate request (PKCS#10, DER). 0 or STATUS_INTERNAL. */
int net_identity_request(struct net_identity *identity, uint8_t *out, uint32_t room, uint32_t *size);
/* Keeps a certificate and its authority once they belong to the key and to each other; else
 * STATUS_CERTIFICATE_WRONG and the old ones stay. */
int net_identity_keep(struct net_identity *identity, const uint8_t *certificate, uint32_t n_certificate,
                      const uint8_t *authority, uint32_t n_authority);
int net_identity_set_name(struct net_identity *identity, const char *name);

#endif
