/*
 * Certificate authority on mbedTLS. Every certificate is P-256 with SHA-256 and a random serial number of 16
 * bytes.
 *
 * Invariants: the authority's key and generator are used under `lock` only; keys are wiped when freed; no
 * certificate leaves without extended key usage and basic constraints. mbedTLS 2.28 does not verify a
 * request's signature, so ca_verify_request() does: the SHA-256 of the signed part against the key in it.
 */
#include "server/ca/ca.h"

#include "server/base/hash.h"

#include "mbedtls/ctr_drbg.h"
#include "mbedtls/entropy.h"
#include "mbedtls/error.h"
#include "mbedtls/oid.h"
#include "mbedtls/pk.h"
#include "mbedtls/platform_util.h"
#include "mbedtls/x509_crt.h"
#include "mbedtls/x509_csr.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SERIAL_BYTES = 16, NAME_BYTES = 96 };

enum usage { USAGE_AUTHORITY, USAGE_SERVER, USAGE_BOARD };

struct generator {
    mbedtls_entropy_context entropy;
    mbedtls_ctr_drbg_context drbg;
};

struct ca {
    pthread_mutex_t lock;
    struct generator random;
    mbedtls_pk_context key;
    char name[NAME_BYTES];
    struct ca_der certificate;
    uint8_t key_hash[CA_KEY_HASH_BYTES];
};

void ca_board_id(const uint8_t *public_key, size_t size, char board[CA_ID_BYTES])
{
    uint8_t hash[HASH_BYTES];
    hash_sha256(public_key, size, hash);
    hash_hex_n(hash, 16, board);
}

/* Reports an mbedTLS error as ours. */
static int ca_fail(struct error *error, enum status status, const char *what, int code)
{
    char text[128];
    mbedtls_strerror(code, text, sizeof text);
    return error_set(error, status, "%s: %s (-0x%04x)", what, text, (unsigned)-code);
}

static int generator_open(struct generator *random)
{
    mbedtls_entropy_init(&random->entropy);
    mbedtls_ctr_drbg_init(&random->drbg);
    return mbedtls_ctr_drbg_seed(&random->drbg, mbedtls_entropy_func, &random->entropy,
                                 (const unsigned char *)"shoal ca", 8);
}

static void generator_close(struct generator *random)
{
    mbedtls_ctr_drbg_free(&random->drbg);
    mbedtls_entropy_free(&random->entropy);
}

static int key_make(mbedtls_pk_context *key, struct generator *random)
{
    int rc = mbedtls_pk_setup(key, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY));
    if (rc != 0) {
        return rc;
    }
    return mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(*key), mbedtls_ctr_drbg_random,
                               &random->drbg);
}

/* mbedTLS writes DER at the end of a buffer; moves it to the front. */
static int der_take(struct ca_der *der, int written)
{
    if (written < 0) {
        return written;
    }
    memmove(der->bytes, der->bytes + sizeof der->bytes - (size_t)written, (size_t)written);
    der->size = (size_t)written;
    return 0;
}

static int key_write(mbedtls_pk_context *key, struct ca_der *der)
{
    return der_take(der, mbedtls_pk_write_key_der(key, der->bytes, sizeof der->bytes));
}

static int public_key_write(mbedtls_pk_context *key, struct ca_der *der)
{
    return der_take(der, mbedtls_pk_write_pubkey_der(key, der->bytes, sizeof der->bytes));
}

static bool key_is_p256(const mbedtls_pk_context *key)
{
    return mbedtls_pk_can_do(key, MBEDTLS_PK_ECKEY) &&
           mbedtls_pk_ec(*key)->grp.id == MBEDTLS_ECP_DP_SECP256R1;
}

static void time_text(int64_t seconds, char out[16])
{
    time_t t = (time_t)seconds;
    struct tm tm;
    gmtime_r(&t, &tm);
    strftime(out, 16, "%Y%m%d%H%M%S", &tm);
}

static int64_t time_seconds(const mbedtls_x509_time *t)
{
    struct tm tm = {.tm_year = t->year - 1900,
                    .tm_mon = t->mon - 1,
                    .tm_mday = t->day,
                    .tm_hour = t->hour,
                    .tm_min = t->min,
                    .tm_sec = t->sec};
    return (int64_t)timegm(&tm);
}

