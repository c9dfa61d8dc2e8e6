/*
 * What a board's TLS is, whatever carries it: TLS 1.2, ECDHE-ECDSA with ChaCha20-Poly1305 on P-256, records
 * of 4,096 bytes; whom it trusts; what it takes as its identity. Used over lwIP (net_link.c) and over sockets
 * (port/host). Only mbedTLS underneath; no state.
 */
#ifndef SHOAL_FIRMWARE_NET_TLS_CLIENT_H
#define SHOAL_FIRMWARE_NET_TLS_CLIENT_H

#include "shared/wire/wire.h"

#include "mbedtls/ssl.h"

enum { TLS_CLIENT_TRUST_BYTES = 16, TLS_CLIENT_HASH_BYTES = 32 };

/* What one side of the link shows and expects; pointers stay valid as long as the configuration is used. */
struct tls_client_identity {
    mbedtls_x509_crt *certificate,
        *authority; /* both NULL: shows none; the server is judged by tls_client_trusts() */
    mbedtls_pk_context *key;
    int (*random)(void *context, unsigned char *out, size_t n);
    void *random_context;
};

/* Sets up a configuration that was initialised. mbedTLS's 0 or negative error. */
int tls_client_configure(mbedtls_ssl_config *config, const struct tls_client_identity *identity);
/* After a handshake without a certificate of ours: whether this is the server that a code was made by, that
 * is, its authority's key begins with `trust` and its certificate is of that authority and for servers.
 * STATUS_OK, or STATUS_CERTIFICATE_WRONG and *why (static text). */
int tls_client_trusts(const mbedtls_ssl_context *ssl, const uint8_t trust[TLS_CLIENT_TRUST_BYTES],
                      const char **why);
/* Parses a certificate and its authority (DER) into two initialised objects, once they belong to the key and
 * to each other; dates are not judged. STATUS_OK, or STATUS_CERTIFICATE_WRONG with both freed and initialised
 * again. */
int tls_client_adopt(const mbedtls_pk_context *key, const uint8_t *certificate, size_t n_certificate,
                     const uint8_t *authority, size_t n_authority, mbedtls_x509_crt *mine,
                     mbedtls_x509_crt *theirs);
/* Writes a certificate request (DER) for a board's key to the front of `out`. STATUS_OK, or STATUS_INTERNAL
 * also when `room` is too small. */
int tls_client_request(const struct tls_client_identity *identity, const char *board, uint8_t *out,
                       size_t room, size_t *size);
/* SHA-256 of a certificate's public key. */
void tls_client_key_hash(const mbedtls_x509_crt *certificate, uint8_t hash[TLS_CLIENT_HASH_BYTES]);

/* Whether a record of `n` bytes, read whole, is a frame; its header. */
bool tls_client_is_frame(const uint8_t *record, uint32_t n, struct wire_header *header);
/* Whether a frame is a refusal (CERT with a status), which ends the link whatever else the board would make
 * of it. */
bool tls_client_is_refusal(const uint8_t *frame, const struct wire_header *header, struct wire_cert *refusal);

#endif
