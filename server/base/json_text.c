/* A walk that rounds, then jansson's dump. See the header. */
#include "server/base/json_text.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static bool is_ms(const char *key)
{
    size_t n = strlen(key);
    return n >= 3 && strcmp(key + n - 3, "_ms") == 0;
}

/* `ms`: the value is milliseconds, or holds nothing else. */
static void round_ms(json_t *json, bool ms)
{
    const char *key;
    size_t i;
    json_t *value;
    if (json_is_object(json)) {
        json_object_foreach(json, key, value) round_ms(value, ms || is_ms(key));
    } else if (json_is_array(json)) {
        json_array_foreach(json, i, value) round_ms(value, ms);
    } else if (ms && json_is_real(json)) {
        (void)json_real_set(json, round(json_real_value(json) * 1e3) / 1e3);
    }
}

char *json_text(json_t *json)
{
    if (!json)
        return NULL;
    round_ms(json, false);
    return json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(12));
}
