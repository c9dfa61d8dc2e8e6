/*
 * The fleet's certificate authority: P-256 throughout, mbedTLS underneath, bytes in and bytes out. The store
 * keeps the authority's key and certificate as the DER bytes that ca_create() gives; nothing here touches a
 * file.
 *
 * Certificates say what they are good for: a board's carries client authentication only, the server's server
 * authentication only, so that a stolen board cannot pose as the server.
 *
 * A board's id is the first 16 bytes of the SHA-256 of its public key (SubjectPublicKeyInfo, DER) in
 * lower-case hex; it is also the common name. It stays when the board renews its certificate with the same
 * key.
 *
 * All functions may be called on any thread; issuing takes a lock inside `struct ca`. Times are Unix seconds.
 */
#ifndef SHOAL_SERVER_CA_CA_H
#define SHOAL_SERVER_CA_CA_H

#include "server/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CA_DER_MAX = 1024, /* any key, request or certificate here */
    CA_ID_BYTES = 33,  /* 32 hex characters and the end */
    CA_HEX_BYTES = 65, /* a SHA-256 in hex and the end */
    CA_KEY_HASH_BYTES = 32,
    CA_BOARD_DAYS = 90,
    CA_BACKDATE_S = 3600 /* certificates begin this much before `now`: clocks differ */
};

/* DER bytes; the caller's memory. */
struct ca_der {
    uint8_t bytes[CA_DER_MAX];
    size_t size;
};

/* What a certificate says. */
struct ca_info {
    char board[CA_ID_BYTES];        /* computed from the public key, not read from the name */
    char serial[CA_ID_BYTES + 8];   /* hex */
    char fingerprint[CA_HEX_BYTES]; /* SHA-256 of the DER, hex */
    int64_t not_before_s, not_after_s;
};

struct ca;

/* Makes a new authority: its private key and its self-signed certificate, which never expires.
 * STATUS_INTERNAL when there is no randomness. */
int ca_create(int64_t now_s, struct ca_der *key, struct ca_der *certificate, struct error *error);

/* Opens an authority from stored bytes (copied). STATUS_INVALID_ARGUMENT when they are malformed or the key
 * does not belong to the certificate; STATUS_NO_MEMORY. */
int ca_open(const uint8_t *key, size_t key_size, const uint8_t *certificate, size_t certificate_size,
            struct ca **ca, struct error *error);
void ca_free(struct ca *ca); /* NULL is allowed; wipes the key */

/* The authority's certificate; borrowed, as long as the authority lives. */
const struct ca_der *ca_certificate(const struct ca *ca);
/* SHA-256 of its public key; enrolment codes carry the first 16 bytes. */
const uint8_t *ca_key_hash(const struct ca *ca);

/* A new key and certificate for the server, good for `days` from now. */
int ca_issue_server(struct ca *ca, int64_t now_s, int days, struct ca_der *key, struct ca_der *certificate,
                    struct error *error);

/* A board's certificate from its request (PKCS #10 DER). The request's own signature is verified, its names
 * are ignored. Lasts from now - CA_BACKDATE_S to now + days (CA_BOARD_DAYS; negative makes an expired one,
 * for tests). STATUS_INVALID_ARGUMENT: malformed, wrong signature, or a key that is not P-256. */
int ca_issue_board(struct ca *ca, const uint8_t *request, size_t request_size, int64_t now_s, int days,
                   struct ca_der *certificate, struct ca_info *info, struct error *error);

/* Reads a certificate. STATUS_INVALID_ARGUMENT when malformed. */
int ca_read(const uint8_t *certificate, size_t size, struct ca_info *info);

/* Board id of a certificate request, so that an owner can look it up before issuing. Does not verify the
 * signature. */
int ca_request_board(const uint8_t *request, size_t size, char board[CA_ID_BYTES]);

/* Board id of a public key (SubjectPublicKeyInfo DER). */
void ca_board_id(const uint8_t *public_key, size_t size, char board[CA_ID_BYTES]);

#endif
