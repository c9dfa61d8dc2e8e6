/*
 * One board takes the place of another in every deployment: the next generation of each is the former one
 * with another board in the same place, so the fragments are the same bytes. All is checked first, and the
 * new board is pushed what it needs while nothing changes; then boards, plans, parts and states change in one
 * transaction; then what runs is verified as after planning, and until it is the generation before answers.
 *
 * The model's last retired deployment changes too, so that a rollback need not look for a board that is gone.
 * Runs on the manager thread.
 */
#include "server/deploy/internal.h"

#include "server/base/clock.h"
#include "server/base/hash.h"
#include "server/base/log.h"
#include "server/fleet/swap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One deployment's change. The row is as the query below has it. */
struct change {
    const json_t *row;
    char *plan_json, *request_json;
    const char *hash; /* in plan */
    json_t *plan, *request;
};

struct replace {
    struct deploy *deploy;
    struct fleet_swap swap;
    const char *old, *by, *actor;
    json_t *rows;
    struct change *changes;
    size_t n;
    int64_t now_ms;
    char reason[160];
    char by_name[64];
    struct staged *staged; /* the manager's, while it is listed there */
    int status, changed;
    struct error *error;
};

static const char *text(const json_t *row, const char *key)
{
    const char *value = json_string_value(json_object_get(row, key));
    return value ? value : "";
}

static int64_t integer(const json_t *row, const char *key)
{
    return json_integer_value(json_object_get(row, key));
}

static bool is_over(const json_t *row)
{
    return strcmp(text(row, "state"), "retired") == 0;
}

static bool stays_paused(const json_t *row)
{
    return strcmp(text(row, "state"), "paused") == 0;
}

/* ---- what must change ---- */

/* The living deployments of which the current plan has the board, with or without work, and the last retired
 * one of each model. `held` is the fragment that `by` has of the same generation; null: it is no party. */
static int find_rows(struct replace *replace, sqlite3 *db)
{
    replace->rows = db_rows(
        db, replace->error,
        "SELECT d.id, d.model, d.version, d.state, d.generation, d.request_json, part.party, part.fragment, "
        "part.fragment_bytes, (SELECT other.fragment FROM part AS other WHERE other.deployment = d.id AND "
        "other.generation = d.generation AND other.board = ?2) AS held FROM part JOIN deployment AS d ON "
        "d.id = "
        "part.deployment AND d.generation = part.generation WHERE part.board = ?1 AND (d.ended_at IS NULL OR "
        "d.id = (SELECT last.id FROM deployment AS last WHERE last.model = d.model AND last.state = "
        "'retired' "
        "ORDER BY last.ended_at DESC LIMIT 1)) ORDER BY d.id",
        "ss", replace->old, replace->by);
    if (!replace->rows)
        return replace->error->status;
    replace->changes = calloc(json_array_size(replace->rows) + 1, sizeof *replace->changes);
    return replace->changes ? 0 : error_set(replace->error, STATUS_NO_MEMORY, "out of memory");
}

/* A deployment that is being changed may be about to use either board. */
static int check_quiet(struct replace *replace)
{
    for (const struct deployment *d = replace->deploy->deployments; d; d = d->next)
        if (deploy_in_progress(d->state))
            return error_set(replace->error, STATUS_CONFLICT,
                             "deployment %s of '%s' is %s: wait until that is over, or cancel it", d->id,
                             d->model, deploy_state_name(d->state));
    return 0;
}

/* False with the error set when `have` is less than `need`. */
static bool enough(struct replace *replace, const json_t *row, const char *resource, int64_t need,
                   int64_t have, const char *former)
{
    if (need <= have)
        return true;
    error_set(replace->error, STATUS_DOES_NOT_FIT,
              "board '%s' is too small for the place of '%s'%s%s: it needs %lld bytes of %s and has %lld",
              former, replace->swap.name, row ? " in the deployment of " : "", row ? text(row, "model") : "",
              (long long)need, resource, (long long)have);
    struct error_shortfall *shortfall = &replace->error->shortfall;
    *shortfall =
        (struct error_shortfall){.segment = -1, .resource = resource, .need_bytes = need, .have_bytes = have};
    (void)snprintf(shortfall->board, sizeof shortfall->board, "%s", former);
    return false;
}

