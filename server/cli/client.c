/*
 * HTTP over a socket, no more than the server's own answers need: status line, Content-Length, chunked, or to
 * the end of the connection. Sending stops as soon as an answer begins, so that a refusal of a long upload is
 * read. Every wait is against one deadline.
 */
#include "server/cli/client.h"

#include "server/base/bytes.h"
#include "server/base/clock.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD_MAX = 65536 };

int client_open(struct client *client, const char *url, bool json, struct error *error)
{
    memset(client, 0, sizeof *client);
    client->json = json;
    if (!url)
        url = getenv("SHOAL_URL");
    if (!url || !*url)
        url = "http://127.0.0.1:8080";
    const char *host = strncasecmp(url, "http://", 7) == 0 ? url + 7 : NULL;
    size_t n = host ? strcspn(host, "/?#") : 0;
    const char *bracket = n && host[0] == '[' ? memchr(host, ']', n) : NULL;
    size_t host_n = bracket ? (size_t)(bracket - host) + 1 : host ? strcspn(host, ":/?#") : 0;
    size_t port_n = n > host_n + 1 ? n - host_n - 1 : 0;
    bool good = host && host_n > 0 && host_n < sizeof client->host && (host[0] != '[' || bracket) &&
                (host[n] == 0 || strcmp(host + n, "/") == 0) && (n == host_n || host[host_n] == ':') &&
                port_n < 6 && (n == host_n || port_n > 0) &&
                strspn(host + host_n + (n > host_n), "0123456789") >= port_n;
    if (!good)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "a server's address is http://HOST:PORT, not '%.200s'", url);
    size_t skip = bracket ? 1 : 0;
    memcpy(client->host, host + skip, host_n - 2 * skip);
    (void)snprintf(client->port, sizeof client->port, "%.*s", port_n ? (int)port_n : 2,
                   port_n ? host + host_n + 1 : "80");
    (void)snprintf(client->authority, sizeof client->authority, "%.*s", (int)n, host);
    return 0;
}

/* ---- one exchange ---- */

struct talk {
    int fd;
    uint64_t deadline_us;
    struct bytes in;
    size_t at; /* read so far of `in` */
    bool ended;
    struct error *error;
    const struct client *client;
};

static int lost(struct talk *talk, const char *what)
{
    return error_set(talk->error, STATUS_OFFLINE, "no answer from http://%s: %s", talk->client->authority,
                     what);
}

/* Waits for `events`; what came, or a negative status. */
static int wait_for(struct talk *talk, short events)
{
    for (;;) {
        uint64_t now = clock_monotonic_us();
        if (now >= talk->deadline_us)
            return error_set(talk->error, STATUS_DEADLINE, "http://%s did not answer in time",
                             talk->client->authority);
        uint64_t left_ms = (talk->deadline_us - now) / 1000 + 1;
        struct pollfd poller = {.fd = talk->fd, .events = events};
        int n = poll(&poller, 1, left_ms > 60000 ? 60000 : (int)left_ms);
        if (n > 0)
            return poller.revents;
        if (n < 0 && errno != EINTR)
            return lost(talk, strerror(errno));
    }
}

static int connect_one(struct talk *talk, const struct addrinfo *address)
{
    talk->fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (talk->fd < 0)
        return errno;
    int failure = 0, one = 1;
    socklen_t n = sizeof failure;
    (void)setsockopt(talk->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(talk->fd, address->ai_addr, address->ai_addrlen) != 0) {
        failure = errno;
        if (failure == EINPROGRESS) {
            if (wait_for(talk, POLLOUT) < 0)
                return ETIMEDOUT;
            (void)getsockopt(talk->fd, SOL_SOCKET, SO_ERROR, &failure, &n);
        }
    }
    if (failure) {
        close(talk->fd);
        talk->fd = -1;
    }
    return failure;
}

