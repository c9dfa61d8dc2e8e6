/*
 * The certificate authority and enrolment codes. The requests are made with mbedTLS alone, as a board would.
 */
#include "server/ca/ca.h"
#include "server/ca/enrol_code.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "mbedtls/ctr_drbg.h"
#include "mbedtls/entropy.h"
#include "mbedtls/pk.h"
#include "mbedtls/x509_crt.h"
#include "mbedtls/x509_csr.h"

#include <ctype.h>
#include <string.h>
#include <time.h>

static mbedtls_entropy_context entropy;
static mbedtls_ctr_drbg_context drbg;

static void make_key(mbedtls_pk_context *key, mbedtls_ecp_group_id group)
{
    mbedtls_pk_init(key);
    assert_int_equal(0, mbedtls_pk_setup(key, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY)));
    assert_int_equal(0, mbedtls_ecp_gen_key(group, mbedtls_pk_ec(*key), mbedtls_ctr_drbg_random, &drbg));
}

static size_t make_request(mbedtls_pk_context *key, const char *name, uint8_t out[CA_DER_MAX])
{
    mbedtls_x509write_csr writer;
    mbedtls_x509write_csr_init(&writer);
    mbedtls_x509write_csr_set_md_alg(&writer, MBEDTLS_MD_SHA256);
    mbedtls_x509write_csr_set_key(&writer, key);
    assert_int_equal(0, mbedtls_x509write_csr_set_subject_name(&writer, name));
    int n = mbedtls_x509write_csr_der(&writer, out, CA_DER_MAX, mbedtls_ctr_drbg_random, &drbg);
    assert_true(n > 0);
    memmove(out, out + CA_DER_MAX - n, (size_t)n);
    mbedtls_x509write_csr_free(&writer);
    return (size_t)n;
}

static struct ca *make_ca(void)
{
    struct ca_der key, certificate;
    struct ca *ca = NULL;
    assert_int_equal(0, ca_create((int64_t)time(NULL), &key, &certificate, NULL));
    assert_int_equal(0, ca_open(key.bytes, key.size, certificate.bytes, certificate.size, &ca, NULL));
    return ca;
}

static uint32_t verify(const struct ca *ca, const struct ca_der *certificate)
{
    mbedtls_x509_crt leaf, root;
    uint32_t flags = 0;
    mbedtls_x509_crt_init(&leaf);
    mbedtls_x509_crt_init(&root);
    assert_int_equal(0, mbedtls_x509_crt_parse_der(&leaf, certificate->bytes, certificate->size));
    assert_int_equal(0,
                     mbedtls_x509_crt_parse_der(&root, ca_certificate(ca)->bytes, ca_certificate(ca)->size));
    mbedtls_x509_crt_verify(&leaf, &root, NULL, NULL, &flags, NULL, NULL);
    mbedtls_x509_crt_free(&leaf);
    mbedtls_x509_crt_free(&root);
    return flags;
}

static int usage(const struct ca_der *certificate, const char *oid, size_t n)
{
    mbedtls_x509_crt leaf;
    mbedtls_x509_crt_init(&leaf);
    assert_int_equal(0, mbedtls_x509_crt_parse_der(&leaf, certificate->bytes, certificate->size));
    int rc = mbedtls_x509_crt_check_extended_key_usage(&leaf, oid, n);
    mbedtls_x509_crt_free(&leaf);
    return rc;
}

static void board_certificate_verifies_under_its_own_authority_only(void **state)
{
    (void)state;
    struct ca *ours = make_ca(), *other = make_ca();
    mbedtls_pk_context key;
    uint8_t request[CA_DER_MAX];
    struct ca_der certificate;
    struct ca_info info;
    make_key(&key, MBEDTLS_ECP_DP_SECP256R1);
    size_t n = make_request(&key, "CN=anything", request);
    int64_t now = (int64_t)time(NULL);
    assert_int_equal(0, ca_issue_board(ours, request, n, now, CA_BOARD_DAYS, &certificate, &info, NULL));
    assert_int_equal(0, verify(ours, &certificate));
    assert_true((verify(other, &certificate) & MBEDTLS_X509_BADCERT_NOT_TRUSTED) != 0);
    assert_int_equal(now + 90 * 86400, info.not_after_s);
    assert_int_equal(now - CA_BACKDATE_S, info.not_before_s);
    mbedtls_pk_free(&key);
    ca_free(ours);
    ca_free(other);
}

