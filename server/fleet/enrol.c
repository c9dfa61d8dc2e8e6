/*
 * Enrolment: codes, requests for certificates, and the record of what failed. A request is decided in one
 * transaction on the store's writer thread, so a code's uses are counted exactly; the certificate goes out
 * only when the board is in the database.
 */
#include "server/fleet/members.h"

#include "server/base/clock.h"
#include "server/base/hash.h"
#include "server/base/id.h"
#include "server/base/log.h"
#include "server/ca/enrol_code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TTL_DEFAULT_S = 900, TTL_MAX_S = 7 * 86400, USES_MAX = 1000, TRIES = 5 };

/* ---- failures ---- */

struct attempt {
    int64_t at_ms;
    char address[LINK_ADDRESS_BYTES];
    enum status status;
    char reason[200];
    const char *action;
};

static int attempt_write(sqlite3 *db, void *context, struct error *error)
{
    const struct attempt *attempt = context;
    char id[ID_ULID_BYTES];
    id_ulid(id);
    int64_t status = db_exec(
        db, error, "INSERT INTO attempt (id, at, address, code, reason, action) VALUES (?, ?, ?, ?, ?, ?)",
        "sissss", id, attempt->at_ms, attempt->address, status_name(attempt->status), attempt->reason,
        attempt->action);
    if (status >= 0)
        status = db_exec(
            db, error,
            "DELETE FROM attempt WHERE id NOT IN (SELECT id FROM attempt ORDER BY id DESC LIMIT 1000)", "");
    return (int)status;
}

static void attempt_done(int status, const struct error *error, void *context)
{
    if (status < 0)
        LOG_WARN("fleet", "an attempt was not recorded: %s", error->message);
    free(context);
}

void fleet_on_failure(void *context, const struct link_failure *failure)
{
    struct fleet *fleet = context;
    if (failure->status == STATUS_BUSY) /* the server is starting: the board comes again by itself */
        return;
    LOG_WARN("fleet", "%s was turned away: %s", failure->address, failure->reason);
    struct attempt *attempt = calloc(1, sizeof *attempt);
    if (!attempt)
        return;
    attempt->at_ms = failure->at_ms;
    attempt->status = failure->status;
    attempt->action = failure->action ? failure->action : "";
    memcpy(attempt->address, failure->address, sizeof attempt->address);
    (void)snprintf(attempt->reason, sizeof attempt->reason, "%s", failure->reason);
    if (store_post(fleet->store, attempt_write, attempt, attempt_done) < 0)
        free(attempt);
}

/* ---- codes ---- */

struct new_code {
    char id[ID_ULID_BYTES], secret_sha[HASH_HEX_BYTES];
    const struct fleet_enrolment *options;
    int64_t now_ms, expires_ms, uses;
    const char *actor;
};

static int code_write(sqlite3 *db, void *context, struct error *error)
{
    const struct new_code *code = context;
    return (int)db_exec(
        db, error,
        "INSERT INTO enrolment (id, secret_sha, accept, name_prefix, uses_left, tries_left, expires_at, "
        "created_at, actor) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        "ssisiiiis", code->id, code->secret_sha, (int64_t)code->options->accept,
        code->options->name_prefix ? code->options->name_prefix : "", code->uses, (int64_t)TRIES,
        code->expires_ms, code->now_ms, code->actor);
}

static void secret_hash(const struct enrol_code *code, char out[HASH_HEX_BYTES])
{
    uint8_t digest[HASH_BYTES];
    hash_sha256(code->secret, sizeof code->secret, digest);
    hash_hex(digest, out);
}

/* What a board is told to connect to; "any address" is none that a board could use. */
static const char *server_for_boards(const struct fleet *fleet, char text[80], const char **warning)
{
    const char *address = fleet_address(fleet), *port = strrchr(address, ':');
    bool any = strncmp(address, "0.0.0.0:", 8) == 0 || strncmp(address, "[::]:", 5) == 0;
    *warning = any ? "put this machine's address on the network in the place of THIS_MACHINE" : NULL;
    if (fleet_address_is_loopback(fleet))
        *warning =
            "the board port listens on loopback only: boards on the network cannot reach it (--board-listen)";
    (void)snprintf(text, 80, "%s%s", any ? "THIS_MACHINE" : "", any ? port : address);
    return text;
}

