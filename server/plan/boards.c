/*
 * Boards as the planner sees them: built-in profiles, FLEET.json both ways, names of strategies and shares.
 * Values from outside are checked here: finite, not negative, of the right type, no unknown key.
 */
#include "server/plan/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BOARDS_MAX = CONDUCT_PARTIES_MAX };

/* facts/cost-model names them; FACTS/profiles holds the same figures. */
static const struct plan_board profiles[] = {
    {.name = "teensy41-good",
     .clock_hz = 600e6,
     .mac_per_cycle = {0.62, 0.30, 0.40, 0.60},
     .element_per_cycle = 0.50,
     .link_bytes_per_s = 11.0e6,
     .crypto_bytes_per_s = 20e6,
     .message_latency_s = 200e-6,
     .extra_message_cpu_s = 40e-6,
     .flash_bytes_per_s = 40e6,
     .coordinator_link_bytes_per_s = 110e6,
     .arena_bytes = 458752,
     .weight_ram_bytes = 262144,
     .flash_bytes = 7340032,
     .layouts = NN_LAYOUT_MASK_PLAIN,
     .bandwidth_kb_per_s = 11000,
     .delay_s_per_kb = 50e-6},
    {.name = "teensy41-cautious",
     .clock_hz = 600e6,
     .mac_per_cycle = {0.27, 0.12, 0.18, 0.50},
     .element_per_cycle = 0.25,
     .link_bytes_per_s = 11.0e6,
     .crypto_bytes_per_s = 4.7e6,
     .message_latency_s = 300e-6,
     .extra_message_cpu_s = 100e-6,
     .flash_bytes_per_s = 30e6,
     .coordinator_link_bytes_per_s = 110e6,
     .arena_bytes = 458752,
     .weight_ram_bytes = 262144,
     .flash_bytes = 7340032,
     .layouts = NN_LAYOUT_MASK_PLAIN,
     .bandwidth_kb_per_s = 11000,
     .delay_s_per_kb = 75e-6},
};

const struct plan_board *plan_profile(const char *name)
{
    for (size_t i = 0; i < sizeof profiles / sizeof *profiles; i++)
        if (strcmp(name, profiles[i].name) == 0)
            return &profiles[i];
    return NULL;
}

static const char *const strategy_names[] = {"auto", "neuron", "channels", "strips", "single"};
static const char *const shares_names[] = {"rating", "even", "frequency"};

const char *plan_strategy_name(enum plan_strategy strategy)
{
    return strategy_names[strategy];
}

const char *plan_shares_name(enum plan_shares shares)
{
    return shares_names[shares];
}

int plan_strategy_from_name(const char *name, enum plan_strategy *strategy)
{
    for (int i = 0; i < 5; i++)
        if (strcmp(name, strategy_names[i]) == 0) {
            *strategy = (enum plan_strategy)i;
            return 0;
        }
    return STATUS_INVALID_ARGUMENT;
}

int plan_shares_from_name(const char *name, enum plan_shares *shares)
{
    for (int i = 0; i < 3; i++)
        if (strcmp(name, shares_names[i]) == 0) {
            *shares = (enum plan_shares)i;
            return 0;
        }
    return STATUS_INVALID_ARGUMENT;
}

/* ---- FLEET.json ---- */

enum field_type { FIELD_REAL, FIELD_INTEGER };

struct field {
    const char *key;
    enum field_type type;
    size_t offset;
};

#define FIELD(name, type)                              \
    {                                                  \
#name, type, offsetof(struct plan_board, name) \
    }
static const struct field fields[] = {
    FIELD(clock_hz, FIELD_REAL),
    FIELD(element_per_cycle, FIELD_REAL),
    FIELD(link_bytes_per_s, FIELD_REAL),
    FIELD(crypto_bytes_per_s, FIELD_REAL),
    FIELD(message_latency_s, FIELD_REAL),
    FIELD(extra_message_cpu_s, FIELD_REAL),
    FIELD(flash_bytes_per_s, FIELD_REAL),
    FIELD(coordinator_link_bytes_per_s, FIELD_REAL),
    FIELD(bandwidth_kb_per_s, FIELD_REAL),
    FIELD(delay_s_per_kb, FIELD_REAL),
    FIELD(k1, FIELD_REAL),
    FIELD(arena_bytes, FIELD_INTEGER),
    FIELD(weight_ram_bytes, FIELD_INTEGER),
    FIELD(flash_bytes, FIELD_INTEGER),
    FIELD(layouts, FIELD_INTEGER),
};
static const char *const kinds[4] = {"conv1x1", "depthwise", "conv", "fully_connected"};

static int bad(struct error *error, const char *key, const char *what)
{
    return error_set(error, STATUS_BAD_JSON, "board key '%s' %s", key, what);
}

static int read_real(json_t *value, const char *key, double *out, struct error *error)
{
    if (!json_is_number(value) || !isfinite(json_number_value(value)) || json_number_value(value) < 0)
        return bad(error, key, "is not a number that is at least 0");
    *out = json_number_value(value);
    return 0;
}

static int read_integer(json_t *value, const char *key, int64_t *out, struct error *error)
{
    double number = json_number_value(value);
    if (!json_is_number(value) || !(number >= 0) || number > 1e15)
        return bad(error, key, "is not a count");
    *out = json_is_integer(value) ? json_integer_value(value) : (int64_t)number;
    return 0;
}

