/*
 * /api/v1/load: how many inferences there were and how long they took, over the last minutes, in points of
 * equal length. Worked out from history when it is asked for. Percentiles are of inferences that were
 * answered: the smallest latency that at least that part of them did not exceed; null where there was none.
 */
#include "server/api/api.h"

#include "server/base/clock.h"

enum { MINUTES_MAX = 1440, POINTS_MAX = 500 };

/* ?1 begin, ?2 length of a point, ?3 end. Whole = all of it as one point. */
#define LOAD_SQL                                                                                            \
    "WITH asked AS (SELECT (begun_at - ?1) / ?2 AS point, state, latency_us FROM inference WHERE begun_at " \
    ">= ?1 AND begun_at < ?3), ranked AS (SELECT point, state, latency_us, row_number() OVER (PARTITION "   \
    "BY point, state ORDER BY latency_us) AS k, count(*) OVER (PARTITION BY point, state) AS n FROM "       \
    "asked) SELECT ?1 + point * ?2 AS begin_at, sum(state = 'done') AS done, sum(state <> 'done') AS "      \
    "failed, min(CASE WHEN state = 'done' AND k * 2 >= n THEN latency_us END) / 1000.0 AS p50_ms, "         \
    "min(CASE WHEN state = 'done' AND k * 100 >= n * 99 THEN latency_us END) / 1000.0 AS p99_ms FROM "      \
    "ranked GROUP BY point ORDER BY point"

static int answer(struct http_exchange *x, json_t *points, json_t *whole, int64_t minutes, int64_t point_ms)
{
    json_t *json =
        json_pack("{s:I, s:f, s:f, s:i, s:i, s:n, s:n}", "minutes", (json_int_t)minutes, "point_s",
                  (double)point_ms / 1000, "per_second", 0.0, "done", 0, "failed", 0, "p50_ms", "p99_ms");
    json_t *row = json_array_get(whole, 0);
    if (row) {
        json_object_del(row, "begin_at");
        json_object_update(json, row);
        json_object_set_new(
            json, "per_second",
            json_real((double)json_integer_value(json_object_get(row, "done")) / ((double)minutes * 60)));
    }
    json_object_set(json, "points", points);
    return http_json(x, 200, json);
}

int api_load(struct http_exchange *x)
{
    struct error error;
    error_clear(&error);
    int64_t minutes, n;
    if (http_query_int(x, "minutes", 1, MINUTES_MAX, 15, &minutes) < 0 ||
        http_query_int(x, "points", 1, POINTS_MAX, 90, &n) < 0)
        return 0;
    /* Whole points only, so that a point does not change its meaning from one answer to the next. */
    int64_t point_ms = minutes * 60000 / n, end = (clock_wall_ms() / point_ms + 1) * point_ms;
    int64_t begin = end - n * point_ms;
    sqlite3 *db = store_telemetry_reader(api_app(x)->store);
    json_t *points = db ? db_rows(db, &error, LOAD_SQL, "iii", begin, point_ms, end) : NULL;
    json_t *whole = points ? db_rows(db, &error, LOAD_SQL, "iii", begin, n * point_ms, end) : NULL;
    store_telemetry_reader_done(api_app(x)->store, db);
    int status = whole ? answer(x, points, whole, minutes, point_ms) : api_answer(x, NULL, &error);
    json_decref(points);
    json_decref(whole);
    return status;
}