/* Extended key usage: a sequence of one object identifier. */
static int usage_write(mbedtls_x509write_cert *writer, enum usage usage)
{
    static const uint8_t server[] = {0x30, 10, 0x06, 8, 0x2b, 6, 1, 5, 5, 7, 3, 1};
    static const uint8_t client[] = {0x30, 10, 0x06, 8, 0x2b, 6, 1, 5, 5, 7, 3, 2};
    int rc = mbedtls_x509write_crt_set_basic_constraints(writer, usage == USAGE_AUTHORITY, 0);
    if (rc != 0 || usage == USAGE_AUTHORITY) {
        return rc != 0 ? rc : mbedtls_x509write_crt_set_key_usage(writer, MBEDTLS_X509_KU_KEY_CERT_SIGN);
    }
    rc = mbedtls_x509write_crt_set_key_usage(writer, MBEDTLS_X509_KU_DIGITAL_SIGNATURE);
    if (rc != 0) {
        return rc;
    }
    return mbedtls_x509write_crt_set_extension(writer, MBEDTLS_OID_EXTENDED_KEY_USAGE,
                                               MBEDTLS_OID_SIZE(MBEDTLS_OID_EXTENDED_KEY_USAGE), 1,
                                               usage == USAGE_SERVER ? server : client, sizeof server);
}

struct writing {
    mbedtls_pk_context *subject_key, *issuer_key;
    const char *subject, *issuer;
    const char *from, *until; /* YYYYMMDDhhmmss */
    enum usage usage;
};

static int serial_make(mbedtls_mpi *serial, struct generator *random)
{
    uint8_t bytes[SERIAL_BYTES];
    int rc = mbedtls_ctr_drbg_random(&random->drbg, bytes, sizeof bytes);
    bytes[0] = (uint8_t)((bytes[0] & 0x7f) | 0x40); /* positive, and never shorter */
    return rc != 0 ? rc : mbedtls_mpi_read_binary(serial, bytes, sizeof bytes);
}

static int certificate_write(const struct writing *w, struct generator *random, struct ca_der *out)
{
    mbedtls_x509write_cert writer;
    mbedtls_mpi serial;
    mbedtls_x509write_crt_init(&writer);
    mbedtls_mpi_init(&serial);
    mbedtls_x509write_crt_set_version(&writer, MBEDTLS_X509_CRT_VERSION_3);
    mbedtls_x509write_crt_set_md_alg(&writer, MBEDTLS_MD_SHA256);
    mbedtls_x509write_crt_set_subject_key(&writer, w->subject_key);
    mbedtls_x509write_crt_set_issuer_key(&writer, w->issuer_key);
    int rc = serial_make(&serial, random);
    if (rc == 0) {
        rc = mbedtls_x509write_crt_set_serial(&writer, &serial);
    }
    if (rc == 0) {
        rc = mbedtls_x509write_crt_set_subject_name(&writer, w->subject);
    }
    if (rc == 0) {
        rc = mbedtls_x509write_crt_set_issuer_name(&writer, w->issuer);
    }
    if (rc == 0) {
        rc = mbedtls_x509write_crt_set_validity(&writer, w->from, w->until);
    }
    if (rc == 0) {
        rc = usage_write(&writer, w->usage);
    }
    if (rc == 0) {
        rc = der_take(out, mbedtls_x509write_crt_der(&writer, out->bytes, sizeof out->bytes,
                                                     mbedtls_ctr_drbg_random, &random->drbg));
    }
    mbedtls_mpi_free(&serial);
    mbedtls_x509write_crt_free(&writer);
    return rc;
}

/* The authority's own name: it tells two authorities apart in messages. */
static void authority_name(const uint8_t hash[CA_KEY_HASH_BYTES], char name[NAME_BYTES])
{
    char hex[13];
    hash_hex_n(hash, 6, hex);
    snprintf(name, NAME_BYTES, "O=Shoal,CN=fleet %s", hex);
}

int ca_create(int64_t now_s, struct ca_der *key, struct ca_der *certificate, struct error *error)
{
    struct generator random;
    mbedtls_pk_context pk;
    struct ca_der public_key;
    uint8_t hash[32];
    char name[NAME_BYTES], from[16];
    mbedtls_pk_init(&pk);
    int rc = generator_open(&random);
    if (rc == 0) {
        rc = key_make(&pk, &random);
    }
    if (rc == 0) {
        rc = public_key_write(&pk, &public_key);
    }
    if (rc == 0) {
        hash_sha256(public_key.bytes, public_key.size, hash);
        authority_name(hash, name);
        time_text(now_s - CA_BACKDATE_S, from);
        struct writing w = {&pk, &pk, name, name, from, "99991231235959", USAGE_AUTHORITY};
        rc = certificate_write(&w, &random, certificate);
    }
    if (rc == 0) {
        rc = key_write(&pk, key);
    }
    mbedtls_pk_free(&pk);
    generator_close(&random);
    return rc == 0 ? 0 : ca_fail(error, STATUS_INTERNAL, "making the authority", rc);
}

