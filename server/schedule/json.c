/*
 * A schedule as JSON. What a reader could take for more than it is stands beside it: whether boards run such
 * a schedule today, and why not.
 */
#include "server/schedule/json.h"

#include "server/model/optable.h"
#include "server/schedule/bottleneck.h"
#include "server/schedule/form.h"
#include "server/schedule/lower.h"

#include <stdio.h>
#include <string.h>

static const char *const axes_names[] = {"full", "channels", "rows", "all"};

struct schedule_options schedule_defaults(void)
{
    return (struct schedule_options){.axes = SCHEDULE_AXES_ALL, .accumulator = 32};
}

static int read_word(const json_t *json, const char *key, const char *const *words, int n, int *out,
                     struct error *error)
{
    const json_t *value = json_object_get(json, key);
    if (!value)
        return 0;
    for (int i = 0; i < n && json_is_string(value); i++)
        if (strcmp(json_string_value(value), words[i]) == 0) {
            *out = i;
            return 0;
        }
    return error_set(error, STATUS_INVALID_ARGUMENT, "'%s' is one of %s, %s%s%s", key, words[0], words[1],
                     n > 2 ? ", " : "", n > 2 ? words[2] : "");
}

int schedule_options_read(const json_t *json, struct schedule_options *options, struct error *error)
{
    static const char *const images[] = {"counted", "streamed"};
    const json_t *bits = json_object_get(json, "accumulator"), *extra = json_object_get(json, "extra_macs");
    const json_t *ram = json_object_get(json, "ram");
    int axes = (int)options->axes - 1, image = options->streamed;
    if (read_word(json, "axes", axes_names + 1, 3, &axes, error) < 0 ||
        read_word(json, "image", images, 2, &image, error) < 0)
        return STATUS_INVALID_ARGUMENT;
    options->axes = (enum schedule_axes)(axes + 1);
    options->streamed = image == 1;
    if (bits && json_integer_value(bits) != 8 && json_integer_value(bits) != 16 &&
        json_integer_value(bits) != 32)
        return error_set(error, STATUS_INVALID_ARGUMENT, "'accumulator' is 32, 16 or 8");
    if (extra &&
        (!json_is_number(extra) || !(json_number_value(extra) >= 0 && json_number_value(extra) <= 1000)))
        return error_set(error, STATUS_INVALID_ARGUMENT, "'extra_macs' is a percentage from 0 to 1000");
    if (ram && (!json_is_integer(ram) || json_integer_value(ram) < 1))
        return error_set(error, STATUS_INVALID_ARGUMENT, "'ram' is a number of bytes");
    options->accumulator = bits ? (int32_t)json_integer_value(bits) : options->accumulator;
    options->extra_macs = extra ? json_number_value(extra) : options->extra_macs;
    options->ram = ram ? json_integer_value(ram) : options->ram;
    return 0;
}

/* `outer`: the step around an inner one, or NULL. */
static json_t *step_json(const struct graph *graph, const struct schedule *schedule,
                         const struct schedule_step *step, const struct schedule_step *outer)
{
    struct schedule_form form = schedule_form(graph, schedule, step, outer);
    json_t *inner = json_array();
    for (int32_t i = 0; i < step->n_inner; i++)
        json_array_append_new(inner, step_json(graph, schedule, &step->inner[i], step));
    json_t *json = schedule_form_json(graph, &form, step->ops, step->n_ops, inner);
    json_object_set_new(json, "predicted_ms", json_real(1e3 * step->seconds));
    return json;
}

static void totals(const struct graph *graph, int64_t *macs, int64_t *params)
{
    *macs = *params = 0;
    for (int32_t i = 0; i < graph->n_ops; i++) {
        const struct op *op = &graph->ops[i];
        struct shape out = graph->tensors[op->output].shape;
        *macs += op_row(op->kind)->macs(graph, op, box_whole(out));
        *params += op->weight_bytes + (op->bias ? out.c : 0);
    }
}

/* What became of a schedule: its program, and why it cannot run; `reason` "" where it can. */
struct outcome {
    struct lowered *lowered; /* NULL: none */
    char reason[ERROR_MESSAGE_BYTES];
};

/* By how much the arena is larger than the memory that was asked for; 0 where it fits, to alignment. */
static int64_t excess(const struct lowered *lowered, const struct schedule_options *options)
{
    enum { ALIGNMENT = 16 };
    int64_t more = lowered && options->ram ? lowered->arena_bytes - options->ram : 0;
    return more >= ALIGNMENT ? more : 0;
}

