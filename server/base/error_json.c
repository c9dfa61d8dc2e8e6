/* An error as JSON. Only what is known appears; a missing key never stands for a value. */
#include "server/base/error_json.h"

static void put_text(json_t *object, const char *key, const char *text)
{
    if (text && text[0])
        (void)json_object_set_new(object, key, json_string(text));
}

static void put_number(json_t *object, const char *key, int64_t value)
{
    if (value >= 0)
        (void)json_object_set_new(object, key, json_integer(value));
}

json_t *error_json_detail(const struct error *error)
{
    json_t *detail = json_object();
    if (!detail || error->status == STATUS_OK)
        return detail;
    put_text(detail, "layer", error->layer);
    put_text(detail, "op", error->op);
    put_number(detail, "offset", error->offset);
    put_number(detail, "limit", error->limit);
    put_number(detail, "actual", error->actual);
    const struct error_shortfall *s = &error->shortfall;
    if (!s->resource)
        return detail;
    put_text(detail, "board", s->board);
    put_number(detail, "segment", s->segment);
    put_text(detail, "op", s->op);
    put_text(detail, "resource", s->resource);
    put_number(detail, "need_bytes", s->need_bytes);
    put_number(detail, "have_bytes", s->have_bytes);
    if (s->need_bytes >= 0 && s->have_bytes >= 0)
        put_number(detail, "missing_bytes", s->need_bytes - s->have_bytes);
    return detail;
}

json_t *error_json(const struct error *error)
{
    const char *message = error->message[0] ? error->message : status_text(error->status);
    json_t *text = json_string(message);
    if (!text)
        text = json_string(status_text(error->status));
    return json_pack("{s:{s:s, s:o, s:o}}", "error", "code", status_name(error->status), "message", text,
                     "detail", error_json_detail(error));
}