/* Parses both halves and checks that they belong together. */
static int ca_load(struct ca *ca, const uint8_t *key, size_t key_size)
{
    mbedtls_x509_crt certificate;
    mbedtls_x509_crt_init(&certificate);
    int rc = mbedtls_pk_parse_key(&ca->key, key, key_size, NULL, 0);
    if (rc == 0) {
        rc = mbedtls_x509_crt_parse_der(&certificate, ca->certificate.bytes, ca->certificate.size);
    }
    if (rc == 0) {
        rc = mbedtls_pk_check_pair(&certificate.pk, &ca->key);
    }
    if (rc == 0) {
        hash_sha256(certificate.pk_raw.p, certificate.pk_raw.len, ca->key_hash);
        authority_name(ca->key_hash, ca->name);
    }
    mbedtls_x509_crt_free(&certificate);
    return rc;
}

int ca_open(const uint8_t *key, size_t key_size, const uint8_t *certificate, size_t certificate_size,
            struct ca **out, struct error *error)
{
    *out = NULL;
    if (certificate_size > CA_DER_MAX) {
        return error_set(error, STATUS_INVALID_ARGUMENT, "the authority's certificate is too long");
    }
    struct ca *ca = calloc(1, sizeof *ca);
    if (ca == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for the authority");
    }
    pthread_mutex_init(&ca->lock, NULL);
    mbedtls_pk_init(&ca->key);
    memcpy(ca->certificate.bytes, certificate, certificate_size);
    ca->certificate.size = certificate_size;
    int rc = generator_open(&ca->random);
    if (rc == 0) {
        rc = ca_load(ca, key, key_size);
    }
    if (rc != 0) {
        ca_free(ca);
        return ca_fail(error, STATUS_INVALID_ARGUMENT, "opening the authority", rc);
    }
    *out = ca;
    return 0;
}

void ca_free(struct ca *ca)
{
    if (ca == NULL) {
        return;
    }
    mbedtls_pk_free(&ca->key);
    generator_close(&ca->random);
    pthread_mutex_destroy(&ca->lock);
    mbedtls_platform_zeroize(ca, sizeof *ca);
    free(ca);
}

const struct ca_der *ca_certificate(const struct ca *ca)
{
    return &ca->certificate;
}

const uint8_t *ca_key_hash(const struct ca *ca)
{
    return ca->key_hash;
}

static int ca_issue(struct ca *ca, mbedtls_pk_context *subject_key, const char *subject, int64_t from_s,
                    int64_t until_s, enum usage usage, struct ca_der *out)
{
    char from[16], until[16];
    time_text(from_s, from);
    time_text(until_s, until);
    struct writing w = {subject_key, &ca->key, subject, ca->name, from, until, usage};
    pthread_mutex_lock(&ca->lock);
    int rc = certificate_write(&w, &ca->random, out);
    pthread_mutex_unlock(&ca->lock);
    return rc;
}

int ca_issue_server(struct ca *ca, int64_t now_s, int days, struct ca_der *key, struct ca_der *certificate,
                    struct error *error)
{
    mbedtls_pk_context pk;
    mbedtls_pk_init(&pk);
    pthread_mutex_lock(&ca->lock);
    int rc = key_make(&pk, &ca->random);
    pthread_mutex_unlock(&ca->lock);
    if (rc == 0) {
        rc = ca_issue(ca, &pk, "O=Shoal,CN=server", now_s - CA_BACKDATE_S, now_s + (int64_t)days * 86400,
                      USAGE_SERVER, certificate);
    }
    if (rc == 0) {
        rc = key_write(&pk, key);
    }
    mbedtls_pk_free(&pk);
    return rc == 0 ? 0 : ca_fail(error, STATUS_INTERNAL, "issuing the server's certificate", rc);
}

