/*
 * Identity files. Each is replaced as a whole (written aside, synced, renamed), so that a kill at any instant
 * leaves the old or the new one. The key is on the disk before any request is made for it.
 */
#include "firmware/port/host/host_identity.h"

#include "firmware/net/tls_client.h"
#include "server/base/file.h"

#include "mbedtls/platform_util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { FILE_MAX = 8192, PATH_BYTES = 640 };

static void path_of(const struct host_identity *identity, const char *name, char out[PATH_BYTES])
{
    snprintf(out, PATH_BYTES, "%s/%s", identity->folder, name);
}

static int take_lock(struct host_identity *identity, struct error *error)
{
    char path[PATH_BYTES];
    path_of(identity, "lock", path);
    identity->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (identity->lock < 0) {
        return error_set(error, STATUS_IO_FAILED, "%s: %s", path, strerror(errno));
    }
    if (flock(identity->lock, LOCK_EX | LOCK_NB) != 0) {
        return error_set(error, STATUS_CONFLICT, "another process uses the state folder %s",
                         identity->folder);
    }
    return 0;
}

static int key_make(struct host_identity *identity, const char *path, struct error *error)
{
    uint8_t der[256];
    int rc = mbedtls_pk_setup(&identity->key, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY));
    if (rc == 0) {
        rc = mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(identity->key),
                                 mbedtls_ctr_drbg_random, &identity->drbg);
    }
    int n = rc == 0 ? mbedtls_pk_write_key_der(&identity->key, der, sizeof der) : rc;
    if (n <= 0) {
        return error_set(error, STATUS_INTERNAL, "making the board's key: -0x%04x", (unsigned)-n);
    }
    int status = file_write(path, der + sizeof der - n, (size_t)n, 0600, error);
    mbedtls_platform_zeroize(der, sizeof der);
    return status;
}

static int key_open(struct host_identity *identity, struct error *error)
{
    char path[PATH_BYTES];
    uint8_t *bytes = NULL, spki[256];
    size_t size;
    path_of(identity, "key.der", path);
    int status = file_read(path, FILE_MAX, &bytes, &size, NULL);
    if (status == STATUS_NOT_FOUND) {
        status = key_make(identity, path, error);
    } else if (status != 0) {
        status = error_set(error, (enum status)status, "%s cannot be read", path);
    } else if (mbedtls_pk_parse_key(&identity->key, bytes, size, NULL, 0) != 0) {
        status = error_set(error, STATUS_IO_FAILED, "%s is not a key", path);
    }
    if (bytes != NULL) {
        mbedtls_platform_zeroize(bytes, size);
        free(bytes);
    }
    if (status != 0) {
        return status;
    }
    int n = mbedtls_pk_write_pubkey_der(&identity->key, spki, sizeof spki);
    if (n <= 0) {
        return error_set(error, STATUS_INTERNAL, "the board's public key: -0x%04x", (unsigned)-n);
    }
    ca_board_id(spki + sizeof spki - n, (size_t)n, identity->board);
    return 0;
}

/* Takes over two certificates if all belongs together. */
static int adopt(struct host_identity *identity, const uint8_t *certificate, size_t size,
                 const uint8_t *authority, size_t authority_size)
{
    mbedtls_x509_crt mine, theirs;
    mbedtls_x509_crt_init(&mine);
    mbedtls_x509_crt_init(&theirs);
    int status =
        tls_client_adopt(&identity->key, certificate, size, authority, authority_size, &mine, &theirs);
    if (status == 0 && ca_read(certificate, size, &identity->info) != 0) {
        mbedtls_x509_crt_free(&mine);
        mbedtls_x509_crt_free(&theirs);
        status = STATUS_CERTIFICATE_WRONG;
    }
    if (status != 0) {
        return status;
    }
    mbedtls_x509_crt_free(&identity->certificate);
    mbedtls_x509_crt_free(&identity->authority);
    identity->certificate = mine;
    identity->authority = theirs;
    tls_client_key_hash(&theirs, identity->authority_hash);
    identity->enrolled = true;
    return 0;
}

/* Length of the DER element at the front, 0: malformed. */
static size_t der_length(const uint8_t *bytes, size_t size)
{
    if (size < 4 || bytes[0] != 0x30 || bytes[1] != 0x82) {
        return 0;
    }
    size_t n = ((size_t)bytes[2] << 8 | bytes[3]) + 4;
    return n <= size ? n : 0;
}

