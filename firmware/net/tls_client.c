/*
 * Nothing of what a peer shows is believed before all of it is checked: objects are handed out whole or not
 * at all, and the part of a code that makes a server trusted is compared in constant time.
 */
#include "firmware/net/tls_client.h"

#include "mbedtls/oid.h"
#include "mbedtls/sha256.h"
#include "mbedtls/x509_csr.h"

#include <string.h>

static const int suites[] = {MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, 0};
static const int hashes[] = {MBEDTLS_MD_SHA256, MBEDTLS_MD_NONE};
static const mbedtls_ecp_group_id curves[] = {MBEDTLS_ECP_DP_SECP256R1, MBEDTLS_ECP_DP_NONE};

int tls_client_configure(mbedtls_ssl_config *config, const struct tls_client_identity *identity)
{
    int rc = mbedtls_ssl_config_defaults(config, MBEDTLS_SSL_IS_CLIENT, MBEDTLS_SSL_TRANSPORT_STREAM,
                                         MBEDTLS_SSL_PRESET_DEFAULT);
    if (rc != 0)
        return rc;
    mbedtls_ssl_conf_min_version(config, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
    mbedtls_ssl_conf_max_version(config, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
    mbedtls_ssl_conf_ciphersuites(config, suites);
    mbedtls_ssl_conf_curves(config, curves);
    mbedtls_ssl_conf_sig_hashes(config, hashes);
    mbedtls_ssl_conf_rng(config, identity->random, identity->random_context);
#ifdef MBEDTLS_SSL_RENEGOTIATION
    mbedtls_ssl_conf_renegotiation(config, MBEDTLS_SSL_RENEGOTIATION_DISABLED);
#endif
    mbedtls_ssl_conf_session_tickets(config, MBEDTLS_SSL_SESSION_TICKETS_ENABLED);
    mbedtls_ssl_conf_authmode(config, identity->certificate != NULL ? MBEDTLS_SSL_VERIFY_REQUIRED
                                                                    : MBEDTLS_SSL_VERIFY_OPTIONAL);
    rc = mbedtls_ssl_conf_max_frag_len(config, MBEDTLS_SSL_MAX_FRAG_LEN_4096);
    if (rc == 0 && identity->certificate != NULL) {
        mbedtls_ssl_conf_ca_chain(config, identity->authority, NULL);
        rc = mbedtls_ssl_conf_own_cert(config, identity->certificate, identity->key);
    }
    return rc;
}

int tls_client_request(const struct tls_client_identity *identity, const char *board, uint8_t *out,
                       size_t room, size_t *size)
{
    mbedtls_x509write_csr writer;
    char subject[64] = "O=Shoal,CN=";
    if (strlen(subject) + strlen(board) >= sizeof subject)
        return STATUS_INTERNAL;
    strcat(subject, board);
    mbedtls_x509write_csr_init(&writer);
    mbedtls_x509write_csr_set_md_alg(&writer, MBEDTLS_MD_SHA256);
    mbedtls_x509write_csr_set_key(&writer, identity->key);
    int n = mbedtls_x509write_csr_set_subject_name(&writer, subject);
    if (n == 0)
        n = mbedtls_x509write_csr_der(&writer, out, room, identity->random, identity->random_context);
    mbedtls_x509write_csr_free(&writer);
    if (n <= 0)
        return STATUS_INTERNAL;
    memmove(out, out + room - (size_t)n, (size_t)n); /* it was written to the end */
    *size = (size_t)n;
    return STATUS_OK;
}

void tls_client_key_hash(const mbedtls_x509_crt *certificate, uint8_t hash[TLS_CLIENT_HASH_BYTES])
{
    mbedtls_sha256_ret(certificate->pk_raw.p, certificate->pk_raw.len, hash, 0);
}

static bool equal(const uint8_t *a, const uint8_t *b, uint32_t n)
{
    uint8_t difference = 0;
    for (uint32_t i = 0; i < n; i++)
        difference = (uint8_t)(difference | (a[i] ^ b[i]));
    return difference == 0;
}

/* The chain that a session keeps is of the session; what verifies needs objects of its own. */
static int verify_server(const mbedtls_x509_crt *chain)
{
    mbedtls_x509_crt authority, server;
    uint32_t flags = 0;
    int rc = -1;
    mbedtls_x509_crt_init(&authority);
    mbedtls_x509_crt_init(&server);
    if (mbedtls_x509_crt_parse_der(&authority, chain->next->raw.p, chain->next->raw.len) == 0 &&
        mbedtls_x509_crt_parse_der(&server, chain->raw.p, chain->raw.len) == 0)
        rc = mbedtls_x509_crt_verify(&server, &authority, NULL, NULL, &flags, NULL, NULL);
    if (rc == 0)
        rc = mbedtls_x509_crt_check_extended_key_usage(&server, MBEDTLS_OID_SERVER_AUTH,
                                                       MBEDTLS_OID_SIZE(MBEDTLS_OID_SERVER_AUTH));
    mbedtls_x509_crt_free(&authority);
    mbedtls_x509_crt_free(&server);
    return rc;
}

int tls_client_trusts(const mbedtls_ssl_context *ssl, const uint8_t trust[TLS_CLIENT_TRUST_BYTES],
                      const char **why)
{
    const mbedtls_x509_crt *chain = mbedtls_ssl_get_peer_cert(ssl);
    uint8_t hash[TLS_CLIENT_HASH_BYTES];
    *why = "the server did not show its authority";
    if (chain == NULL || chain->next == NULL)
        return STATUS_CERTIFICATE_WRONG;
    tls_client_key_hash(chain->next, hash);
    *why = "the code was not made by this server: it has another authority";
    if (!equal(hash, trust, TLS_CLIENT_TRUST_BYTES))
        return STATUS_CERTIFICATE_WRONG;
    *why = "the server's certificate is not good";
    return verify_server(chain) == 0 ? STATUS_OK : STATUS_CERTIFICATE_WRONG;
}

int tls_client_adopt(const mbedtls_pk_context *key, const uint8_t *certificate, size_t n_certificate,
                     const uint8_t *authority, size_t n_authority, mbedtls_x509_crt *mine,
                     mbedtls_x509_crt *theirs)
{
    uint32_t flags = 0;
    int rc = mbedtls_x509_crt_parse_der(mine, certificate, n_certificate);
    if (rc == 0)
        rc = mbedtls_x509_crt_parse_der(theirs, authority, n_authority);
    if (rc == 0)
        rc = mbedtls_pk_check_pair(&mine->pk, key);
    if (rc == 0 && mbedtls_x509_crt_verify(mine, theirs, NULL, NULL, &flags, NULL, NULL) != 0 &&
        (flags & ~(uint32_t)(MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE)) != 0)
        rc = -1; /* an old certificate is kept: the server says what it thinks of it */
    if (rc == 0)
        return STATUS_OK;
    mbedtls_x509_crt_free(mine);
    mbedtls_x509_crt_free(theirs);
    mbedtls_x509_crt_init(mine);
    mbedtls_x509_crt_init(theirs);
    return STATUS_CERTIFICATE_WRONG;
}

bool tls_client_is_frame(const uint8_t *record, uint32_t n, struct wire_header *header)
{
    return n >= WIRE_HEADER_BYTES && wire_header_get(record, header) == STATUS_OK &&
           header->length == n - WIRE_HEADER_BYTES;
}

bool tls_client_is_refusal(const uint8_t *frame, const struct wire_header *header, struct wire_cert *refusal)
{
    return header->type == WIRE_CERT &&
           wire_decode_cert(frame + WIRE_HEADER_BYTES, header->length, refusal) == STATUS_OK &&
           refusal->status != STATUS_OK;
}
