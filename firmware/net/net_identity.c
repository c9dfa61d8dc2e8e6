/*
 * Nothing is taken over before all of it has been checked: certificates are parsed into new objects, which
 * replace the old ones when key, certificate and authority belong together and the record is in the flash.
 */
#include "firmware/net/net_identity.h"

#include "firmware/core/flashmap.h"
#include "firmware/net/net_tls.h"
#include "firmware/net/say.h"
#include "firmware/net/tls_client.h"
#include "shared/base/status.h"

#include "mbedtls/platform_util.h"
#include "mbedtls/sha256.h"

#include <string.h>

enum { PUBLIC_MAX = 128 };

static int key_make(struct net_identity *identity)
{
    uint8_t der[IDENTITY_KEY_MAX];
    mbedtls_pk_free(&identity->key);
    mbedtls_pk_init(&identity->key);
    int rc = mbedtls_pk_setup(&identity->key, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY));
    if (rc == 0)
        rc =
            mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(identity->key), net_tls_random, NULL);
    int n = rc == 0 ? mbedtls_pk_write_key_der(&identity->key, der, sizeof der) : rc;
    if (n <= 0)
        return STATUS_INTERNAL;
    int status = identity_put(&identity->records, IDENTITY_KEY, der + sizeof der - n, (uint32_t)n);
    mbedtls_platform_zeroize(der, sizeof der);
    return status;
}

static int key_open(struct net_identity *identity)
{
    const uint8_t *der;
    uint32_t n;
    uint8_t public[PUBLIC_MAX], hash[32];
    identity_get(&identity->records, IDENTITY_KEY, &der, &n);
    if (n == 0 || mbedtls_pk_parse_key(&identity->key, der, n, NULL, 0) != 0) {
        int status = key_make(identity);
        if (status != STATUS_OK)
            return status;
        say("identity: a new key was made");
    }
    int size = mbedtls_pk_write_pubkey_der(&identity->key, public, sizeof public);
    if (size <= 0)
        return STATUS_INTERNAL;
    mbedtls_sha256_ret(public + sizeof public - size, (size_t)size, hash, 0);
    for (uint32_t i = 0; i < (NET_ID_BYTES - 1) / 2; i++)
        text_format(identity->board + 2 * i, 3, "%02x", hash[i]);
    return STATUS_OK;
}

/* Takes over two certificates if all belongs together. */
static int adopt(struct net_identity *identity, const uint8_t *certificate, uint32_t n_certificate,
                 const uint8_t *authority, uint32_t n_authority)
{
    mbedtls_x509_crt mine, theirs;
    mbedtls_x509_crt_init(&mine);
    mbedtls_x509_crt_init(&theirs);
    int status =
        tls_client_adopt(&identity->key, certificate, n_certificate, authority, n_authority, &mine, &theirs);
    if (status != STATUS_OK)
        return status;
    mbedtls_x509_crt_free(&identity->certificate);
    mbedtls_x509_crt_free(&identity->authority);
    identity->certificate = mine;
    identity->authority = theirs;
    tls_client_key_hash(&theirs, identity->authority_hash);
    identity->enrolled = true;
    return STATUS_OK;
}

int net_identity_open(struct net_identity *identity, const struct board_flash *flash)
{
    const uint8_t *certificate, *authority;
    uint32_t n_certificate, n_authority;
    memset(identity, 0, sizeof *identity);
    mbedtls_pk_init(&identity->key);
    mbedtls_x509_crt_init(&identity->certificate);
    mbedtls_x509_crt_init(&identity->authority);
    int status = identity_open(&identity->records, flash, FLASHMAP_IDENTITY, FLASHMAP_IDENTITY_BYTES);
    if (status == STATUS_OK)
        status = key_open(identity);
    if (status != STATUS_OK)
        return status;
    if (identity_certificate(&identity->records, &certificate, &n_certificate, &authority, &n_authority) &&
        adopt(identity, certificate, n_certificate, authority, n_authority) != STATUS_OK)
        say("identity: the certificate is damaged: as if there were none");
    identity_name(&identity->records, identity->name);
    return STATUS_OK;
}

int net_identity_request(struct net_identity *identity, uint8_t *out, uint32_t room, uint32_t *size)
{
    struct tls_client_identity mine = {.key = &identity->key, .random = net_tls_random};
    size_t n = 0;
    int status = tls_client_request(&mine, identity->board, out, room, &n);
    *size = (uint32_t)n;
    return status;
}

int net_identity_keep(struct net_identity *identity, const uint8_t *certificate, uint32_t n_certificate,
                      const uint8_t *authority, uint32_t n_authority)
{
    int status = adopt(identity, certificate, n_certificate, authority, n_authority);
    if (status == STATUS_OK)
        status =
            identity_put_certificate(&identity->records, certificate, n_certificate, authority, n_authority);
    return status;
}

int net_identity_set_name(struct net_identity *identity, const char *name)
{
    size_t n = strlen(name);
    if (n == 0 || n > IDENTITY_NAME_MAX)
        return STATUS_INVALID_ARGUMENT;
    if (strcmp(identity->name, name) == 0)
        return STATUS_OK;
    memcpy(identity->name, name, n + 1);
    return identity_put(&identity->records, IDENTITY_NAME, (const uint8_t *)name, (uint32_t)n);
}