json_t *fleet_enrol(struct fleet *fleet, const struct fleet_enrolment *options, const char *actor,
                    struct error *error)
{
    int64_t ttl = options->ttl_s ? options->ttl_s : TTL_DEFAULT_S, uses = options->uses ? options->uses : 1;
    if (ttl < 1 || ttl > TTL_MAX_S || uses < 1 || uses > USES_MAX) {
        error_set(error, STATUS_INVALID_ARGUMENT, "ttl_s is 1 to %d, uses 1 to %d", TTL_MAX_S, USES_MAX);
        return NULL;
    }
    struct enrol_code secret;
    char text[ENROL_CODE_BYTES], expires[32], command[256];
    enrol_code_make(ca_key_hash(fleet->ca), &secret);
    enrol_code_format(&secret, text);
    struct new_code code = {.options = options, .actor = actor, .uses = uses, .now_ms = clock_wall_ms()};
    code.expires_ms = code.now_ms + ttl * 1000;
    id_ulid(code.id);
    secret_hash(&secret, code.secret_sha);
    if (store_write(fleet->store, code_write, &code, error) < 0)
        return NULL;
    clock_rfc3339(code.expires_ms, expires);
    char address[80];
    const char *warning, *server = server_for_boards(fleet, address, &warning);
    (void)snprintf(command, sizeof command, "shoal-board --server %s --state STATE_FOLDER --code %s", server,
                   text);
    return json_pack("{s:s, s:s, s:s, s:I, s:b, s:s, s:s, s:s*}", "id", code.id, "code", text, "expires_at",
                     expires, "uses_left", (json_int_t)uses, "accept", options->accept, "server", server,
                     "command", command, "warning", warning);
}

/* ---- requests ---- */

struct request {
    struct fleet *fleet;
    uint64_t id;
    char renewing[FLEET_ID_BYTES];
    char code[64], name[64];
    uint8_t kind;
    uint8_t csr[CA_DER_MAX];
    size_t csr_bytes;
    struct link_answer answer;
    /* what the transaction decided */
    char board[FLEET_ID_BYTES];
    bool accept;
    bool again; /* the same key with the same code: its certificate was lost on the way */
    enum member_state state;
};

static int refuse(struct request *request, enum status status, const char *reason)
{
    request->answer.status = status;
    (void)snprintf(request->answer.reason, sizeof request->answer.reason, "%.*s",
                   (int)sizeof request->answer.reason - 1, reason);
    return 0;
}

/* A name that no other board has: the wish, or one after the id, with a number behind it when it is taken. */
static int choose_name(sqlite3 *db, struct request *request, const char *prefix, struct error *error)
{
    char wish[48];
    if (request->name[0])
        (void)snprintf(wish, sizeof wish, "%.15s%.32s", prefix, request->name);
    else
        (void)snprintf(wish, sizeof wish, "%.15s%s%.8s", prefix, *prefix ? "" : "board-", request->board);
    for (int i = 1; i < 10000; i++) {
        char name[64];
        if (i == 1)
            (void)snprintf(name, sizeof name, "%s", wish);
        else
            (void)snprintf(name, sizeof name, "%s-%d", wish, i);
        int64_t n;
        int status = db_int(db, error, &n, "SELECT count(*) FROM board WHERE name = ?", "s", name);
        if (status < 0)
            return status;
        if (n == 0) {
            memcpy(request->name, name, sizeof name);
            return 0;
        }
    }
    return error_set(error, STATUS_CONFLICT, "no name is free for '%s'", wish);
}

static int issue(struct request *request, struct ca_info *info)
{
    struct error why;
    error_clear(&why);
    int status = ca_issue_board(request->fleet->ca, request->csr, request->csr_bytes, clock_wall_ms() / 1000,
                                CA_BOARD_DAYS, &request->answer.certificate, info, &why);
    if (status < 0)
        (void)refuse(request, why.status, why.message);
    return status;
}

