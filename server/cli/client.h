/*
 * The command line's way to a server: one HTTP/1.1 request on a connection of its own, with a deadline for
 * the whole of it. Main thread only.
 */
#ifndef SHOAL_SERVER_CLI_CLIENT_H
#define SHOAL_SERVER_CLI_CLIENT_H

#include "server/cli/cli.h"

enum { CLIENT_TIMEOUT_MS = 30000, CLIENT_ANSWER_MAX = 64 << 20, CLIENT_UPLOAD_MAX = 256 << 20 };

struct client {
    char host[256], port[8];
    char authority[272]; /* for the Host header: "127.0.0.1:8080", "[::1]:8080" */
    bool json;           /* refusals are printed as JSON too */
};

/* `url` NULL: the environment's SHOAL_URL, else http://127.0.0.1:8080. STATUS_INVALID_ARGUMENT for anything
 * but http://HOST[:PORT][/]. */
int client_open(struct client *client, const char *url, bool json, struct error *error);

struct client_request {
    const char *method, *path;
    const char *content_type; /* NULL: none */
    const void *body;
    size_t body_bytes;
    int64_t timeout_ms; /* 0: CLIENT_TIMEOUT_MS */
};
struct client_answer {
    int status;          /* 200 ... */
    unsigned char *body; /* malloc'ed, a NUL follows */
    size_t body_bytes;
};
/* 0 when there is an answer, whatever its status; STATUS_OFFLINE (nobody there, or the connection broke),
 * STATUS_DEADLINE, STATUS_TOO_LARGE, STATUS_NO_MEMORY, STATUS_WIRE_MALFORMED (no HTTP). */
int client_ask(struct client *client, const struct client_request *request, struct client_answer *answer,
               struct error *error);

/* Asks for JSON, with a JSON body (taken; may be NULL). CLI_DONE with *json set on 200, 201, 202. Otherwise
 * the refusal has been printed, and the exit code is returned: 3 for 503 and no answer, 4 for 504, else 1. */
int client_json(struct client *client, const char *method, const char *path, json_t *body, int64_t timeout_ms,
                json_t **json);
/* The same for an answer that is there. */
int client_take(struct client *client, struct client_answer *answer, json_t **json);

/* A path segment, percent-encoded; malloc'ed. NULL: no memory. */
char *client_encode(const char *text);

#endif
