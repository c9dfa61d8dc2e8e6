/*
 * Status codes of all of Shoal: server, boards and command line use this one list.
 *
 * Success is 0 or positive, an error negative. Each row gives the enumerator, the stable name that the API
 * and the wire carry, a short text for people, and the HTTP status. Rows are only ever appended: the numbers
 * go over the wire in FAILED and LOG.
 */
#ifndef SHOAL_SHARED_BASE_STATUS_H
#define SHOAL_SHARED_BASE_STATUS_H

#define STATUS_LIST(X)                                                                          \
    X(INTERNAL, "internal", "internal error", 500)                                              \
    X(NO_MEMORY, "no_memory", "out of memory", 503)                                             \
    X(INVALID_ARGUMENT, "invalid_argument", "invalid argument", 400)                            \
    X(BAD_JSON, "bad_json", "the body is not the JSON that was expected", 400)                  \
    X(NOT_FOUND, "not_found", "no such resource", 404)                                          \
    X(METHOD_NOT_ALLOWED, "method_not_allowed", "method not allowed here", 405)                 \
    X(CONFLICT, "conflict", "conflicts with the present state", 409)                            \
    X(TOO_LARGE, "too_large", "larger than the limit", 413)                                     \
    X(UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", "unsupported content type", 415)        \
    X(UNAUTHORIZED, "unauthorized", "who is asking is not known", 401)                          \
    X(FORBIDDEN, "forbidden", "not allowed", 403)                                               \
    X(MODEL_MALFORMED, "model_malformed", "the model file is malformed", 422)                   \
    X(MODEL_UNSUPPORTED, "model_unsupported", "the model uses something unsupported", 422)      \
    X(MODEL_LIMIT, "model_limit", "the model is beyond a limit", 422)                           \
    X(IMPORT_CRASHED, "import_crashed", "the importer ended without an answer", 422)            \
    X(IMAGE_MALFORMED, "image_malformed", "the image cannot be decoded", 422)                   \
    X(INPUT_SIZE, "input_size", "the input has the wrong size", 400)                            \
    X(DOES_NOT_FIT, "does_not_fit", "the plan does not fit on the boards", 422)                 \
    X(TOO_FEW_BOARDS, "too_few_boards", "not enough boards", 422)                               \
    X(BUSY, "busy", "busy, try again later", 503)                                               \
    X(NOT_DEPLOYED, "not_deployed", "the model has no active deployment", 503)                  \
    X(DEGRADED, "degraded", "a board of the deployment is offline", 503)                        \
    X(BOARD_LOST, "board_lost", "a board was lost during the inference", 503)                   \
    X(DEADLINE, "deadline", "the deadline passed", 504)                                         \
    X(CANCELLED, "cancelled", "cancelled", 409)                                                 \
    X(STORE_FAILED, "store_failed", "the database refused", 500)                                \
    X(IO_FAILED, "io_failed", "reading or writing failed", 500)                                 \
    X(FRAGMENT_MALFORMED, "fragment_malformed", "the fragment is malformed", 422)               \
    X(FRAGMENT_BOUNDS, "fragment_bounds", "the fragment reaches outside its memory", 422)       \
    X(FRAGMENT_DATA, "fragment_data", "the fragment reads what was not written", 422)           \
    X(FRAGMENT_ORDER, "fragment_order", "the fragment breaks the order of exchanges", 422)      \
    X(FRAGMENT_ENDLESS, "fragment_endless", "the fragment executes more than it states", 422)   \
    X(FRAGMENT_UNKNOWN, "fragment_unknown", "the board does not hold this fragment", 409)       \
    X(FLASH_FULL, "flash_full", "the flash cannot hold it", 507)                                \
    X(RAM_FULL, "ram_full", "the memory cannot hold it", 507)                                   \
    X(HASH_MISMATCH, "hash_mismatch", "the content does not match its hash", 422)               \
    X(WIRE_MALFORMED, "wire_malformed", "a malformed frame", 400)                               \
    X(WIRE_VERSION, "wire_version", "no common protocol version", 400)                          \
    X(WIRE_ORDER, "wire_order", "a frame out of order", 400)                                    \
    X(TLS_FAILED, "tls_failed", "the TLS handshake failed", 400)                                \
    X(CERTIFICATE_MISSING, "certificate_missing", "the peer has no certificate", 401)           \
    X(CERTIFICATE_WRONG, "certificate_wrong", "the certificate is not of this fleet", 401)      \
    X(CERTIFICATE_EXPIRED, "certificate_expired", "the certificate has expired", 401)           \
    X(CERTIFICATE_REVOKED, "certificate_revoked", "the board is revoked", 403)                  \
    X(CODE_WRONG, "code_wrong", "the enrolment code is not known", 403)                         \
    X(CODE_EXPIRED, "code_expired", "the enrolment code has expired", 403)                      \
    X(CODE_USED, "code_used", "the enrolment code is used up", 403)                             \
    X(OFFLINE, "offline", "the peer is out of reach", 503)                                      \
    X(ABORTED, "aborted", "aborted", 409)                                                       \
    X(GOLDEN_MISMATCH, "golden_mismatch", "the boards' answer differs from the reference", 500) \
    X(PAYLOAD_TIMEOUT, "payload_timeout", "the request came too slowly", 408)                   \
    X(DISK_FULL, "disk_full", "the disk is full", 507)                                          \
    X(STRATEGY_UNSUPPORTED, "strategy_unsupported", "no such strategy can be planned yet", 422)

enum status_magnitude {
    STATUS_MAGNITUDE_NONE = 0,
#define STATUS_ROW(id, name, text, http) STATUS_MAGNITUDE_##id,
    STATUS_LIST(STATUS_ROW)
#undef STATUS_ROW
        STATUS_COUNT
};

enum status {
    STATUS_OK = 0,
#define STATUS_ROW(id, name, text, http) STATUS_##id = -STATUS_MAGNITUDE_##id,
    STATUS_LIST(STATUS_ROW)
#undef STATUS_ROW
};

/* The stable name ("does_not_fit"); "ok" for 0 and above, "internal" for a number that is not in the list. */
const char *status_name(int status);
/* One short English text, no final stop. */
const char *status_text(int status);
/* The HTTP status; 200 for 0 and above, 500 for a number that is not in the list. */
int status_http(int status);
/* The status of a stable name, STATUS_INTERNAL for a name that is not in the list. */
enum status status_from_name(const char *name);

#endif
