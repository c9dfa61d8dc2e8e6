/* Models and fleets from the command line: files are read whole, models imported in the limited child. */
#include "server/cli/fleet_options.h"

#include "server/base/file.h"
#include "server/base/hash.h"
#include "server/import/import.h"

#include <stdlib.h>
#include <string.h>

enum { FLEET_BYTES_MAX = 1024 * 1024 };

void fleet_options_rows(struct fleet_options *fleet, struct cli_option rows[FLEET_OPTIONS])
{
    const struct cli_option all[FLEET_OPTIONS] = {
        {.name = "boards", .kind = CLI_TEXT, .target = &fleet->boards},
        {.name = "profile", .kind = CLI_TEXT, .target = &fleet->profile},
        {.name = "strategy",
         .kind = CLI_CHOICE,
         .target = &fleet->strategy,
         .choices = "auto|neuron|channels|strips|single"},
        {.name = "shares", .kind = CLI_CHOICE, .target = &fleet->shares, .choices = "rating|even|frequency"},
        {.name = "ram", .kind = CLI_BYTES, .target = &fleet->ram, .min = 1, .max = (int64_t)1 << 40},
        {.name = "flash", .kind = CLI_BYTES, .target = &fleet->flash, .min = 1, .max = (int64_t)1 << 40},
        {.name = "json", .kind = CLI_FLAG, .target = &fleet->json},
    };
    memcpy(rows, all, sizeof all);
}

static int read_boards(const char *path, struct plan_board **boards, int32_t *n, struct error *error)
{
    uint8_t *bytes;
    size_t size;
    json_error_t where;
    int status = file_read(path, FLEET_BYTES_MAX, &bytes, &size, error);
    if (status < 0)
        return status;
    json_t *json = json_loadb((const char *)bytes, size, JSON_REJECT_DUPLICATES, &where);
    free(bytes);
    if (!json)
        return error_set(error, STATUS_BAD_JSON, "%s, line %d: %s", path, where.line, where.text);
    status = plan_boards_from_json(json, boards, n, error);
    json_decref(json);
    return status;
}

static int copies(const struct fleet_options *fleet, int32_t count, struct plan_board **boards, int32_t *n,
                  struct error *error)
{
    struct plan_board *one = NULL, *all;
    int32_t n_one = 1;
    int status = fleet->profile ? read_boards(fleet->profile, &one, &n_one, error) : 0;
    if (status == 0 && n_one != 1)
        status = error_set(error, STATUS_INVALID_ARGUMENT, "%s describes %d boards; a profile is one",
                           fleet->profile, n_one);
    if (status == 0 && (all = calloc((size_t)count, sizeof *all)) != NULL) {
        for (int32_t i = 0; i < count; i++) {
            all[i] = one ? *one : *plan_profile("teensy41-good");
            all[i].id[0] = 0;
            snprintf(all[i].name, sizeof all[i].name, "board-%d", i + 1);
        }
        *boards = all;
        *n = count;
    } else if (status == 0) {
        status = error_set(error, STATUS_NO_MEMORY, "no memory for %d boards", count);
    }
    free(one);
    return status;
}

int fleet_options_boards(const struct fleet_options *fleet, struct plan_board **boards, int32_t *n,
                         struct error *error)
{
    const char *text = fleet->boards;
    char *end;
    long count = strtol(text, &end, 10);
    int status;
    *boards = NULL;
    if (*text && !*end)
        status = count < 1 || count > CONDUCT_PARTIES_MAX
                     ? error_set(error, count < 1 ? STATUS_TOO_FEW_BOARDS : STATUS_INVALID_ARGUMENT,
                                 "%s boards; 1 to %d are allowed", text, CONDUCT_PARTIES_MAX)
                     : copies(fleet, (int32_t)count, boards, n, error);
    else if (fleet->profile)
        status = error_set(error, STATUS_INVALID_ARGUMENT,
                           "--profile goes with a number of boards, not with a fleet");
    else
        status = read_boards(text, boards, n, error);
    for (int32_t i = 0; status == 0 && i < *n; i++) {
        (*boards)[i].arena_bytes = fleet->ram ? fleet->ram : (*boards)[i].arena_bytes;
        (*boards)[i].flash_bytes = fleet->flash ? fleet->flash : (*boards)[i].flash_bytes;
    }
    return status;
}

struct plan_options fleet_options_plan(const struct fleet_options *fleet)
{
    return (struct plan_options){.strategy = (enum plan_strategy)fleet->strategy,
                                 .shares = (enum plan_shares)fleet->shares};
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int fleet_options_model(const char *path, bool json, struct graph **graph, char *version)
{
    struct error error;
    uint8_t *bytes, hash[HASH_BYTES];
    size_t size;
    error_clear(&error);
    *graph = NULL;
    if (file_read(path, IMPORT_MODEL_BYTES_MAX, &bytes, &size, &error) < 0)
        return cli_fail(json, &error);
    if (version) {
        hash_sha256(bytes, size, hash);
        hash_hex(hash, version);
    }
    *graph = import_bytes(bytes, size, base_name(path), &error);
    free(bytes);
    return *graph ? CLI_DONE : cli_fail(json, &error);
}