static int certificate_open(struct host_identity *identity, struct error *error)
{
    char path[PATH_BYTES];
    uint8_t *bytes = NULL;
    size_t size;
    path_of(identity, "certificate.der", path);
    int status = file_read(path, FILE_MAX, &bytes, &size, NULL);
    if (status == STATUS_NOT_FOUND) {
        return 0;
    }
    if (status != 0) {
        return error_set(error, (enum status)status, "%s cannot be read", path);
    }
    size_t n = der_length(bytes, size);
    if (n == 0 || adopt(identity, bytes, n, bytes + n, size - n) != 0) {
        fprintf(stderr, "shoal-board: %s is damaged: as if there were none\n", path);
    }
    free(bytes);
    return 0;
}

static void name_open(struct host_identity *identity)
{
    char path[PATH_BYTES];
    uint8_t *bytes = NULL;
    size_t size;
    path_of(identity, "name", path);
    if (file_read(path, sizeof identity->name - 1, &bytes, &size, NULL) == 0) {
        memcpy(identity->name, bytes, size);
        identity->name[strcspn(identity->name, "\n")] = 0;
        free(bytes);
    }
}

int host_identity_open(struct host_identity *identity, const char *folder, struct error *error)
{
    memset(identity, 0, sizeof *identity);
    identity->lock = -1;
    mbedtls_entropy_init(&identity->entropy);
    mbedtls_ctr_drbg_init(&identity->drbg);
    mbedtls_pk_init(&identity->key);
    mbedtls_x509_crt_init(&identity->certificate);
    mbedtls_x509_crt_init(&identity->authority);
    if (strlen(folder) >= sizeof identity->folder) {
        return error_set(error, STATUS_INVALID_ARGUMENT, "the state folder's path is too long");
    }
    strcpy(identity->folder, folder);
    int status = file_make_dirs(folder, 0700, error);
    if (status == 0) {
        status = take_lock(identity, error);
    }
    if (status == 0 && mbedtls_ctr_drbg_seed(&identity->drbg, mbedtls_entropy_func, &identity->entropy,
                                             (const unsigned char *)"shoal board", 11) != 0) {
        status = error_set(error, STATUS_INTERNAL, "no randomness");
    }
    if (status == 0) {
        status = key_open(identity, error);
    }
    if (status == 0) {
        status = certificate_open(identity, error);
    }
    if (status == 0) {
        name_open(identity);
    }
    return status;
}

void host_identity_close(struct host_identity *identity)
{
    mbedtls_pk_free(&identity->key);
    mbedtls_x509_crt_free(&identity->certificate);
    mbedtls_x509_crt_free(&identity->authority);
    mbedtls_ctr_drbg_free(&identity->drbg);
    mbedtls_entropy_free(&identity->entropy);
    if (identity->lock >= 0) {
        close(identity->lock);
    }
    identity->lock = -1;
}

int host_identity_request(struct host_identity *identity, uint8_t *out, size_t room, size_t *size)
{
    struct tls_client_identity mine = {
        .key = &identity->key, .random = mbedtls_ctr_drbg_random, .random_context = &identity->drbg};
    return tls_client_request(&mine, identity->board, out, room, size);
}

int host_identity_keep(struct host_identity *identity, const uint8_t *certificate, size_t size,
                       const uint8_t *authority, size_t authority_size, struct error *error)
{
    char path[PATH_BYTES];
    uint8_t both[FILE_MAX];
    if (size + authority_size > sizeof both || size == 0 || der_length(certificate, size) != size ||
        adopt(identity, certificate, size, authority, authority_size) != 0) {
        return error_set(error, STATUS_CERTIFICATE_WRONG,
                         "the certificate that the server gave is not for this board");
    }
    memcpy(both, certificate, size);
    memcpy(both + size, authority, authority_size);
    path_of(identity, "certificate.der", path);
    return file_write(path, both, size + authority_size, 0600, error);
}

int host_identity_set_name(struct host_identity *identity, const char *name)
{
    char path[PATH_BYTES];
    if (strlen(name) >= sizeof identity->name || name[0] == 0) {
        return STATUS_INVALID_ARGUMENT;
    }
    if (strcmp(identity->name, name) == 0) {
        return 0;
    }
    snprintf(identity->name, sizeof identity->name, "%s", name);
    path_of(identity, "name", path);
    return file_write(path, name, strlen(name), 0600, NULL);
}

bool host_identity_half_life(const struct host_identity *identity, int64_t now_s)
{
    return identity->enrolled && now_s > (identity->info.not_before_s + identity->info.not_after_s) / 2;
}