/* A schedule and by how much its arena is too large. */
struct choice {
    struct schedule *schedule;
    int64_t more;
};

/* Keeps what fits, of two that fit the faster, of two that do not the one that lacks less; frees the other.
 * `other` may be NULL. */
static void choose(const struct graph *graph, const struct schedule_options *options, struct choice *best,
                   struct schedule *other)
{
    struct lowered *lowered = other ? schedule_lower(graph, other, options, NULL, NULL) : NULL;
    int64_t more = excess(lowered, options);
    bool better = lowered && (more < best->more || (more == best->more && best->schedule &&
                                                    other->seconds < best->schedule->seconds));
    schedule_free(better ? best->schedule : other);
    if (better)
        *best = (struct choice){other, more};
    schedule_lowered_free(lowered);
}

/* Packing may take more than a schedule counts: then one that counts less is asked for, at last the one that
 * counts least. Where the operators fit one after the other, whole, nothing slower is an answer. */
static struct schedule *fit_arena(const struct graph *graph, const struct schedule_options *options,
                                  struct schedule *schedule, struct schedule *whole)
{
    enum { TRIES = 2 };
    struct schedule_options less = *options;
    struct lowered *lowered = schedule_lower(graph, schedule, options, NULL, NULL);
    struct choice best = {schedule, excess(lowered, options)};
    bool known = lowered != NULL; /* what no program says has no arena */
    schedule_lowered_free(lowered);
    if (known && whole && whole->peak_bytes <= options->ram)
        choose(graph, options, &best, whole);
    else
        schedule_free(whole);
    for (int32_t try = 0; try < TRIES && best.more > 0 && less.ram > best.more; try++) {
        less.ram -= best.more;
        struct schedule *other = schedule_make(graph, &less, NULL);
        if (!other)
            break;
        choose(graph, options, &best, other);
    }
    less.ram = 0;
    if (best.more > 0)
        choose(graph, options, &best, schedule_make(graph, &less, NULL));
    return best.schedule;
}

static void find_outcome(const struct graph *graph, const struct schedule_options *options,
                         const struct schedule *schedule, schedule_check *check, struct outcome *outcome)
{
    struct error error;
    error_clear(&error);
    outcome->reason[0] = 0;
    outcome->lowered = schedule_lower(graph, schedule, options, NULL, &error);
    if (outcome->lowered && !check)
        error_set(&error, STATUS_MODEL_UNSUPPORTED, "the network has no weights");
    else if (outcome->lowered)
        (void)check(graph, schedule, options, &error);
    if (error.status == STATUS_OK || !check) {
        int64_t more = excess(outcome->lowered, options);
        if (more)
            error_clear(&error);
        if (more)
            error_set(&error, STATUS_DOES_NOT_FIT, "packed, it takes %lld bytes of the %lld given",
                      (long long)outcome->lowered->arena_bytes, (long long)options->ram);
    }
    if (error.status != STATUS_OK)
        (void)snprintf(outcome->reason, sizeof outcome->reason, "%s", error.message);
}

static json_t *bytes_json(const struct lowered *lowered, int64_t bytes)
{
    return lowered ? json_integer(bytes) : json_null();
}

static json_t *program_json(const struct lowered *lowered)
{
    return lowered
               ? json_pack("{s:i, s:I, s:i, s:i, s:i}", "instructions", (int)lowered->n_code, "executions",
                           (json_int_t)lowered->executions, "ranges", (int)lowered->n_ranges, "views",
                           (int)lowered->n_views, "buffers", (int)lowered->n_buffers)
               : json_null();
}

static json_t *partial_json(const struct graph *graph, const struct schedule *schedule,
                            const struct lowered *lowered)
{
    json_t *steps = json_array();
    for (int32_t i = 0; i < schedule->n_steps; i++)
        json_array_append_new(steps, step_json(graph, schedule, &schedule->steps[i], NULL));
    return json_pack("{s:I, s:f, s:o, s:o, s:I, s:o, s:o}", "peak_bytes", (json_int_t)schedule->peak_bytes,
                     "predicted_ms", 1e3 * schedule->seconds, "arena_bytes",
                     bytes_json(lowered, lowered ? lowered->arena_bytes : 0), "scratch_bytes",
                     bytes_json(lowered, lowered ? lowered->scratch_bytes : 0), "extra_macs",
                     (json_int_t)schedule->extra_macs, "program", program_json(lowered), "steps", steps);
}

