/*
 * mbedTLS 2.28 for all Cortex-M ports and the host process over libslirp: a TLS 1.2 client with
 * ECDHE-ECDSA-CHACHA20-POLY1305 on P-256, records of 4,096 bytes, and what a certificate request needs. No
 * clock, so the validity dates of certificates are not looked at; no AES (randomness comes from HMAC_DRBG).
 */
#ifndef SHOAL_FIRMWARE_NET_MBEDTLS_CONFIG_H
#define SHOAL_FIRMWARE_NET_MBEDTLS_CONFIG_H

#define MBEDTLS_HAVE_ASM
#define MBEDTLS_PLATFORM_C
#define MBEDTLS_PLATFORM_MEMORY
#define MBEDTLS_PLATFORM_NO_STD_FUNCTIONS
#define MBEDTLS_MEMORY_BUFFER_ALLOC_C /* all of its heap is one array: net_tls.c */
#define MBEDTLS_MEMORY_DEBUG
#define MBEDTLS_MEMORY_ALIGN_MULTIPLE 8
/* A heap that was written over ends this start; nothing is printed. */
#define MBEDTLS_PLATFORM_EXIT_MACRO(code) net_tls_die()
#define MBEDTLS_PLATFORM_FPRINTF_MACRO(...) ((void)0)
#define MBEDTLS_PLATFORM_PRINTF_MACRO(...) ((void)0)
#define MBEDTLS_PLATFORM_SNPRINTF_MACRO net_tls_snprintf
_Noreturn void net_tls_die(void);
int net_tls_snprintf(char *to, __SIZE_TYPE__ room, const char *format, ...);

#define MBEDTLS_NO_PLATFORM_ENTROPY
#define MBEDTLS_ENTROPY_C
#define MBEDTLS_ENTROPY_HARDWARE_ALT
#define MBEDTLS_ENTROPY_FORCE_SHA256
#define MBEDTLS_HMAC_DRBG_C

#define MBEDTLS_MD_C
#define MBEDTLS_SHA256_C
#define MBEDTLS_CIPHER_C
#define MBEDTLS_CHACHA20_C
#define MBEDTLS_POLY1305_C
#define MBEDTLS_CHACHAPOLY_C

#define MBEDTLS_BIGNUM_C
#define MBEDTLS_MPI_MAX_SIZE 64
#define MBEDTLS_ECP_C
#define MBEDTLS_ECP_DP_SECP256R1_ENABLED
#define MBEDTLS_ECP_NIST_OPTIM
#define MBEDTLS_ECP_WINDOW_SIZE 4
#define MBEDTLS_ECP_FIXED_POINT_OPTIM 1
#define MBEDTLS_ECDH_C
#define MBEDTLS_ECDSA_C
#define MBEDTLS_ECDSA_DETERMINISTIC

#define MBEDTLS_ASN1_PARSE_C
#define MBEDTLS_ASN1_WRITE_C
#define MBEDTLS_OID_C
#define MBEDTLS_PK_C
#define MBEDTLS_PK_PARSE_C
#define MBEDTLS_PK_WRITE_C
#define MBEDTLS_X509_USE_C
#define MBEDTLS_X509_CRT_PARSE_C
#define MBEDTLS_X509_CHECK_KEY_USAGE
#define MBEDTLS_X509_CHECK_EXTENDED_KEY_USAGE
#define MBEDTLS_X509_CREATE_C
#define MBEDTLS_X509_CSR_WRITE_C

#define MBEDTLS_SSL_TLS_C
#define MBEDTLS_SSL_CLI_C
#define MBEDTLS_SSL_PROTO_TLS1_2
#define MBEDTLS_KEY_EXCHANGE_ECDHE_ECDSA_ENABLED
#define MBEDTLS_SSL_MAX_FRAGMENT_LENGTH
#define MBEDTLS_SSL_EXTENDED_MASTER_SECRET
#define MBEDTLS_SSL_SESSION_TICKETS
#define MBEDTLS_SSL_KEEP_PEER_CERTIFICATE
#define MBEDTLS_SSL_IN_CONTENT_LEN 4096
#define MBEDTLS_SSL_OUT_CONTENT_LEN 4096

#include "mbedtls/check_config.h"

#endif
