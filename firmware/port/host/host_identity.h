/*
 * The board's identity: a P-256 key that is made here and never leaves, and the certificate for it. Kept in
 * the state folder: key.der (0600), certificate.der (the board's certificate, then the authority's, in one
 * file that is replaced as a whole), name. A lock keeps a second process out.
 */
#ifndef SHOAL_FIRMWARE_PORT_HOST_IDENTITY_H
#define SHOAL_FIRMWARE_PORT_HOST_IDENTITY_H

#include "server/base/error.h"
#include "server/ca/ca.h"

#include "mbedtls/ctr_drbg.h"
#include "mbedtls/entropy.h"
#include "mbedtls/pk.h"
#include "mbedtls/x509_crt.h"

#include <stdbool.h>

struct host_identity {
    char folder[512];
    int lock;
    mbedtls_entropy_context entropy;
    mbedtls_ctr_drbg_context drbg;
    mbedtls_pk_context key;
    char board[CA_ID_BYTES]; /* id, from the key */
    bool enrolled;           /* certificate and authority are there */
    mbedtls_x509_crt certificate;
    mbedtls_x509_crt authority;
    struct ca_info info; /* of the certificate */
    uint8_t authority_hash[CA_KEY_HASH_BYTES];
    char name[64]; /* given by the server or the command line */
};

/* Makes the folder and the key if they are missing. STATUS_CONFLICT: another process has it. */
int host_identity_open(struct host_identity *identity, const char *folder, struct error *error);
void host_identity_close(struct host_identity *identity);
/* A certificate request (PKCS#10 DER) for the key. */
int host_identity_request(struct host_identity *identity, uint8_t *out, size_t room, size_t *size);
/* Keeps a new certificate and its authority once they belong to the key and to each other; else
 * STATUS_CERTIFICATE_WRONG and the old ones stay. */
int host_identity_keep(struct host_identity *identity, const uint8_t *certificate, size_t size,
                       const uint8_t *authority, size_t authority_size, struct error *error);
int host_identity_set_name(struct host_identity *identity, const char *name);
/* More than half of the certificate's life is over. */
bool host_identity_half_life(const struct host_identity *identity, int64_t now_s);

#endif