static void board_id_is_the_hash_of_its_key_and_survives_renewal(void **state)
{
    (void)state;
    struct ca *ca = make_ca();
    mbedtls_pk_context key;
    uint8_t request[CA_DER_MAX], spki[256];
    struct ca_der first, second;
    struct ca_info a, b;
    char expected[CA_ID_BYTES], asked[CA_ID_BYTES];
    make_key(&key, MBEDTLS_ECP_DP_SECP256R1);
    int spki_size = mbedtls_pk_write_pubkey_der(&key, spki, sizeof spki);
    ca_board_id(spki + sizeof spki - spki_size, (size_t)spki_size, expected);
    size_t n = make_request(&key, "CN=0123456789abcdef0123456789abcdef", request);
    assert_int_equal(0, ca_request_board(request, n, asked));
    assert_int_equal(0, ca_issue_board(ca, request, n, (int64_t)time(NULL), CA_BOARD_DAYS, &first, &a, NULL));
    assert_int_equal(0,
                     ca_issue_board(ca, request, n, (int64_t)time(NULL), CA_BOARD_DAYS, &second, &b, NULL));
    assert_string_equal(expected, a.board);
    assert_string_equal(expected, b.board);
    assert_string_equal(expected, asked);
    assert_string_not_equal(a.serial, b.serial);
    assert_string_not_equal(a.fingerprint, b.fingerprint);
    assert_int_equal(32, strlen(a.serial));
    mbedtls_pk_free(&key);
    ca_free(ca);
}

static void request_with_a_wrong_signature_is_refused(void **state)
{
    (void)state;
    struct ca *ca = make_ca();
    mbedtls_pk_context key, thief;
    uint8_t request[CA_DER_MAX], other[CA_DER_MAX];
    struct ca_der certificate;
    struct error error;
    make_key(&key, MBEDTLS_ECP_DP_SECP256R1);
    make_key(&thief, MBEDTLS_ECP_DP_SECP256R1);
    size_t n = make_request(&key, "CN=a", request);
    size_t m = make_request(&thief, "CN=a", other);
    /* The public key of one under the signature of the other: the 65-byte point lies at the same place. */
    uint8_t point[65];
    size_t point_size = 0;
    mbedtls_ecp_point_write_binary(&mbedtls_pk_ec(key)->grp, &mbedtls_pk_ec(key)->Q,
                                   MBEDTLS_ECP_PF_UNCOMPRESSED, &point_size, point, sizeof point);
    uint8_t *at = memmem(request, n, point, sizeof point);
    assert_non_null(at);
    memcpy(other + (at - request), point, sizeof point);
    error_clear(&error);
    assert_int_equal(STATUS_INVALID_ARGUMENT, ca_issue_board(ca, other, m, (int64_t)time(NULL), CA_BOARD_DAYS,
                                                             &certificate, NULL, &error));
    assert_non_null(strstr(error.message, "signature is wrong"));
    mbedtls_pk_free(&key);
    mbedtls_pk_free(&thief);
    ca_free(ca);
}

static void truncated_or_flipped_request_never_gets_a_certificate_for_another_key(void **state)
{
    (void)state;
    struct ca *ca = make_ca();
    mbedtls_pk_context key;
    uint8_t request[CA_DER_MAX], copy[CA_DER_MAX];
    struct ca_der certificate;
    make_key(&key, MBEDTLS_ECP_DP_SECP256R1);
    size_t n = make_request(&key, "CN=a", request);
    for (size_t cut = 0; cut < n; cut++) {
        memcpy(copy, request, cut);
        assert_true(ca_issue_board(ca, copy, cut, 0, 1, &certificate, NULL, NULL) < 0);
    }
    for (size_t at = 0; at < n; at += 3) {
        struct ca_info info;
        char id[CA_ID_BYTES];
        assert_int_equal(0, ca_request_board(request, n, id));
        memcpy(copy, request, n);
        copy[at] ^= 0x10;
        if (ca_issue_board(ca, copy, n, 0, 1, &certificate, &info, NULL) == 0) {
            assert_string_equal(id, info.board);
        }
    }
    mbedtls_pk_free(&key);
    ca_free(ca);
}