static int read_text(json_t *value, const char *key, char *out, size_t size, struct error *error)
{
    if (!json_is_string(value) || json_string_length(value) >= size)
        return bad(error, key, "is not a short text");
    memcpy(out, json_string_value(value), json_string_length(value) + 1);
    return 0;
}

static int read_rates(json_t *value, struct plan_board *board, struct error *error)
{
    const char *key;
    json_t *item;
    int status = 0;
    if (!json_is_object(value))
        return bad(error, "mac_per_cycle", "is not an object");
    json_object_foreach(value, key, item)
    {
        int kind = 0;
        while (kind < 4 && strcmp(key, kinds[kind]) != 0)
            kind++;
        if (kind == 4)
            return bad(error, key, "is unknown");
        status = read_real(item, key, &board->mac_per_cycle[kind], error);
        if (status < 0)
            return status;
    }
    return 0;
}

static int read_field(const char *key, json_t *value, struct plan_board *board, struct error *error)
{
    if (strcmp(key, "name") == 0)
        return read_text(value, key, board->name, sizeof board->name, error);
    if (strcmp(key, "id") == 0)
        return read_text(value, key, board->id, sizeof board->id, error);
    if (strcmp(key, "note") == 0)
        return 0;
    if (strcmp(key, "mac_per_cycle") == 0)
        return read_rates(value, board, error);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (strcmp(key, fields[i].key) != 0)
            continue;
        char *at = (char *)board + fields[i].offset;
        return fields[i].type == FIELD_REAL ? read_real(value, key, (double *)(void *)at, error)
                                            : read_integer(value, key, (int64_t *)(void *)at, error);
    }
    return bad(error, key, "is unknown");
}

/* What is not given is that of teensy41-good; bandwidth and delay follow from link and latency. */
static int read_board(json_t *json, struct plan_board *board, struct error *error)
{
    const char *key;
    json_t *value;
    *board = profiles[0];
    board->bandwidth_kb_per_s = board->delay_s_per_kb = -1;
    if (!json_is_object(json))
        return error_set(error, STATUS_BAD_JSON, "a board is not a JSON object");
    json_object_foreach(json, key, value)
    {
        int status = read_field(key, value, board, error);
        if (status < 0)
            return status;
    }
    if (board->bandwidth_kb_per_s < 0)
        board->bandwidth_kb_per_s = board->link_bytes_per_s / 1e3;
    if (board->delay_s_per_kb < 0)
        board->delay_s_per_kb = board->message_latency_s / 4;
    return 0;
}

int plan_boards_from_json(json_t *json, struct plan_board **boards, int32_t *n, struct error *error)
{
    size_t count = json_is_array(json) ? json_array_size(json) : 1;
    *boards = NULL;
    *n = 0;
    if (count < 1 || count > BOARDS_MAX)
        return error_set(error, count ? STATUS_TOO_LARGE : STATUS_TOO_FEW_BOARDS,
                         "%zu boards; 1 to %d are allowed", count, BOARDS_MAX);
    struct plan_board *list = calloc(count, sizeof *list);
    if (!list)
        return error_set(error, STATUS_NO_MEMORY, "no memory for %zu boards", count);
    for (size_t i = 0; i < count; i++) {
        int status = read_board(json_is_array(json) ? json_array_get(json, i) : json, &list[i], error);
        if (status < 0) {
            free(list);
            return status;
        }
    }
    *boards = list;
    *n = (int32_t)count;
    return 0;
}

static void copy_board(const struct plan_board *from, struct schedule_board *to)
{
    *to = (struct schedule_board){.clock_hz = from->clock_hz,
                                  .element_per_cycle = from->element_per_cycle,
                                  .flash_bytes_per_s = from->flash_bytes_per_s,
                                  .arena_bytes = from->arena_bytes,
                                  .weight_ram_bytes = from->weight_ram_bytes};
    memcpy(to->mac_per_cycle, from->mac_per_cycle, sizeof to->mac_per_cycle);
}

int plan_schedule_board(json_t *json, struct schedule_board *board, struct error *error)
{
    struct plan_board *boards;
    int32_t n;
    if (json_is_string(json)) {
        const struct plan_board *known = plan_profile(json_string_value(json));
        if (!known)
            return error_set(error, STATUS_INVALID_ARGUMENT, "there is no profile '%s'",
                             json_string_value(json));
        copy_board(known, board);
        return 0;
    }
    int status = plan_boards_from_json(json, &boards, &n, error);
    if (status == 0 && n != 1)
        status = error_set(error, STATUS_INVALID_ARGUMENT, "%d boards; a profile is one", n);
    if (status == 0)
        copy_board(&boards[0], board);
    free(boards);
    return status;
}

json_t *plan_board_json(const struct plan_board *board)
{
    json_t *rates = json_object(), *json = json_object();
    for (int i = 0; i < 4; i++)
        json_object_set_new(rates, kinds[i], json_real(board->mac_per_cycle[i]));
    json_object_set_new(json, "name", json_string(board->name));
    if (board->id[0])
        json_object_set_new(json, "id", json_string(board->id));
    json_object_set_new(json, "mac_per_cycle", rates);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const char *at = (const char *)board + fields[i].offset;
        json_object_set_new(json, fields[i].key,
                            fields[i].type == FIELD_REAL ? json_real(*(const double *)(const void *)at)
                                                         : json_integer(*(const int64_t *)(const void *)at));
    }
    return json;
}
