/*
 * Layers and one board's schedule as JSON. The schedule is that of a plan for one board without limits, so
 * the figures are those of a program that really runs, and the peak follows the counting rules of
 * facts/partial-execution.
 */
#include "server/plan/describe.h"

#include "server/model/optable.h"

static struct box whole_output(const struct graph *graph, const struct op *op)
{
    return box_whole(graph->tensors[op->output].shape);
}

static int64_t op_params(const struct graph *graph, const struct op *op)
{
    return op->weight_bytes + (op->bias ? graph->tensors[op->output].shape.c : 0);
}

int64_t describe_macs(const struct graph *graph)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < graph->n_ops; i++)
        sum += op_row(graph->ops[i].kind)->macs(graph, &graph->ops[i], whole_output(graph, &graph->ops[i]));
    return sum;
}

int64_t describe_params(const struct graph *graph)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < graph->n_ops; i++)
        sum += op_params(graph, &graph->ops[i]);
    return sum;
}

static json_t *tensor_json(const struct graph *graph, int32_t index)
{
    const struct tensor *tensor = &graph->tensors[index];
    json_t *dims = json_array();
    for (int32_t i = 0; i < tensor->rank; i++)
        json_array_append_new(dims, json_integer(tensor->dims[i]));
    return json_pack("{s:i, s:s?, s:s, s:o, s:b}", "tensor", (int)index, "name", tensor->name, "dtype",
                     dtype_name(tensor->dtype), "dims", dims, "constant", tensor->data != NULL);
}

static json_t *ends_json(const struct graph *graph, const int32_t *ends, int32_t n)
{
    json_t *array = json_array();
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(array, tensor_json(graph, ends[i]));
    return array;
}

/* Kernel and stride of a window, null of an operator without one. */
static json_t *window_json(const struct op *op)
{
    if (op->kernel_h * op->kernel_w == 0 || op->stride_h == 0)
        return json_null();
    return json_pack("{s:[i,i], s:[i,i], s:i}", "kernel", (int)op->kernel_h, (int)op->kernel_w, "stride",
                     (int)op->stride_h, (int)op->stride_w, "groups", (int)op->groups);
}

static json_t *layer_json(const struct graph *graph, int32_t index)
{
    static const char *const activations[] = {NULL, "relu", "relu6", "relu_n1_to_1"};
    static const char *const places[] = {"head", "body", "tail"};
    const struct op *op = &graph->ops[index];
    const struct op_row *row = op_row(op->kind);
    return json_pack("{s:i, s:s?, s:s, s:s?, s:s, s:o, s:s?, s:o, s:o, s:I, s:I, s:I, s:I}", "index",
                     (int)index, "name", op->name, "op", row->name, "file_op", op->file_op, "place",
                     places[op->place], "window", window_json(op), "activation", activations[op->activation],
                     "inputs", ends_json(graph, op->inputs, op->n_inputs), "output",
                     tensor_json(graph, op->output), "macs",
                     (json_int_t)row->macs(graph, op, whole_output(graph, op)), "params",
                     (json_int_t)op_params(graph, op), "weight_bytes", (json_int_t)op->weight_bytes,
                     "output_bytes", (json_int_t)tensor_bytes(&graph->tensors[op->output]));
}

json_t *describe_layers(const struct graph *graph)
{
    json_t *layers = json_array();
    int64_t weights = 0;
    for (int32_t i = 0; i < graph->n_ops; i++) {
        json_array_append_new(layers, layer_json(graph, i));
        weights += graph->ops[i].weight_bytes;
    }
    return json_pack("{s:s?, s:I, s:I, s:I, s:o, s:o, s:o}", "name", graph->name, "macs",
                     (json_int_t)describe_macs(graph), "params", (json_int_t)describe_params(graph),
                     "weight_bytes", (json_int_t)weights, "inputs",
                     ends_json(graph, graph->inputs, graph->n_inputs), "outputs",
                     ends_json(graph, graph->outputs, graph->n_outputs), "layers", layers);
}