static void request_with_another_curve_is_refused(void **state)
{
    (void)state;
    struct ca *ca = make_ca();
    mbedtls_pk_context key;
    uint8_t request[CA_DER_MAX];
    struct ca_der certificate;
    struct error error;
    make_key(&key, MBEDTLS_ECP_DP_SECP384R1);
    size_t n = make_request(&key, "CN=a", request);
    error_clear(&error);
    assert_int_equal(STATUS_INVALID_ARGUMENT,
                     ca_issue_board(ca, request, n, 0, 1, &certificate, NULL, &error));
    assert_non_null(strstr(error.message, "not P-256"));
    mbedtls_pk_free(&key);
    ca_free(ca);
}

static void usages_keep_server_and_board_apart(void **state)
{
    (void)state;
    static const char server[] = "\x2b\x06\x01\x05\x05\x07\x03\x01",
                      client[] = "\x2b\x06\x01\x05\x05\x07\x03\x02";
    struct ca *ca = make_ca();
    mbedtls_pk_context key;
    uint8_t request[CA_DER_MAX];
    struct ca_der board, server_key, server_certificate;
    int64_t now = (int64_t)time(NULL);
    make_key(&key, MBEDTLS_ECP_DP_SECP256R1);
    size_t n = make_request(&key, "CN=a", request);
    assert_int_equal(0, ca_issue_board(ca, request, n, now, 1, &board, NULL, NULL));
    assert_int_equal(0, ca_issue_server(ca, now, 365, &server_key, &server_certificate, NULL));
    assert_int_equal(0, verify(ca, &server_certificate));
    assert_int_equal(0, usage(&server_certificate, server, 8));
    assert_int_not_equal(0, usage(&server_certificate, client, 8));
    assert_int_equal(0, usage(&board, client, 8));
    assert_int_not_equal(0, usage(&board, server, 8));
    /* Both certificates that the server sends fit one 4096-byte record with room to spare. */
    assert_true(server_certificate.size + ca_certificate(ca)->size < 1300);
    mbedtls_pk_free(&key);
    ca_free(ca);
}

static void negative_days_make_an_expired_certificate(void **state)
{
    (void)state;
    struct ca *ca = make_ca();
    mbedtls_pk_context key;
    uint8_t request[CA_DER_MAX];
    struct ca_der certificate;
    make_key(&key, MBEDTLS_ECP_DP_SECP256R1);
    size_t n = make_request(&key, "CN=a", request);
    assert_int_equal(0, ca_issue_board(ca, request, n, (int64_t)time(NULL), -1, &certificate, NULL, NULL));
    assert_int_equal(MBEDTLS_X509_BADCERT_EXPIRED, verify(ca, &certificate));
    mbedtls_pk_free(&key);
    ca_free(ca);
}

static void authority_opens_only_with_its_own_key(void **state)
{
    (void)state;
    struct ca_der key_a, key_b, certificate_a, certificate_b;
    struct ca *ca = NULL;
    assert_int_equal(0, ca_create(0, &key_a, &certificate_a, NULL));
    assert_int_equal(0, ca_create(0, &key_b, &certificate_b, NULL));
    assert_int_equal(STATUS_INVALID_ARGUMENT,
                     ca_open(key_b.bytes, key_b.size, certificate_a.bytes, certificate_a.size, &ca, NULL));
    assert_null(ca);
    assert_int_equal(STATUS_INVALID_ARGUMENT, ca_open(key_a.bytes, key_a.size - 1, certificate_a.bytes,
                                                      certificate_a.size, &ca, NULL));
    assert_int_equal(0, ca_open(key_a.bytes, key_a.size, certificate_a.bytes, certificate_a.size, &ca, NULL));
    ca_free(ca);
}

