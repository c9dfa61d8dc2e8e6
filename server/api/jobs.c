/* /api/v1/jobs, and what waiting for a job or a deployment has in common. */
#include "server/api/wait.h"

#include <stdlib.h>
#include <string.h>

struct wait *wait_new(struct http_exchange *x, wait_show *show)
{
    struct wait *wait = malloc(sizeof *wait);
    if (wait)
        *wait = (struct wait){x, show};
    return wait;
}

void wait_over(void *context, bool timed_out)
{
    struct wait *wait = context;
    struct http_exchange *x = wait->x;
    (void)wait->show(x, timed_out);
    free(wait);
    http_finish(x);
}

int api_jobs(struct http_exchange *x)
{
    struct error error;
    error_clear(&error);
    int64_t limit;
    const char *after;
    if (!api_page(x, &limit, &after))
        return 0;
    sqlite3 *db = api_reader(x);
    if (!db)
        return 0;
    json_t *json = models_jobs_json(db, after, limit, &error);
    api_done(x, db);
    return api_answer(x, json, &error);
}

static int show_job(struct http_exchange *x, bool timed_out)
{
    struct error error;
    error_clear(&error);
    sqlite3 *db = api_reader(x);
    if (!db)
        return 0;
    json_t *job = models_job_json(db, api_param(x, 0), &error);
    api_done(x, db);
    if (!job || !http_query(x, "wait"))
        return api_answer(x, job, &error);
    const char *state = json_string_value(json_object_get(job, "state"));
    int answer;
    if (strcmp(state, "failed") == 0)
        answer = api_fail_stored(x, json_object_get(job, "error"), "job", api_param(x, 0));
    else if (timed_out && strcmp(state, "done") != 0)
        answer = http_fail_status(x, STATUS_DEADLINE, "the job is still %s", state);
    else
        return http_json(x, 200, job);
    json_decref(job);
    return answer;
}

int api_job(struct http_exchange *x)
{
    int64_t seconds;
    if (http_query_int(x, "wait", 0, WAIT_SECONDS_MAX, 0, &seconds) < 0)
        return 0;
    struct wait *wait = seconds ? wait_new(x, show_job) : NULL;
    if (!wait)
        return show_job(x, true);
    int status = models_wait(api_app(x)->models, api_param(x, 0), seconds * 1000, wait_over, wait);
    if (status == 0)
        return HTTP_PENDING;
    free(wait);
    return http_fail_status(x, (enum status)status, "the server cannot wait for it now");
}