/* Proof that who asks holds the key: its signature over the request's own content. */
static int ca_verify_request(mbedtls_x509_csr *request)
{
    uint8_t hash[32];
    if (request->sig_md != MBEDTLS_MD_SHA256) {
        return MBEDTLS_ERR_X509_UNKNOWN_SIG_ALG;
    }
    hash_sha256(request->cri.p, request->cri.len, hash);
    return mbedtls_pk_verify(&request->pk, MBEDTLS_MD_SHA256, hash, sizeof hash, request->sig.p,
                             request->sig.len);
}

static int request_board(mbedtls_x509_csr *request, char board[CA_ID_BYTES])
{
    struct ca_der public_key;
    int rc = public_key_write(&request->pk, &public_key);
    if (rc == 0) {
        ca_board_id(public_key.bytes, public_key.size, board);
    }
    return rc;
}

/* Parses a request and refuses keys that are not P-256. */
static int request_read(const uint8_t *bytes, size_t size, mbedtls_x509_csr *request, struct error *error)
{
    mbedtls_x509_csr_init(request);
    if (size > CA_DER_MAX) {
        return error_set(error, STATUS_INVALID_ARGUMENT, "the certificate request is over %d bytes",
                         CA_DER_MAX);
    }
    int rc = mbedtls_x509_csr_parse_der(request, bytes, size);
    if (rc != 0) {
        return ca_fail(error, STATUS_INVALID_ARGUMENT, "the certificate request is malformed", rc);
    }
    if (!key_is_p256(&request->pk)) {
        return error_set(error, STATUS_INVALID_ARGUMENT, "the certificate request's key is not P-256");
    }
    return 0;
}

int ca_request_board(const uint8_t *bytes, size_t size, char board[CA_ID_BYTES])
{
    mbedtls_x509_csr request;
    int status = request_read(bytes, size, &request, NULL);
    if (status == 0 && request_board(&request, board) != 0) {
        status = STATUS_INVALID_ARGUMENT;
    }
    mbedtls_x509_csr_free(&request);
    return status;
}

int ca_issue_board(struct ca *ca, const uint8_t *bytes, size_t size, int64_t now_s, int days,
                   struct ca_der *certificate, struct ca_info *info, struct error *error)
{
    mbedtls_x509_csr request;
    char board[CA_ID_BYTES], subject[NAME_BYTES];
    int64_t until_s = now_s + (int64_t)days * 86400;
    int64_t from_s = (days < 0 ? until_s - 86400 : now_s) - CA_BACKDATE_S;
    int rc = 0;
    int status = request_read(bytes, size, &request, error);
    if (status != 0) {
        goto done;
    }
    rc = ca_verify_request(&request);
    if (rc != 0) {
        status = ca_fail(error, STATUS_INVALID_ARGUMENT, "the certificate request's signature is wrong", rc);
        goto done;
    }
    rc = request_board(&request, board);
    if (rc == 0) {
        snprintf(subject, sizeof subject, "O=Shoal,CN=%s", board);
        rc = ca_issue(ca, &request.pk, subject, from_s, until_s, USAGE_BOARD, certificate);
    }
    if (rc != 0) {
        status = ca_fail(error, STATUS_INTERNAL, "issuing a board's certificate", rc);
        goto done;
    }
    status = info == NULL ? 0 : ca_read(certificate->bytes, certificate->size, info);
done:
    mbedtls_x509_csr_free(&request);
    return status;
}

int ca_read(const uint8_t *bytes, size_t size, struct ca_info *info)
{
    mbedtls_x509_crt certificate;
    uint8_t hash[32];
    memset(info, 0, sizeof *info);
    mbedtls_x509_crt_init(&certificate);
    int rc = mbedtls_x509_crt_parse_der(&certificate, bytes, size);
    if (rc == 0) {
        hash_sha256(certificate.raw.p, certificate.raw.len, hash);
        ca_board_id(certificate.pk_raw.p, certificate.pk_raw.len, info->board);
        hash_hex_n(hash, sizeof hash, info->fingerprint);
        size_t n = certificate.serial.len < 20 ? certificate.serial.len : 20;
        hash_hex_n(certificate.serial.p, n, info->serial);
        info->not_before_s = time_seconds(&certificate.valid_from);
        info->not_after_s = time_seconds(&certificate.valid_to);
    }
    mbedtls_x509_crt_free(&certificate);
    return rc == 0 ? 0 : STATUS_INVALID_ARGUMENT;
}