static void code_round_trips_whatever_its_case_and_dashes(void **state)
{
    (void)state;
    uint8_t hash[32];
    for (int i = 0; i < 200; i++) {
        struct enrol_code code, back;
        char text[ENROL_CODE_BYTES], plain[ENROL_CODE_BYTES];
        mbedtls_ctr_drbg_random(&drbg, hash, sizeof hash);
        enrol_code_make(hash, &code);
        enrol_code_format(&code, text);
        assert_int_equal(ENROL_CODE_BYTES - 1, strlen(text));
        assert_int_equal(0, enrol_code_parse(text, &back));
        assert_memory_equal(&code, &back, sizeof code);
        size_t n = 0;
        for (const char *p = text; *p != 0; p++) {
            if (*p != '-') {
                plain[n++] = (char)tolower((unsigned char)*p);
            }
        }
        plain[n] = 0;
        assert_int_equal(ENROL_CODE_CHARS, n);
        assert_int_equal(0, enrol_code_parse(plain, &back));
        assert_memory_equal(&code, &back, sizeof code);
        assert_true(enrol_code_trusts(&back, hash));
        hash[15] ^= 1;
        assert_false(enrol_code_trusts(&back, hash));
    }
}

static void code_follows_the_base32_alphabet(void **state)
{
    (void)state;
    struct enrol_code code;
    char text[ENROL_CODE_BYTES];
    memset(&code, 0, sizeof code);
    memcpy(code.secret, "foobarfoob", 10); /* RFC 4648: "foobarfoob" starts MZXW6YTBOJTG633C */
    enrol_code_format(&code, text);
    assert_string_equal("MZXW6Y-TBOJTG-633CAA-AAAAAA-AAAAAA-AAAAAA-AAAAAA", text);
}

static void text_that_is_no_code_is_refused(void **state)
{
    (void)state;
    struct enrol_code code;
    assert_int_equal(STATUS_CODE_WRONG, enrol_code_parse("", &code));
    assert_int_equal(STATUS_CODE_WRONG, enrol_code_parse("ABCDEF", &code));
    assert_int_equal(STATUS_CODE_WRONG,
                     enrol_code_parse("MZXW6Y-TBOJTG-633CAA-AAAAAA-AAAAAA-AAAAAA-AAAAA9", &code));
    assert_int_equal(STATUS_CODE_WRONG,
                     enrol_code_parse("MZXW6Y-TBOJTG-633CAA-AAAAAA-AAAAAA-AAAAAA-AAAAAAA", &code));
    assert_int_equal(STATUS_CODE_WRONG,
                     enrol_code_parse("MZXW6Y-TBOJTG-633CAA-AAAAAA-AAAAAA-AAAAAA-AAAAAB", &code));
    assert_int_equal(0, enrol_code_parse("MZXW6Y TBOJTG 633CAA AAAAAA AAAAAA AAAAAA AAAAAA\n", &code));
}

static void secrets_differ_in_any_single_byte(void **state)
{
    (void)state;
    uint8_t a[ENROL_SECRET_BYTES] = {1, 2, 3}, b[ENROL_SECRET_BYTES];
    memcpy(b, a, sizeof a);
    assert_true(enrol_code_equal(a, b));
    for (size_t i = 0; i < sizeof a; i++) {
        b[i] ^= 0x80;
        assert_false(enrol_code_equal(a, b));
        b[i] ^= 0x80;
    }
}

int main(void)
{
    mbedtls_entropy_init(&entropy);
    mbedtls_ctr_drbg_init(&drbg);
    if (mbedtls_ctr_drbg_seed(&drbg, mbedtls_entropy_func, &entropy, NULL, 0) != 0) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(board_certificate_verifies_under_its_own_authority_only),
        cmocka_unit_test(board_id_is_the_hash_of_its_key_and_survives_renewal),
        cmocka_unit_test(request_with_a_wrong_signature_is_refused),
        cmocka_unit_test(truncated_or_flipped_request_never_gets_a_certificate_for_another_key),
        cmocka_unit_test(request_with_another_curve_is_refused),
        cmocka_unit_test(usages_keep_server_and_board_apart),
        cmocka_unit_test(negative_days_make_an_expired_certificate),
        cmocka_unit_test(authority_opens_only_with_its_own_key),
        cmocka_unit_test(code_round_trips_whatever_its_case_and_dashes),
        cmocka_unit_test(code_follows_the_base32_alphabet),
        cmocka_unit_test(text_that_is_no_code_is_refused),
        cmocka_unit_test(secrets_differ_in_any_single_byte),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    mbedtls_ctr_drbg_free(&drbg);
    mbedtls_entropy_free(&entropy);
    return failed;
}
