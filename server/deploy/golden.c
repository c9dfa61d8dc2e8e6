/*
 * The golden inference: before a deployment is active, the boards' answer to an input must equal the
 * reference executor's, byte for byte. The input is random but fixed by the plan's hash, so that a failure
 * can be repeated.
 */
#include "server/deploy/internal.h"

#include "server/base/log.h"
#include "server/model/reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Random bytes; float inputs get values in [-1, 1). */
static void fill_input(const struct graph *graph, uint64_t seed, unsigned char *out)
{
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        const struct tensor *tensor = &graph->tensors[graph->inputs[i]];
        size_t n = tensor_bytes(tensor);
        for (size_t at = 0; at < n;) {
            if (tensor->dtype == DTYPE_FLOAT32) {
                float value = (float)(next_random(&seed) >> 40) / 8388608.0f - 1.0f;
                memcpy(out + at, &value, sizeof value);
                at += sizeof value;
            } else {
                out[at++] = (unsigned char)next_random(&seed);
            }
        }
        out += n;
    }
}

int deploy_golden_make(struct deployment *deployment, struct error *error)
{
    const struct graph *graph = deployment->placed->graph;
    size_t in = graph_input_bytes(graph), out = graph_output_bytes(graph);
    uint64_t seed = strtoull(deployment->placed->plan->hash + 48, NULL, 16);
    deployment->golden_input = malloc(in + 1);
    deployment->golden_output = malloc(out + 1);
    if (!deployment->golden_input || !deployment->golden_output)
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    fill_input(graph, seed, deployment->golden_input);
    int status = reference_run(graph, deployment->golden_input, in, deployment->golden_output, out, error);
    if (status < 0) { /* an input without its answer is no golden pair */
        free(deployment->golden_input);
        free(deployment->golden_output);
        deployment->golden_input = deployment->golden_output = NULL;
    }
    return status;
}

struct golden {
    struct deploy *deploy;
    char deployment[ID_ULID_BYTES];
    uint32_t generation;
    struct error error;
    unsigned char *output;
    size_t output_bytes;
};

static void golden_failed(struct deploy *deploy, struct deployment *deployment, struct error *error)
{
    enum status status = error->status;
    if (status == STATUS_BOARD_LOST || status == STATUS_DEGRADED || status == STATUS_BUSY ||
        status == STATUS_OFFLINE || status == STATUS_ABORTED) {
        LOG_INFO("deploy", "%s: the golden inference is tried again: %s", deployment->id, error->message);
        return; /* the tick, or the board's return, tries again until the deadline */
    }
    (void)deploy_set_state(deploy, deployment, DEPLOY_FAILED, error->message, error);
    deploy_remove(deploy, deployment);
}

void deploy_retire_former(struct deploy *deploy, const struct deployment *active)
{
    bool retired = false;
    for (struct deployment *d = deploy->deployments, *next; d; d = next) {
        next = d->next;
        if (d == active || strcmp(d->model, active->model) != 0 || deploy_in_progress(d->state) ||
            !d->promoted)
            continue;
        char reason[64];
        (void)snprintf(reason, sizeof reason, "replaced by %s", active->id);
        (void)deploy_set_state(deploy, d, DEPLOY_RETIRED, reason, NULL);
        deploy_let_go(deploy, d); /* whoever asked it just before the change gets an answer */
        retired = true;
    }
    if (retired)
        deploy_publish(deploy, active->id); /* it has a former one now */
}

static void golden_done(struct deploy *deploy, void *context)
{
    struct golden *golden = context;
    struct deployment *d = deploy_find(deploy, golden->deployment);
    if (d && d->generation == golden->generation)
        d->golden_running = false;
    if (d && d->generation == golden->generation && d->state == DEPLOY_VERIFYING) {
        if (golden->error.status == STATUS_OK &&
            memcmp(golden->output, d->golden_output, golden->output_bytes) != 0)
            error_set(&golden->error, STATUS_GOLDEN_MISMATCH,
                      "the boards' answer differs from the reference executor's");
        if (golden->error.status != STATUS_OK) {
            golden_failed(deploy, d, &golden->error);
        } else {
            d->deadline_ms = 0;
            d->replanning = false;
            if (deploy_set_state(deploy, d, DEPLOY_ACTIVE, "the golden inference matches the reference",
                                 NULL) >= 0 &&
                d->promoted)
                deploy_retire_former(deploy, d);
            deploy_clean_boards(deploy);
        }
    }
    free(golden->output);
    free(golden);
}

/* A thread of server/infer. */
static void on_answer(void *context, const struct infer_answer *answer)
{
    struct golden *golden = context;
    golden->error = answer->error;
    if (answer->status == 0 && (golden->output = malloc(answer->output_bytes + 1)) != NULL) {
        memcpy(golden->output, answer->output, answer->output_bytes);
        golden->output_bytes = answer->output_bytes;
    } else if (answer->status == 0) {
        error_set(&golden->error, STATUS_BUSY, "out of memory");
    }
    if (queue_add(&golden->deploy->calls, golden_done, golden) < 0) {
        free(golden->output);
        free(golden);
    }
}

void deploy_golden_run(struct deploy *deploy, struct deployment *d)
{
    if (d->golden_running)
        return;
    struct error error;
    error_clear(&error);
    if (!d->golden_input && deploy_golden_make(d, &error) < 0) {
        golden_failed(deploy, d, &error);
        return;
    }
    struct golden *golden = calloc(1, sizeof *golden);
    if (!golden)
        return;
    golden->deploy = deploy;
    golden->generation = d->generation;
    memcpy(golden->deployment, d->id, sizeof golden->deployment);
    d->golden_running = true;
    int status = infer_submit(deploy->infer, &d->placed->route, d->golden_input,
                              graph_input_bytes(d->placed->graph), on_answer, golden, &error);
    if (status < 0) {
        d->golden_running = false;
        free(golden);
        golden_failed(deploy, d, &error);
    }
}