static int renew(sqlite3 *db, struct request *request, struct error *error)
{
    struct ca_info info;
    if (strcmp(request->board, request->renewing) != 0)
        return refuse(request, STATUS_CERTIFICATE_WRONG,
                      "the request is for another key than the certificate's");
    if (issue(request, &info) < 0)
        return 0;
    json_t *row;
    int status = db_row(db, error, &row, "SELECT name, state FROM board WHERE id = ?", "s", request->board);
    if (status == 1) {
        (void)snprintf(request->name, sizeof request->name, "%s",
                       json_string_value(json_object_get(row, "name")));
        const char *state = json_string_value(json_object_get(row, "state"));
        request->state = strcmp(state, "accepted") == 0 ? MEMBER_ACCEPTED : MEMBER_PENDING;
        bool revoked = strcmp(state, "revoked") == 0;
        json_decref(row);
        if (revoked)
            return refuse(request, STATUS_CERTIFICATE_REVOKED, "the board is revoked");
        status = (int)db_exec(db, error,
                              "UPDATE board SET certificate_serial = ?, certificate_until = ? WHERE id = ?",
                              "sis", info.serial, info.not_after_s * 1000, request->board);
    } else if (status == 0) {
        return refuse(request, STATUS_CERTIFICATE_WRONG, "the board was forgotten");
    }
    return status;
}

/* Finds the code's row and judges it. 1: good, *row is the caller's. 0: refused. */
static int judge_code(sqlite3 *db, struct request *request, json_t **row, struct error *error)
{
    struct enrol_code code;
    char sha[HASH_HEX_BYTES];
    *row = NULL;
    if (enrol_code_parse(request->code, &code) < 0)
        return refuse(request, STATUS_CODE_WRONG, "that is no enrolment code");
    secret_hash(&code, sha);
    int status = db_row(
        db, error, row,
        "SELECT id, accept, name_prefix, uses_left, tries_left, expires_at AS expires FROM enrolment WHERE "
        "secret_sha = ?",
        "s", sha);
    if (status != 1)
        return status < 0 ? status : refuse(request, STATUS_CODE_WRONG, "this server gave out no such code");
    int64_t expires = json_integer_value(json_object_get(*row, "expires")), same = 0;
    status = db_int(db, error, &same, "SELECT count(*) FROM board WHERE id = ? AND enrolment = ?", "ss",
                    request->board, json_string_value(json_object_get(*row, "id")));
    if (status < 0)
        return status;
    request->again = same > 0;
    if (json_integer_value(json_object_get(*row, "uses_left")) <= 0 && !request->again)
        return refuse(request, STATUS_CODE_USED, "the code has been used");
    if (expires < clock_wall_ms())
        return refuse(request, STATUS_CODE_EXPIRED, "the code has expired");
    if (json_integer_value(json_object_get(*row, "tries_left")) <= 0)
        return refuse(request, STATUS_CODE_USED, "the code was tried too often");
    return 1;
}

static int insert_board(sqlite3 *db, struct request *request, const json_t *code, const struct ca_info *info,
                        struct error *error)
{
    static const char *const kinds[] = {"host", "mps2", "teensy41"};
    json_t *known;
    int status = db_row(db, error, &known, "SELECT name, state FROM board WHERE id = ?", "s", request->board);
    if (status < 0)
        return status;
    request->accept = json_integer_value(json_object_get(code, "accept")) != 0;
    if (status == 1) {
        bool was_accepted = strcmp(json_string_value(json_object_get(known, "state")), "accepted") == 0;
        request->state = request->accept || was_accepted ? MEMBER_ACCEPTED : MEMBER_PENDING;
        (void)snprintf(request->name, sizeof request->name, "%s",
                       json_string_value(json_object_get(known, "name")));
        json_decref(known);
        return (int)db_exec(
            db, error,
            "UPDATE board SET state = ?, certificate_serial = ?, certificate_until = ?, enrolment = ? WHERE "
            "id = ?",
            "ssiss", member_state_name(request->state), info->serial, info->not_after_s * 1000,
            json_string_value(json_object_get(code, "id")), request->board);
    }
    request->state = request->accept ? MEMBER_ACCEPTED : MEMBER_PENDING;
    status = choose_name(db, request, json_string_value(json_object_get(code, "name_prefix")), error);
    if (status < 0)
        return status;
    return (int)db_exec(
        db, error,
        "INSERT INTO board (id, name, state, kind, location, tags_json, certificate_serial, "
        "certificate_until, enrolment, owner, created_at, actor) VALUES (?, ?, ?, ?, '', '[]', ?, ?, ?, "
        "'local', ?, 'enrolment')",
        "sssssisi", request->board, request->name, member_state_name(request->state),
        request->kind < 3 ? kinds[request->kind] : "unknown", info->serial, info->not_after_s * 1000,
        json_string_value(json_object_get(code, "id")), clock_wall_ms());
}