/* ---- one board ---- */

static int64_t in_use(const struct plan_party *party, int32_t step)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < party->n_buffers; i++) {
        const struct plan_buffer *buffer = &party->buffers[i];
        bool shared = false; /* made in the place of one that is counted */
        for (int32_t j = 0; j < i && !shared; j++)
            shared = party->buffers[j].offset == buffer->offset && party->buffers[j].first <= step &&
                     step <= party->buffers[j].last;
        if (!shared && buffer->elem == 1 && buffer->first <= step && step <= buffer->last)
            sum += buffer->bytes;
    }
    return sum;
}

static json_t *step_json(const struct graph *graph, const struct plan_party *party, int32_t step)
{
    json_t *ops = json_array(), *layers = json_array();
    json_array_append_new(layers, json_integer(party->steps[step].op));
    json_array_append_new(ops, json_string(graph->ops[party->steps[step].op].name));
    return json_pack("{s:s, s:o, s:o, s:n, s:n, s:I}", "mode", "full", "ops", ops, "layers", layers, "k",
                     "tile", "peak_bytes", (json_int_t)in_use(party, step));
}

static const char *role_of(const struct plan_step *step, int32_t buffer)
{
    if (buffer == step->out)
        return "output";
    return buffer == step->in[0] || buffer == step->in[1] ? "input" : "live";
}

static json_t *bottleneck_json(const struct graph *graph, const struct plan_party *party)
{
    const struct plan_step *step = &party->steps[party->peak_step];
    json_t *tensors = json_array();
    for (int32_t i = 0; i < party->n_buffers; i++) {
        const struct plan_buffer *buffer = &party->buffers[i];
        if (buffer->elem != 1 || buffer->first > party->peak_step || buffer->last < party->peak_step)
            continue;
        json_array_append_new(tensors,
                              json_pack("{s:s?, s:I, s:s}", "name", graph->tensors[buffer->tensor].name,
                                        "bytes", (json_int_t)buffer->bytes, "role", role_of(step, i)));
    }
    return json_pack("{s:s?, s:I, s:o}", "op", step->op >= 0 ? graph->ops[step->op].name : NULL, "bytes",
                     (json_int_t)party->peak_bytes, "tensors", tensors);
}

static json_t *schedule_json(const struct graph *graph, const struct plan_party *party)
{
    json_t *steps = json_array();
    for (int32_t s = 0; s < party->n_steps; s++)
        if (party->steps[s].kind == PLAN_STEP_TASK)
            json_array_append_new(steps, step_json(graph, party, s));
    return json_pack("{s:s?, s:I, s:I, s:{s:I}, s:{s:I, s:I, s:I, s:I, s:o}, s:o}", "name", graph->name,
                     "macs", (json_int_t)describe_macs(graph), "params", (json_int_t)describe_params(graph),
                     "ordinary", "peak_bytes", (json_int_t)party->peak_bytes, "partial", "peak_bytes",
                     (json_int_t)party->peak_bytes, "arena_bytes", (json_int_t)party->arena_bytes,
                     "scratch_bytes", (json_int_t)party->scratch_bytes, "extra_macs", (json_int_t)0, "steps",
                     steps, "bottleneck", party->n_steps > 0 ? bottleneck_json(graph, party) : json_null());
}

json_t *describe_schedule(const struct graph *graph, struct error *error)
{
    struct plan_board board = *plan_profile("teensy41-good");
    struct plan_options options = {.strategy = PLAN_STRATEGY_SINGLE, .shares = PLAN_SHARES_EVEN};
    board.arena_bytes = board.flash_bytes = INT64_MAX / 2;
    struct plan *plan = plan_make(graph, "", &board, 1, &options, NULL, NULL, error);
    if (!plan)
        return NULL;
    json_t *json = schedule_json(graph, &plan->parties[0]);
    plan_free(plan);
    if (!json)
        error_set(error, STATUS_NO_MEMORY, "no memory for the schedule");
    return json;
}