/* The place's arena and resident weights, as its plan has them. */
static int check_memory(struct replace *replace, const struct change *change, const char *former)
{
    const json_t *party =
        json_array_get(json_object_get(change->plan, "parties"), (size_t)integer(change->row, "party") - 1);
    const struct plan_board *board = &replace->swap.board;
    bool fits =
        enough(replace, change->row, "arena", integer(party, "arena_bytes"), board->arena_bytes, former) &&
        enough(replace, change->row, "weights", integer(party, "resident_bytes"), board->weight_ram_bytes,
               former);
    return fits ? 0 : STATUS_DOES_NOT_FIT;
}

/* All fragments of the living deployments, beside what the new board holds for others. */
static int check_flash(struct replace *replace, sqlite3 *db, const char *former)
{
    int64_t need = 0, used = 0;
    for (size_t i = 0; i < replace->n; i++) {
        const json_t *row = replace->changes[i].row;
        bool twice = is_over(row);
        for (size_t j = 0; j < i; j++)
            twice = twice || strcmp(text(row, "fragment"), text(replace->changes[j].row, "fragment")) == 0;
        need += twice ? 0 : (integer(row, "fragment_bytes") + 4095) / 4096 * 4096;
    }
    int status = deploy_flash_in_use(db, replace->by, "", "", &used, replace->error);
    if (status < 0)
        return status;
    int64_t flash = replace->swap.board.flash_bytes;
    return enough(replace, NULL, "flash", need, used < flash ? flash - used : 0, former)
               ? 0
               : STATUS_DOES_NOT_FIT;
}

/* ---- what it becomes ---- */

/* The boards that a request names, by id where that is known, the new one for the old one, none twice. */
static json_t *new_boards(struct replace *replace, sqlite3 *db, const json_t *named)
{
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(named); i++) {
        json_t *entry = json_array_get(named, i);
        char id[FLEET_ID_BYTES];
        bool known = fleet_resolve(replace->deploy->fleet, db, json_string_value(entry), id, NULL) >= 0;
        bool swapped = known && (strcmp(id, replace->old) == 0 || strcmp(id, replace->by) == 0);
        bool twice = false;
        for (size_t j = 0; swapped && j < json_array_size(list); j++)
            twice = twice || strcmp(json_string_value(json_array_get(list, j)), replace->by) == 0;
        if (!twice && swapped)
            json_array_append_new(list, json_string(replace->by));
        else if (!twice)
            json_array_append(list, entry);
    }
    return list;
}

static int prepare(struct replace *replace, sqlite3 *db, struct change *change)
{
    json_t *stored = NULL;
    if (db_row(db, replace->error, &stored,
               "SELECT plan_json FROM plan JOIN generation ON generation.plan = plan.hash WHERE deployment = "
               "? AND "
               "generation = ?",
               "si", text(change->row, "id"), integer(change->row, "generation")) != 1)
        return error_set(replace->error, STATUS_STORE_FAILED, "a deployment has no stored plan");
    change->plan = json_incref(json_object_get(stored, "plan"));
    json_decref(stored);
    change->request = json_copy(json_object_get(change->row, "request"));
    json_t *named = json_object_get(change->request, "boards");
    if (json_is_array(named))
        json_object_set_new(change->request, "boards", new_boards(replace, db, named));
    int status =
        plan_json_set_board(change->plan, (int32_t)integer(change->row, "party"), &replace->swap.board);
    change->hash = text(change->plan, "hash");
    change->plan_json = json_dumps(change->plan, JSON_COMPACT);
    change->request_json = json_dumps(change->request, JSON_COMPACT | JSON_SORT_KEYS);
    if (status < 0 || !change->plan_json || !change->request_json)
        return error_set(replace->error, STATUS_NO_MEMORY, "out of memory");
    return 0;
}

/* Whether `by` does work in the same deployment: a board is one party of a plan. */
static bool is_party(const json_t *row)
{
    return *text(row, "held") != 0 && *text(row, "fragment") != 0;
}

static int prepare_all(struct replace *replace, sqlite3 *db)
{
    char *name = NULL, *former = replace->by_name;
    if (db_text(db, replace->error, &name, "SELECT name FROM board WHERE id = ?", "s", replace->by) == 1)
        (void)snprintf(former, sizeof replace->by_name, "%s", name);
    free(name);
    int status = find_rows(replace, db);
    for (size_t i = 0; status >= 0 && i < json_array_size(replace->rows); i++) {
        const json_t *row = json_array_get(replace->rows, i);
        struct change *change = &replace->changes[replace->n];
        if (is_party(row) && is_over(row))
            continue; /* that one cannot come back as it was */
        if (is_party(row))
            return error_set(
                replace->error, STATUS_CONFLICT,
                "board '%s' has a part of the deployment of '%s' already and cannot take a second one; "
                "drain '%s' to plan anew without it",
                former, text(row, "model"), replace->swap.name);
        change->row = row;
        replace->n++;
        status = prepare(replace, db, change);
        if (status >= 0 && !is_over(row))
            status = check_memory(replace, change, former);
    }
    return status < 0 ? status : check_flash(replace, db, former);
}