static int connect_any(struct talk *talk)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    int failure = getaddrinfo(talk->client->host, talk->client->port, &hints, &list);
    if (failure)
        return lost(talk, gai_strerror(failure));
    failure = ECONNREFUSED;
    for (const struct addrinfo *at = list; at && failure; at = at->ai_next)
        failure = connect_one(talk, at);
    freeaddrinfo(list);
    if (failure == ECONNREFUSED)
        return lost(talk,
                    "nothing listens there; --url or SHOAL_URL names the server, `make run` starts one");
    return failure ? lost(talk, strerror(failure)) : 0;
}

/* Reads what is there; 0 when something came or the connection ended. */
static int read_more(struct talk *talk)
{
    unsigned char buffer[16384];
    for (;;) {
        ssize_t n = recv(talk->fd, buffer, sizeof buffer, 0);
        if (n > 0) {
            int status = bytes_append(&talk->in, buffer, (size_t)n);
            return status < 0 ? error_set(talk->error, (enum status)status, "the answer is too long") : 0;
        }
        if (n == 0) {
            talk->ended = true;
            return 0;
        }
        if (errno == EAGAIN) {
            int events = wait_for(talk, POLLIN);
            if (events < 0)
                return events;
        } else if (errno != EINTR) {
            if (talk->in.size) { /* reset behind a whole answer: what came is judged */
                talk->ended = true;
                return 0;
            }
            return lost(talk, strerror(errno));
        }
    }
}

/* Sends all of it, or stops early when the server begins to answer or closes. */
static int send_all(struct talk *talk, const unsigned char *bytes, size_t n, bool *answering)
{
    while (n && !*answering) {
        int events = wait_for(talk, POLLIN | POLLOUT);
        if (events < 0)
            return events;
        if (events & (POLLIN | POLLHUP | POLLERR)) {
            *answering = true;
            break;
        }
        ssize_t done = send(talk->fd, bytes, n, MSG_NOSIGNAL);
        if (done < 0 && (errno == EPIPE || errno == ECONNRESET))
            *answering = true;
        else if (done < 0 && errno != EAGAIN && errno != EINTR)
            return lost(talk, strerror(errno));
        if (done > 0) {
            bytes += done;
            n -= (size_t)done;
        }
    }
    return 0;
}

static int send_request(struct talk *talk, const struct client_request *request)
{
    struct bytes head;
    bytes_init(&head, HEAD_MAX);
    bytes_printf(&head, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nAccept: application/json\r\n",
                 request->method, request->path, talk->client->authority);
    if (request->content_type)
        bytes_printf(&head, "Content-Type: %s\r\n", request->content_type);
    if (request->body || strcmp(request->method, "GET") != 0)
        bytes_printf(&head, "Content-Length: %zu\r\n", request->body_bytes);
    bytes_printf(&head, "\r\n");
    bool answering = false;
    int status = head.status < 0 ? error_set(talk->error, (enum status)head.status, "the request is too long")
                                 : send_all(talk, head.data, head.size, &answering);
    bytes_free(&head);
    if (status == 0)
        status = send_all(talk, request->body, request->body_bytes, &answering);
    return status;
}

/* ---- the answer ---- */

static int no_http(struct talk *talk)
{
    return error_set(talk->error, STATUS_WIRE_MALFORMED, "what answers at http://%s is no HTTP",
                     talk->client->authority);
}

/* The next line without its end, from `at` on; NULL with *status set when there is none. */
static char *read_line(struct talk *talk, int *status)
{
    *status = 0;
    for (;;) {
        char *from = (char *)talk->in.data + talk->at;
        char *end = talk->in.size > talk->at ? memchr(from, '\n', talk->in.size - talk->at) : NULL;
        if (end) {
            talk->at += (size_t)(end - from) + 1;
            *end = 0;
            if (end > from && end[-1] == '\r')
                end[-1] = 0;
            return from;
        }
        if (talk->in.size - talk->at > HEAD_MAX)
            *status = no_http(talk);
        else if (talk->ended)
            *status = lost(talk, "the connection ended");
        else
            *status = read_more(talk);
        if (*status < 0)
            return NULL;
    }
}