static int enrol(sqlite3 *db, struct request *request, struct error *error)
{
    json_t *code;
    int status = judge_code(db, request, &code, error);
    if (status == 1) {
        const char *id = json_string_value(json_object_get(code, "id"));
        struct ca_info info;
        pthread_mutex_lock(&request->fleet->mutex);
        const struct member *member = member_find(request->fleet, request->board);
        bool revoked = member && member->state == MEMBER_REVOKED;
        pthread_mutex_unlock(&request->fleet->mutex);
        if (revoked)
            status = refuse(request, STATUS_CERTIFICATE_REVOKED,
                            "the board is revoked; forget it first to enrol it anew");
        else if (issue(request, &info) >= 0)
            status = insert_board(db, request, code, &info, error);
        const char *sql = request->answer.status < 0
                              ? "UPDATE enrolment SET tries_left = tries_left - 1 WHERE id = ?"
                              : "UPDATE enrolment SET uses_left = uses_left - ?2 WHERE id = ?1";
        if (status >= 0 && request->answer.status < 0)
            status = (int)db_exec(db, error, sql, "s", id);
        else if (status >= 0)
            status = (int)db_exec(db, error, sql, "si", id, (int64_t)!request->again);
    }
    json_decref(code);
    return status;
}

static int request_write(sqlite3 *db, void *context, struct error *error)
{
    struct request *request = context;
    if (ca_request_board(request->csr, request->csr_bytes, request->board) < 0)
        return refuse(request, STATUS_INVALID_ARGUMENT, "the certificate request is malformed");
    return request->renewing[0] ? renew(db, request, error) : enrol(db, request, error);
}

static void request_done(int status, const struct error *error, void *context)
{
    struct request *request = context;
    struct fleet *fleet = request->fleet;
    struct link_answer *answer = &request->answer;
    if (status < 0) {
        answer->status = status;
        (void)snprintf(answer->reason, sizeof answer->reason, "%.199s", error->message);
    }
    if (answer->status == 0) {
        pthread_mutex_lock(&fleet->mutex);
        struct member *member = member_find(fleet, request->board);
        if (!member)
            member = member_add(fleet, request->board);
        if (member) {
            member->state = request->state;
            memcpy(member->name, request->name, sizeof member->name);
        }
        pthread_mutex_unlock(&fleet->mutex);
        if (!member) {
            answer->status = STATUS_TOO_LARGE;
            (void)snprintf(answer->reason, sizeof answer->reason, "the fleet is full (%d boards)",
                           FLEET_BOARDS_MAX);
        }
    }
    if (answer->status == 0) {
        answer->state = (uint8_t)request->state;
        memcpy(answer->name, request->name, sizeof answer->name);
        LOG_INFO("fleet", "board %s (%s) %s, %s", request->name, request->board,
                 request->renewing[0] ? "renewed its certificate" : "enrolled",
                 member_state_name(request->state));
        fleet_publish_board(fleet, request->board);
    }
    /* A refusal is recorded by link, which knows the address that it is told to. */
    (void)links_answer(fleet->links, request->id, answer);
    free(request);
}

void fleet_on_enrol(void *context, uint64_t id, const struct link_enrolment *enrolment)
{
    struct fleet *fleet = context;
    struct request *request = calloc(1, sizeof *request);
    if (!request || enrolment->request_bytes > sizeof request->csr) {
        free(request);
        return; /* link closes the peer after its deadline */
    }
    request->fleet = fleet;
    request->id = id;
    if (enrolment->peer->certified)
        memcpy(request->renewing, enrolment->peer->certificate.board, sizeof request->renewing);
    (void)snprintf(request->code, sizeof request->code, "%s", enrolment->code);
    (void)snprintf(request->name, sizeof request->name, "%s", enrolment->name);
    request->kind = enrolment->kind;
    memcpy(request->csr, enrolment->request, enrolment->request_bytes);
    request->csr_bytes = enrolment->request_bytes;
    if (store_post(fleet->store, request_write, request, request_done) < 0)
        free(request);
}
