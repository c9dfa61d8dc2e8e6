/*
 * The page, both ways, over one list of checks: what the encoder refuses the decoder refuses too, so a page
 * that the command line wrote is one that the board takes.
 */
#include "firmware/core/provision.h"

#include "firmware/core/sha256.h"
#include "shared/base/le.h"

#include <string.h>

enum {
    AT_VERSION = 4,
    AT_BYTES = 6,
    AT_FLAGS = 8,
    AT_ADDRESS = 12,
    AT_MASK = 16,
    AT_GATEWAY = 20,
    AT_DNS = 24,
    AT_NAME = 32,
    AT_HOST = 96,
    AT_PORT = 224,
    AT_CODE = 240,
    AT_TRUST = 304,
    AT_SHA = 480,
    TEXT = 64,
    FLAG_STATIC = 1
};

static int refuse(const char **what, int status, const char *text)
{
    if (what != NULL)
        *what = text;
    return status;
}

bool provision_address(const char *text, uint8_t out[4])
{
    for (int i = 0; i < 4; i++) {
        uint32_t value = 0, digits = 0;
        for (; *text >= '0' && *text <= '9'; text++, digits++)
            value = digits < 3 ? value * 10 + (uint32_t)(*text - '0') : 256;
        if (digits == 0 || value > 255 || (digits > 1 && text[-(int)digits] == '0') ||
            *text++ != (i < 3 ? '.' : 0))
            return false;
        if (out != NULL)
            out[i] = (uint8_t)value;
    }
    return true;
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
}

/* A host name's letters, or an address; one of digits and dots alone must be an address. */
static bool host_valid(const char *host)
{
    bool letters = false;
    if (host[0] == 0 || host[0] == '.' || host[0] == '-')
        return false;
    for (const char *c = host; *c != 0; c++) {
        if (!is_name_char(*c))
            return false;
        letters = letters || !((*c >= '0' && *c <= '9') || *c == '.');
    }
    return letters || provision_address(host, NULL);
}

static bool ends(const char *text)
{
    return memchr(text, 0, TEXT) != NULL;
}