/* Makes sure that `n` bytes are there behind `at`. */
static int need(struct talk *talk, size_t n)
{
    while (talk->in.size - talk->at < n) {
        int status = talk->ended ? lost(talk, "the connection ended") : read_more(talk);
        if (status < 0)
            return status;
    }
    return 0;
}

struct head {
    int status;
    int64_t length; /* -1: not stated */
    bool chunked;
};

static int read_head(struct talk *talk, struct head *head)
{
    int status;
    *head = (struct head){.length = -1};
    const char *line = read_line(talk, &status);
    if (!line)
        return status;
    if (strncmp(line, "HTTP/1.", 7) != 0 || strlen(line) < 12 || !isdigit((unsigned char)line[9]))
        return no_http(talk);
    head->status = (int)strtol(line + 9, NULL, 10);
    while ((line = read_line(talk, &status)) != NULL && *line) {
        if (strncasecmp(line, "Content-Length:", 15) == 0)
            head->length = strtoll(line + 15, NULL, 10);
        else if (strncasecmp(line, "Transfer-Encoding:", 18) == 0)
            head->chunked = strcasestr(line + 18, "chunked") != NULL;
    }
    if (!line)
        return status;
    return head->length < -1 || head->length > CLIENT_ANSWER_MAX ? no_http(talk) : 0;
}

static int read_chunks(struct talk *talk, struct bytes *body)
{
    for (;;) {
        int status;
        const char *line = read_line(talk, &status);
        if (!line)
            return status;
        char *end;
        unsigned long long n = strtoull(line, &end, 16);
        if (end == line || n > CLIENT_ANSWER_MAX)
            return no_http(talk);
        if (n == 0)
            return 0;
        status = need(talk, (size_t)n + 2);
        if (status < 0)
            return status;
        if (bytes_append(body, talk->in.data + talk->at, (size_t)n) < 0)
            return error_set(talk->error, STATUS_TOO_LARGE, "the answer is too long");
        talk->at += (size_t)n + 2;
    }
}

static int read_body(struct talk *talk, const struct head *head, struct bytes *body)
{
    if (head->chunked)
        return read_chunks(talk, body);
    int status = 0;
    if (head->length >= 0)
        status = need(talk, (size_t)head->length);
    while (head->length < 0 && status == 0 && !talk->ended)
        status = read_more(talk);
    if (status < 0)
        return status;
    size_t n = head->length >= 0 ? (size_t)head->length : talk->in.size - talk->at;
    return bytes_append(body, talk->in.data + talk->at, n);
}

static int read_answer(struct talk *talk, struct client_answer *answer)
{
    struct head head;
    struct bytes body;
    bytes_init(&body, (size_t)CLIENT_ANSWER_MAX + 1);
    int status;
    do
        status = read_head(talk, &head);
    while (status == 0 && head.status == 100);
    if (status == 0)
        status = read_body(talk, &head, &body);
    if (status == 0)
        bytes_put8(&body, 0);
    size_t size;
    answer->body = status == 0 ? bytes_take(&body, &size) : NULL;
    if (status == 0 && !answer->body)
        status = error_set(talk->error, STATUS_NO_MEMORY, "out of memory");
    if (status < 0) {
        bytes_free(&body);
        return status;
    }
    answer->body_bytes = size - 1;
    answer->status = head.status;
    return 0;
}

int client_ask(struct client *client, const struct client_request *request, struct client_answer *answer,
               struct error *error)
{
    int64_t timeout_ms = request->timeout_ms ? request->timeout_ms : CLIENT_TIMEOUT_MS;
    struct talk talk = {.fd = -1,
                        .deadline_us = clock_monotonic_us() + (uint64_t)timeout_ms * 1000,
                        .error = error,
                        .client = client};
    memset(answer, 0, sizeof *answer);
    bytes_init(&talk.in, (size_t)CLIENT_ANSWER_MAX + 2 * HEAD_MAX);
    int status = connect_any(&talk);
    if (status == 0)
        status = send_request(&talk, request);
    if (status == 0)
        status = read_answer(&talk, answer);
    if (talk.fd >= 0)
        close(talk.fd);
    bytes_free(&talk.in);
    return status;
}

