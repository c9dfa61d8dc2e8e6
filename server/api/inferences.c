/* /api/v1/inferences: history. Rows are written in batches a moment after the answer, so a single one that is
 * asked for at once is waited for. */
#include "server/api/api.h"

#include "server/base/clock.h"
#include "server/base/id.h"

#include <unistd.h>

enum { FRESH_MS = 3000, TRIES = 40, TRY_US = 25000 };

#define COLUMNS                                                                                            \
    "SELECT id, model, version, deployment, generation, state, error_json, begun_at, latency_us / 1000.0 " \
    "AS latency_ms, bytes_moved, timeline_json FROM inference "

int api_inferences(struct http_exchange *x)
{
    struct error error;
    error_clear(&error);
    int64_t limit;
    const char *after, *deployment = http_query(x, "deployment"), *model = http_query(x, "model");
    if (!api_page(x, &limit, &after))
        return 0;
    sqlite3 *db = store_telemetry_reader(api_app(x)->store);
    json_t *rows = db ? db_rows(db, &error,
                                COLUMNS "WHERE (?1 IS NULL OR id < ?1) AND (?2 IS NULL OR deployment = ?2) "
                                        "AND (?3 IS NULL OR model = ?3) ORDER BY id DESC LIMIT ?4",
                                "sssi", after, deployment, model, limit + 1)
                      : NULL;
    store_telemetry_reader_done(api_app(x)->store, db);
    size_t i, j;
    json_t *row, *board;
    json_array_foreach(rows, i, row)
    {
        json_array_foreach(json_object_get(row, "timeline"), j, board) json_object_del(board, "segments");
    }
    return api_answer(x, api_list(rows, limit, "id"), &error);
}

int api_inference(struct http_exchange *x)
{
    struct store *store = api_app(x)->store;
    const char *id = api_param(x, 0);
    struct error error;
    error_clear(&error);
    bool fresh = id_is_ulid(id) && clock_wall_ms() - id_ulid_wall_ms(id) < FRESH_MS;
    json_t *row = NULL;
    int status = 0;
    for (int tries = 0; status == 0 && tries < (fresh ? TRIES : 1); tries++) {
        if (tries)
            usleep(TRY_US);
        sqlite3 *db = store_telemetry_reader(store);
        status = db ? db_row(db, &error, &row, COLUMNS "WHERE id = ?", "s", id)
                    : error_set(&error, STATUS_BUSY, "no connection to the database");
        store_telemetry_reader_done(store, db);
    }
    if (status == 0)
        error_set(&error, STATUS_NOT_FOUND, "no inference %.40s", id);
    return api_answer(x, row, &error);
}
