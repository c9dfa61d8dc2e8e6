/*
 * The listening socket: address texts in and out. Only numeric addresses and "localhost" are taken, so that
 * nothing here asks a name server.
 */
#include "server/link/link_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 512 };

/* Splits "HOST:PORT" or "[V6]:PORT". */
static int split(const char *text, char host[64], uint16_t *port)
{
    const char *colon = strrchr(text, ':');
    char *end;
    if (colon == NULL || colon == text || colon[1] < '0' || colon[1] > '9') {
        return STATUS_INVALID_ARGUMENT;
    }
    unsigned long number = strtoul(colon + 1, &end, 10);
    size_t n = (size_t)(colon - text);
    if (*end != 0 || number > 65535 || n >= 64) {
        return STATUS_INVALID_ARGUMENT;
    }
    if (text[0] == '[' && text[n - 1] == ']') {
        text++;
        n -= 2;
    }
    memcpy(host, text, n);
    host[n] = 0;
    *port = (uint16_t)number;
    return 0;
}

static int parse(const char *text, struct sockaddr_storage *out, socklen_t *size)
{
    char host[64];
    uint16_t port;
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    memset(out, 0, sizeof *out);
    if (split(text, host, &port) != 0) {
        return STATUS_INVALID_ARGUMENT;
    }
    if (inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        *size = sizeof *v4;
        return 0;
    }
    if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
        *size = sizeof *v6;
        return 0;
    }
    return STATUS_INVALID_ARGUMENT;
}

void link_address_text(const void *address, char out[LINK_ADDRESS_BYTES])
{
    const struct sockaddr_storage *any = address;
    char host[INET6_ADDRSTRLEN] = "?";
    if (any->ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = address;
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
        snprintf(out, LINK_ADDRESS_BYTES, "[%s]:%u", host, ntohs(v6->sin6_port));
    } else {
        const struct sockaddr_in *v4 = address;
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
        snprintf(out, LINK_ADDRESS_BYTES, "%s:%u", host, ntohs(v4->sin_port));
    }
}

static bool is_loopback(const struct sockaddr_storage *any)
{
    if (any->ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)any;
        return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
    }
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)any;
    return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
}

int link_listen(struct links *links, struct error *error)
{
    struct sockaddr_storage address;
    socklen_t size;
    int one = 1;
    const char *text = links->options.listen;
    if (text == NULL || parse(text, &address, &size) != 0) {
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "board address \"%s\": expected HOST:PORT with a numeric host",
                         text == NULL ? "" : text);
    }
    links->listener = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (links->listener < 0) {
        return error_set(error, STATUS_IO_FAILED, "cannot listen for boards on %s: %s", text,
                         strerror(errno));
    }
    setsockopt(links->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(links->listener, (struct sockaddr *)&address, size) != 0 ||
        listen(links->listener, BACKLOG) != 0) {
        return error_set(error, errno == EADDRINUSE ? STATUS_CONFLICT : STATUS_IO_FAILED,
                         "cannot listen for boards on %s: %s", text, strerror(errno));
    }
    size = sizeof address;
    getsockname(links->listener, (struct sockaddr *)&address, &size);
    link_address_text(&address, links->address);
    links->loopback = is_loopback(&address);
    links->port = ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                                      : ((struct sockaddr_in *)&address)->sin_port);
    return 0;
}