/* ---- JSON ---- */

/* A refusal for people: message, place, and what is missing on which board. */
static void print_refusal(const json_t *error, int http)
{
    const char *message = json_string_value(json_object_get(error, "message"));
    json_t *detail = json_object_get(error, "detail"), *item;
    (void)fprintf(stderr, "shoal: %s", message ? message : "the server refused");
    if (!message)
        (void)fprintf(stderr, " (HTTP %d)", http);
    static const char *const places[] = {"layer", "op", "board", "deployment"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *place = json_string_value(json_object_get(detail, places[i]));
        if (place && (!message || !strstr(message, place)))
            (void)fprintf(stderr, "; %s %s", places[i], place);
    }
    if (json_object_get(detail, "offset"))
        (void)fprintf(stderr, "; at byte %lld",
                      (long long)json_integer_value(json_object_get(detail, "offset")));
    (void)fputc('\n', stderr);
    size_t i;
    json_array_foreach(json_object_get(detail, "shortfalls"), i, item)
    {
        const char *board = json_string_value(json_object_get(item, "board"));
        const char *resource = json_string_value(json_object_get(item, "resource"));
        (void)fprintf(stderr, "  board %s: %s is short of %lld bytes\n", board ? board : "?",
                      resource ? resource : "?",
                      (long long)json_integer_value(json_object_get(item, "missing_bytes")));
    }
    json_array_foreach(json_object_get(detail, "try"), i, item)
    {
        const char *text = json_string_value(json_is_string(item) ? item : json_object_get(item, "text"));
        const char *dashes = json_object_get(item, "replace") ? "--" : ""; /* an option of that name */
        (void)fprintf(stderr, "  it would fit with %s%s\n", dashes, text ? text : "another plan");
    }
}

int client_take(struct client *client, struct client_answer *answer, json_t **json)
{
    json_error_t where;
    json_t *document =
        json_loadb((const char *)answer->body, answer->body_bytes, JSON_REJECT_DUPLICATES, &where);
    int status = answer->status;
    free(answer->body);
    answer->body = NULL;
    *json = NULL;
    if (status >= 200 && status < 300 && document) {
        *json = document;
        return CLI_DONE;
    }
    print_refusal(json_object_get(document, "error"), status);
    if (client->json && document)
        (void)cli_print_json(document);
    else
        json_decref(document);
    return status == 503 ? CLI_OUT_OF_REACH : status == 504 ? CLI_DEADLINE_PASSED : CLI_REFUSED;
}

int client_json(struct client *client, const char *method, const char *path, json_t *body, int64_t timeout_ms,
                json_t **json)
{
    struct error error;
    error_clear(&error);
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    *json = NULL;
    bool no_memory = body && !text;
    json_decref(body);
    struct client_request request = {.method = method,
                                     .path = path,
                                     .content_type = text ? "application/json" : NULL,
                                     .body = text,
                                     .body_bytes = text ? strlen(text) : 0,
                                     .timeout_ms = timeout_ms};
    struct client_answer answer;
    int status = no_memory ? error_set(&error, STATUS_NO_MEMORY, "out of memory")
                           : client_ask(client, &request, &answer, &error);
    free(text);
    return status < 0 ? cli_fail(client->json, &error) : client_take(client, &answer, json);
}

char *client_encode(const char *text)
{
    char *out = malloc(strlen(text) * 3 + 1), *at = out;
    for (; out && *text; text++)
        if (isalnum((unsigned char)*text) || strchr("-._~", *text))
            *at++ = *text;
        else
            at += snprintf(at, 4, "%%%02X", (unsigned)(unsigned char)*text);
    if (out)
        *at = 0;
    return out;
}