static json_t *ordinary_json(const struct graph *graph, const struct schedule *ordinary)
{
    const struct schedule_options whole = {.axes = SCHEDULE_AXES_FULL, .accumulator = 32};
    struct lowered *lowered = schedule_lower(graph, ordinary, &whole, NULL, NULL);
    json_t *json = json_pack("{s:I, s:f, s:o, s:o}", "peak_bytes", (json_int_t)ordinary->peak_bytes,
                             "predicted_ms", 1e3 * ordinary->seconds, "arena_bytes",
                             bytes_json(lowered, lowered ? lowered->arena_bytes : 0), "scratch_bytes",
                             bytes_json(lowered, lowered ? lowered->scratch_bytes : 0));
    schedule_lowered_free(lowered);
    return json;
}

static json_t *whole_json(const struct graph *graph, const struct schedule_options *options,
                          const struct schedule *ordinary, const struct schedule *schedule,
                          const struct outcome *outcome)
{
    int64_t macs, params;
    totals(graph, &macs, &params);
    const char *reason = outcome->reason[0] ? outcome->reason : NULL;
    json_t *ram = options->ram ? json_integer(options->ram) : json_null();
    return json_pack("{s:s?, s:I, s:I, s:o, s:o, s:o, s:{s:i, s:s, s:f, s:s, s:o}, s:b, s:b, s:s?, "
                     "s:[s,s,s]}",
                     "name", graph->name, "macs", (json_int_t)macs, "params", (json_int_t)params, "ordinary",
                     ordinary_json(graph, ordinary), "partial",
                     partial_json(graph, schedule, outcome->lowered), "bottleneck",
                     bottleneck_json(graph, schedule, options->accumulator), "options", "accumulator",
                     (int)options->accumulator, "axes", axes_names[options->axes], "extra_macs",
                     options->extra_macs, "image", options->streamed ? "streamed" : "counted", "ram", ram,
                     "exhaustive", (int)schedule->exhaustive, "executable", reason == NULL,
                     "why_not_executable", reason, "searched", "channels", "rows", "patches");
}

/* Operator after operator, in the order that takes least; weights lie in what is left of the memory that was
 * asked for. */
static struct schedule *make_ordinary(const struct graph *graph, const struct schedule_options *options,
                                      struct error *error)
{
    struct schedule_board board = options->board ? *options->board : *schedule_board_default();
    struct schedule_options whole = {.axes = SCHEDULE_AXES_FULL, .accumulator = 32, .board = &board};
    board.arena_bytes = options->ram ? options->ram : board.arena_bytes;
    return schedule_make(graph, &whole, error);
}

/* What is asked for. Where nothing was found for the memory that is given, the least of all may fit it: it
 * comes from a wider search, and a program may take less than is counted. */
static struct schedule *make_asked(const struct graph *graph, const struct schedule_options *options,
                                   struct error *error)
{
    struct error refusal;
    error_clear(&refusal);
    struct schedule *schedule = schedule_make(graph, options, &refusal);
    if (!schedule && refusal.status == STATUS_DOES_NOT_FIT) {
        struct schedule_options least = *options;
        least.ram = 0;
        schedule = schedule_make(graph, &least, NULL);
        struct lowered *lowered = schedule ? schedule_lower(graph, schedule, options, NULL, NULL) : NULL;
        if (!lowered || lowered->arena_bytes > options->ram) {
            schedule_free(schedule);
            schedule = NULL;
        }
        schedule_lowered_free(lowered);
    }
    if (!schedule && error)
        *error = refusal;
    return schedule;
}

json_t *schedule_describe(const struct graph *graph, const struct schedule_options *options,
                          schedule_check *check, struct error *error)
{
    struct schedule *schedule = make_asked(graph, options, error);
    struct schedule *ordinary = schedule ? make_ordinary(graph, options, error) : NULL;
    struct outcome outcome = {.lowered = NULL};
    if (ordinary && options->ram)
        schedule = fit_arena(graph, options, schedule, make_ordinary(graph, options, NULL));
    if (ordinary)
        find_outcome(graph, options, schedule, check, &outcome);
    json_t *json = ordinary ? whole_json(graph, options, ordinary, schedule, &outcome) : NULL;
    if (ordinary && !json)
        error_set(error, STATUS_NO_MEMORY, "no memory for the schedule");
    schedule_lowered_free(outcome.lowered);
    schedule_free(schedule);
    schedule_free(ordinary);
    return json;
}
