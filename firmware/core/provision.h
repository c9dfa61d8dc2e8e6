/*
 * The provisioning page: what a new board must know before it has ever spoken to a server. `shoal board
 * provision` writes it next to the firmware in one .hex file; the board only reads it. No secret lies in it
 * but the one-time code, which is spent when the board has its certificate; keys are made on the board
 * (identity.h).
 *
 * The page is 512 bytes at FLASHMAP_PROVISION, little-endian, the rest of its block is erased:
 *
 *     0 "SHPV"  4 u16 version  6 u16 bytes  8 u32 flags  12 address  16 mask  20 gateway  24 dns  28 zero
 *     32 name[64]  96 host[64]  160 host[64]  224 u16 port  226 u16 port  228 zero
 *     240 code[64]  304 trust[16]  320 zero  480 SHA-256 of bytes 0..480
 *
 * Texts end with a NUL and are zero behind it. Encoder and decoder are pure; any thread.
 */
#ifndef SHOAL_FIRMWARE_CORE_PROVISION_H
#define SHOAL_FIRMWARE_CORE_PROVISION_H

#include "shared/base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define PROVISION_MAGIC "SHPV"

enum {
    PROVISION_VERSION = 1,
    PROVISION_BYTES = 512,
    PROVISION_SERVERS_MAX = 2,
    PROVISION_NAME_MAX = 63, /* bytes, without the end; so are the next two */
    PROVISION_HOST_MAX = 63,
    PROVISION_CODE_MAX = 63,
    PROVISION_TRUST_BYTES = 16
};

struct provision_server {
    char host[PROVISION_HOST_MAX + 1]; /* a name, or an IPv4 address as 192.0.2.7 */
    uint16_t port;                     /* 1.. */
};

struct provision {
    char name[PROVISION_NAME_MAX + 1];                      /* that the board asks for; "" none */
    struct provision_server servers[PROVISION_SERVERS_MAX]; /* tried in turn (reconnect.h) */
    uint32_t n_servers;                                     /* 1 or 2 */
    /* The enrolment code as ENROL carries it, "" when the board is enrolled already. */
    char code[PROVISION_CODE_MAX + 1];
    uint8_t trust[PROVISION_TRUST_BYTES]; /* first bytes of the SHA-256 of the authority's public key (DER) */
    bool is_static;                       /* else DHCP, and the four below are zero */
    uint8_t address[4], mask[4], gateway[4], dns[4]; /* gateway and dns may be zero: none */
};

/* Errors of both: STATUS_INVALID_ARGUMENT, *what (may be NULL) says in a few words what is wrong. */
int provision_encode(const struct provision *provision, uint8_t page[PROVISION_BYTES], const char **what);
/* Also STATUS_NOT_FOUND: the page is blank; STATUS_HASH_MISMATCH: it is damaged. */
int provision_decode(const uint8_t page[PROVISION_BYTES], struct provision *provision, const char **what);

/* True for "192.0.2.7" (four numbers to 255, no leading zeroes); out may be NULL. */
bool provision_address(const char *text, uint8_t out[4]);

#endif
