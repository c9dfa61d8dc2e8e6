/* The one JSON form of an error, for the API and for `--json`:
 * {"error":{"code","message","detail":{}}}. `detail` has what is known of layer, op, offset, limit, actual,
 * board, segment, resource, need_bytes, have_bytes, missing_bytes. */
#ifndef SHOAL_SERVER_BASE_ERROR_JSON_H
#define SHOAL_SERVER_BASE_ERROR_JSON_H

#include "server/base/error.h"

#include <jansson.h>

/* A new reference; NULL when there is no memory. The caller may add keys to its "detail". Text that is no
 * UTF-8 is left out. */
json_t *error_json(const struct error *error);
/* Only the "detail" object. */
json_t *error_json_detail(const struct error *error);

#endif