static bool is_zero(const uint8_t *bytes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* Ones from the left, then zeroes; neither none nor all. */
static bool mask_valid(const uint8_t mask[4])
{
    uint32_t m = (uint32_t)mask[0] << 24 | (uint32_t)mask[1] << 16 | (uint32_t)mask[2] << 8 | mask[3];
    return m != 0 && m != UINT32_MAX && (~m & (~m + 1)) == 0;
}

static const char *network_fault(const struct provision *p)
{
    if (!p->is_static)
        return is_zero(p->address, 4) && is_zero(p->mask, 4) && is_zero(p->gateway, 4) && is_zero(p->dns, 4)
                   ? NULL
                   : "an address together with DHCP";
    if (p->address[0] == 0 || p->address[0] == 127 || p->address[0] >= 224)
        return "the static address is not one of a host";
    if (!mask_valid(p->mask))
        return "the mask is not ones followed by zeroes";
    for (int i = 0; i < 4 && !is_zero(p->gateway, 4); i++)
        if ((p->address[i] & p->mask[i]) != (p->gateway[i] & p->mask[i]))
            return "the gateway is not in the board's network";
    for (uint32_t i = 0; i < p->n_servers; i++)
        if (is_zero(p->dns, 4) && !provision_address(p->servers[i].host, NULL))
            return "a server by name needs a DNS server";
    return NULL;
}

static const char *fault(const struct provision *p)
{
    if (p->n_servers < 1 || p->n_servers > PROVISION_SERVERS_MAX)
        return "one or two servers";
    for (uint32_t i = 0; i < p->n_servers; i++) {
        if (!ends(p->servers[i].host) || !host_valid(p->servers[i].host))
            return "a server is neither a name nor an IPv4 address";
        if (p->servers[i].port == 0)
            return "a server's port is zero";
    }
    if (!ends(p->name) || !ends(p->code))
        return "a text is too long";
    for (const char *c = p->name; *c != 0; c++)
        if ((uint8_t)*c < 0x20 || *c == 0x7F)
            return "a control character in the name";
    for (const char *c = p->code; *c != 0; c++)
        if (!is_name_char(*c))
            return "the code has other characters than letters, digits and dashes";
    if (p->code[0] != 0 && is_zero(p->trust, PROVISION_TRUST_BYTES))
        return "a code without the hash of the authority's key";
    return network_fault(p);
}

static void put_text(uint8_t *to, const char *from)
{
    for (uint32_t i = 0; i < TEXT - 1 && from[i] != 0; i++)
        to[i] = (uint8_t)from[i];
}

static void hash_of(const uint8_t *page, uint8_t out[32])
{
    struct board_sha256 sha;
    board_sha256_begin(&sha);
    board_sha256_add(&sha, page, AT_SHA);
    board_sha256_end(&sha, out);
}

int provision_encode(const struct provision *p, uint8_t page[PROVISION_BYTES], const char **what)
{
    const char *text = fault(p);
    if (text != NULL)
        return refuse(what, STATUS_INVALID_ARGUMENT, text);
    memset(page, 0, PROVISION_BYTES);
    memcpy(page, PROVISION_MAGIC, 4);
    le_put16(page + AT_VERSION, PROVISION_VERSION);
    le_put16(page + AT_BYTES, PROVISION_BYTES);
    le_put32(page + AT_FLAGS, p->is_static ? FLAG_STATIC : 0);
    memcpy(page + AT_ADDRESS, p->address, 4);
    memcpy(page + AT_MASK, p->mask, 4);
    memcpy(page + AT_GATEWAY, p->gateway, 4);
    memcpy(page + AT_DNS, p->dns, 4);
    put_text(page + AT_NAME, p->name);
    for (uint32_t i = 0; i < p->n_servers; i++) {
        put_text(page + AT_HOST + i * TEXT, p->servers[i].host);
        le_put16(page + AT_PORT + i * 2, p->servers[i].port);
    }
    put_text(page + AT_CODE, p->code);
    memcpy(page + AT_TRUST, p->trust, PROVISION_TRUST_BYTES);
    hash_of(page, page + AT_SHA);
    return STATUS_OK;
}

static bool is_blank(const uint8_t *page)
{
    for (uint32_t i = 0; i < PROVISION_BYTES; i++)
        if (page[i] != 0xFF)
            return false;
    return true;
}

int provision_decode(const uint8_t page[PROVISION_BYTES], struct provision *p, const char **what)
{
    uint8_t sha[32];
    memset(p, 0, sizeof *p);
    if (is_blank(page))
        return refuse(what, STATUS_NOT_FOUND, "there is no provisioning page");
    if (memcmp(page, PROVISION_MAGIC, 4) != 0)
        return refuse(what, STATUS_INVALID_ARGUMENT, "not a provisioning page");
    if (le_get16(page + AT_VERSION) != PROVISION_VERSION || le_get16(page + AT_BYTES) != PROVISION_BYTES)
        return refuse(what, STATUS_INVALID_ARGUMENT, "a provisioning page of another version");
    hash_of(page, sha);
    if (memcmp(sha, page + AT_SHA, sizeof sha) != 0)
        return refuse(what, STATUS_HASH_MISMATCH, "the provisioning page is damaged");
    p->is_static = (le_get32(page + AT_FLAGS) & FLAG_STATIC) != 0;
    memcpy(p->address, page + AT_ADDRESS, 4);
    memcpy(p->mask, page + AT_MASK, 4);
    memcpy(p->gateway, page + AT_GATEWAY, 4);
    memcpy(p->dns, page + AT_DNS, 4);
    memcpy(p->name, page + AT_NAME, TEXT);
    for (uint32_t i = 0; i < PROVISION_SERVERS_MAX; i++) {
        memcpy(p->servers[i].host, page + AT_HOST + i * TEXT, TEXT);
        p->servers[i].port = le_get16(page + AT_PORT + i * 2);
    }
    p->n_servers = p->servers[1].host[0] != 0 ? 2 : 1;
    memcpy(p->code, page + AT_CODE, TEXT);
    memcpy(p->trust, page + AT_TRUST, PROVISION_TRUST_BYTES);
    const char *text = fault(p);
    if (text == NULL)
        return STATUS_OK;
    memset(p, 0, sizeof *p);
    return refuse(what, STATUS_INVALID_ARGUMENT, text);
}