/* ---- the transaction ---- */

static int write_change(sqlite3 *db, const struct replace *replace, const struct change *change,
                        struct error *error)
{
    const json_t *row = change->row;
    const char *id = text(row, "id");
    int64_t former = integer(row, "generation");
    bool runs = !is_over(row) && !stays_paused(row);
    const char *state = runs ? "pushing" : text(row, "state");
    int64_t status = db_exec(
        db, error,
        "INSERT INTO plan (hash, version, plan_json, created_at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        "sssi", change->hash, text(row, "version"), change->plan_json, replace->now_ms);
    if (status >= 0)
        status =
            db_exec(db, error,
                    "INSERT INTO generation (deployment, generation, plan, created_at) VALUES (?, ?, ?, ?)",
                    "sisi", id, former + 1, change->hash, replace->now_ms);
    if (status >= 0)
        status = db_exec(
            db, error,
            "INSERT INTO part (deployment, generation, party, board, fragment, fragment_bytes) SELECT "
            "deployment, generation + 1, party, CASE board WHEN ?3 THEN ?4 WHEN ?4 THEN ?3 ELSE board "
            "END, fragment, fragment_bytes FROM part WHERE deployment = ?1 AND generation = ?2",
            "siss", id, former, replace->old, replace->by);
    if (status >= 0)
        status =
            db_exec(db, error,
                    "UPDATE deployment SET generation = ?, request_json = ?, state = ?, error_json = NULL "
                    "WHERE id = ? AND generation = ?",
                    "isssi", former + 1, change->request_json, state, id, former);
    if (status >= 0)
        status =
            db_exec(db, error,
                    "INSERT INTO deployment_event (deployment, at, state, generation, reason, actor) VALUES "
                    "(?, ?, ?, ?, ?, ?)",
                    "sisiss", id, replace->now_ms, state, former + 1, replace->reason, replace->actor);
    return (int)status;
}

static int write_all(sqlite3 *db, void *context, struct error *error)
{
    const struct replace *replace = context;
    int status = fleet_swap_write(db, &replace->swap, error);
    for (size_t i = 0; status >= 0 && i < replace->n; i++)
        status = write_change(db, replace, &replace->changes[i], error);
    return status;
}

/* ---- in memory ---- */

/* The golden pair is the graph's, so it serves the new generation too. */
static int take_generation(struct deploy *deploy, struct deployment *d, struct error *error)
{
    unsigned char *input = d->golden_input, *output = d->golden_output;
    d->golden_input = d->golden_output = NULL;
    deploy_drop_generation(d);
    sqlite3 *db = store_reader(deploy->store);
    int status = db ? deploy_load_generation(deploy, db, d, error) : error_set(error, STATUS_BUSY, "busy");
    store_reader_done(deploy->store, db);
    d->golden_input = input;
    d->golden_output = output;
    return status;
}

static void take_change(struct replace *replace, const struct change *change)
{
    struct deploy *deploy = replace->deploy;
    struct deployment *d = deploy_find(deploy, text(change->row, "id"));
    struct error error;
    error_clear(&error);
    if (!d)
        return; /* the retired one */
    json_decref(d->request);
    d->request = json_incref(change->request);
    d->generation++;
    d->replanning = false;
    if (d->state == DEPLOY_ACTIVE && d->placed) {
        d->former = infer_route_retain(&d->placed->route);
        memcpy(deploy->spared, replace->swap.old, sizeof deploy->spared);
    }
    if (take_generation(deploy, d, &error) < 0) {
        (void)deploy_set_state(deploy, d, DEPLOY_FAILED, error.message, &error);
        deploy_remove(deploy, d);
        return;
    }
    if (!stays_paused(change->row))
        d->state = DEPLOY_PUSHING;
    LOG_INFO("deploy", "%s of %s is %s: %s", d->id, d->model, deploy_state_name(d->state), replace->reason);
    deploy_update_routes(deploy);
    deploy_publish(deploy, d->id);
    if (d->state == DEPLOY_PUSHING)
        deploy_push(deploy, d);
}

static void free_all(struct replace *replace)
{
    for (size_t i = 0; i < replace->n; i++) {
        free(replace->changes[i].plan_json);
        free(replace->changes[i].request_json);
        json_decref(replace->changes[i].plan);
        json_decref(replace->changes[i].request);
    }
    free(replace->changes);
    json_decref(replace->rows);
    replace->changes = NULL;
    replace->rows = NULL;
    replace->n = 0;
}

/* ---- the two calls ---- */

/* Whether it can be done, and what it becomes. */
static int check(struct replace *replace)
{
    struct deploy *deploy = replace->deploy;
    sqlite3 *db = store_reader(deploy->store);
    int status =
        db ? fleet_swap_prepare(deploy->fleet, db, replace->old, replace->by, &replace->swap, replace->error)
           : error_set(replace->error, STATUS_BUSY, "busy");
    if (status >= 0)
        status = check_quiet(replace);
    if (status >= 0)
        status = prepare_all(replace, db);
    store_reader_done(deploy->store, db);
    return status;
}

/* The fragments of what runs; of what is paused they are pushed when it is resumed. */
static struct staged *list_fragments(const struct replace *replace)
{
    struct staged *staged = calloc(1, sizeof *staged);
    struct staged_fragment *fragments = calloc(replace->n + 1, sizeof *fragments);
    if (!staged || !fragments) {
        free(staged);
        free(fragments);
        return NULL;
    }
    *staged = (struct staged){.fragments = fragments};
    memcpy(staged->board, replace->swap.by, sizeof staged->board);
    memcpy(staged->name, replace->by_name, sizeof staged->name);
    for (size_t i = 0; i < replace->n; i++) {
        const json_t *row = replace->changes[i].row;
        struct staged_fragment *fragment = &fragments[staged->n];
        if (is_over(row) || stays_paused(row) || !hash_from_hex(text(row, "fragment"), fragment->hash))
            continue;
        (void)snprintf(fragment->sha, sizeof fragment->sha, "%s", text(row, "fragment"));
        fragment->bytes = (uint32_t)integer(row, "fragment_bytes");
        staged->n++;
    }
    return staged;
}

static void stage_call(struct deploy *deploy, void *context)
{
    struct replace *replace = context;
    replace->status = check(replace);
    if (replace->status >= 0) {
        replace->staged = list_fragments(replace);
        if (!replace->staged)
            replace->status = error_set(replace->error, STATUS_NO_MEMORY, "out of memory");
    }
    if (replace->status >= 0) {
        replace->staged->next = deploy->staged;
        deploy->staged = replace->staged;
        deploy_clean_boards(deploy); /* makes room */
    }
    free_all(replace);
}

static void unlist(struct replace *replace)
{
    struct staged **link = &replace->deploy->staged;
    while (*link != replace->staged)
        link = &(*link)->next;
    *link = replace->staged->next;
    deploy_staged_free(replace->staged);
    replace->staged = NULL;
}

static void unstage_call(struct deploy *deploy, void *context)
{
    unlist(context);
    deploy_clean_boards(deploy);
}

static void replace_call(struct deploy *deploy, void *context)
{
    struct replace *replace = context;
    replace->status = check(replace);
    replace->now_ms = clock_wall_ms();
    (void)snprintf(replace->reason, sizeof replace->reason, "another board took the place of %s",
                   replace->swap.name);
    if (replace->status >= 0)
        replace->status = store_write(deploy->store, write_all, replace, replace->error);
    if (replace->status >= 0) {
        fleet_swap_done(deploy->fleet, &replace->swap);
        for (size_t i = 0; i < replace->n; i++)
            take_change(replace, &replace->changes[i]);
        replace->changed = (int)replace->n;
    }
    unlist(replace);
    deploy_clean_boards(deploy);
    free_all(replace);
}

int deploy_replace_board(struct deploy *deploy, const char *old, const char *by, const char *actor,
                         struct error *error)
{
    struct replace replace = {.deploy = deploy, .old = old, .by = by, .actor = actor, .error = error};
    int status = deploy_ask(deploy, stage_call, &replace);
    if (status >= 0)
        status = replace.status;
    if (status >= 0) {
        int pushed = deploy_stage_push(deploy, replace.staged, error);
        status = deploy_ask(deploy, pushed >= 0 ? replace_call : unstage_call, &replace);
        if (status >= 0)
            status = pushed < 0 ? pushed : replace.status;
    }
    return status < 0 ? error_set(error, (enum status)status, "%s", status_text(status)) : replace.changed;
}
