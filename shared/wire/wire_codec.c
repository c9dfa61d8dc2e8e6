/*
 * Encoder and decoder of all messages: the X-macro becomes tables of fields, and one walk over a table writes
 * or reads any message. So a field is declared once, and there is no second place to forget it in.
 *
 * The decoder trusts nothing: every length is compared with what is left before it is used, texts must be
 * UTF-8 without NUL, counts must be within their caps, and a payload must end where its last field ends.
 */
#include "shared/wire/wire.h"

#include <string.h>

enum field_kind {
    FIELD_u8,
    FIELD_u16,
    FIELD_u32,
    FIELD_u64,
    FIELD_i16,
    FIELD_i32,
    FIELD_bytes,
    FIELD_string,
    FIELD_blob,
    FIELD_list
};

struct field {
    uint16_t offset;       /* of the value in the struct */
    uint16_t count_offset; /* of n_x, blobs and lists */
    uint16_t max;
    uint8_t kind;
    uint8_t element; /* enum element, lists */
};

struct record {
    const struct field *fields;
    uint16_t n_fields, size; /* size of the struct */
};

enum element {
#define ELEMENT_ENUM(UPPER, lower) ELEMENT_##lower,
    WIRE_ELEMENTS(ELEMENT_ENUM)
};

#define COUNT_OF_u8(type, name) 0
#define COUNT_OF_u16(type, name) 0
#define COUNT_OF_u32(type, name) 0
#define COUNT_OF_u64(type, name) 0
#define COUNT_OF_i16(type, name) 0
#define COUNT_OF_i32(type, name) 0
#define COUNT_OF_bytes(type, name) 0
#define COUNT_OF_string(type, name) 0
#define COUNT_OF_blob(type, name) offsetof(type, n_##name)

#define ROW_F(k, name, cap) \
    {offsetof(this_message, name), COUNT_OF_##k(this_message, name), cap, FIELD_##k, 0},
#define ROW_L(e, name, cap) \
    {offsetof(this_message, name), offsetof(this_message, n_##name), cap, FIELD_list, ELEMENT_##e},

/* One function per message that returns its table; the typedef gives the rows their struct. */
#define TABLE(UPPER, lower)                                                            \
    static const struct record *record_##lower(void)                                   \
    {                                                                                  \
        typedef struct wire_##lower this_message;                                      \
        static const struct field fields[] = {WIRE_FIELDS_##UPPER(ROW_F, ROW_L)};      \
        static const struct record record = {fields, sizeof fields / sizeof fields[0], \
                                             sizeof(this_message)};                    \
        return &record;                                                                \
    }
WIRE_ELEMENTS(TABLE)
WIRE_MESSAGES(TABLE)

#define FITS(UPPER, lower) _Static_assert(sizeof(struct wire_##lower) <= WIRE_MESSAGE_MAX, #lower);
WIRE_MESSAGES(FITS)

static const struct record *element_record(uint8_t element)
{
    switch (element) {
#define ELEMENT_CASE(UPPER, lower) \
    case ELEMENT_##lower:          \
        return record_##lower();
        WIRE_ELEMENTS(ELEMENT_CASE)
    default:
        return NULL;
    }
}

static const struct record *message_record(uint8_t type)
{
    switch (type) {
#define MESSAGE_CASE(UPPER, lower) \
    case WIRE_##UPPER:             \
        return record_##lower();
        WIRE_MESSAGES(MESSAGE_CASE)
    default:
        return NULL;
    }
}

static uint32_t scalar_bytes(uint8_t kind)
{
    switch (kind) {
    case FIELD_u8:
        return 1;
    case FIELD_u16:
    case FIELD_i16:
        return 2;
    case FIELD_u32:
    case FIELD_i32:
        return 4;
    case FIELD_u64:
        return 8;
    default:
        return 0;
    }
}

/* Little-endian to and from the host's own integers, whatever their order. */
static uint64_t load_native(const uint8_t *at, uint32_t n)
{
    uint16_t v16;
    uint32_t v32;
    uint64_t v64;
    switch (n) {
    case 1:
        return *at;
    case 2:
        memcpy(&v16, at, 2);
        return v16;
    case 4:
        memcpy(&v32, at, 4);
        return v32;
    default:
        memcpy(&v64, at, 8);
        return v64;
    }
}

static void store_native(uint8_t *at, uint32_t n, uint64_t value)
{
    uint8_t v8 = (uint8_t)value;
    uint16_t v16 = (uint16_t)value;
    uint32_t v32 = (uint32_t)value;
    const void *from = n == 1   ? (const void *)&v8
                       : n == 2 ? (const void *)&v16
                       : n == 4 ? (const void *)&v32
                                : (const void *)&value;
    memcpy(at, from, n);
}

/* True for well-formed UTF-8 without NUL: no overlong forms, no surrogates, nothing above U+10FFFF. */
static bool text_valid(const uint8_t *text, uint32_t n)
{
    for (uint32_t i = 0; i < n;) {
        uint32_t lead = text[i++], more = lead < 0x80 ? 0 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
        if (lead == 0 || (lead >= 0x80 && lead < 0xC2) || lead > 0xF4 || more > n - i)
            return false;
        uint32_t code = more == 0 ? lead : lead & (0x3Fu >> more);
        for (uint32_t k = 0; k < more; k++) {
            if ((text[i] & 0xC0) != 0x80)
                return false;
            code = code << 6 | (text[i++] & 0x3Fu);
        }
        if ((more == 2 && (code < 0x800 || (code >= 0xD800 && code <= 0xDFFF))) ||
            (more == 3 && (code < 0x10000 || code > 0x10FFFF)))
            return false;
    }
    return true;
}

/* A payload being read or written; `bad` sticks. */
struct cursor {
    const uint8_t *in;
    uint8_t *out;
    uint32_t at, end;
    bool bad;
};

static bool room_for(struct cursor *cursor, uint32_t n)
{
    if (n > cursor->end - cursor->at)
        cursor->bad = true;
    return !cursor->bad;
}

static void put_number(struct cursor *cursor, uint64_t value, uint32_t n)
{
    if (!room_for(cursor, n))
        return;
    for (uint32_t i = 0; i < n; i++)
        cursor->out[cursor->at++] = (uint8_t)(value >> (8 * i));
}

static uint64_t get_number(struct cursor *cursor, uint32_t n)
{
    uint64_t value = 0;
    if (!room_for(cursor, n))
        return 0;
    for (uint32_t i = 0; i < n; i++)
        value |= (uint64_t)cursor->in[cursor->at++] << (8 * i);
    return value;
}

static void put_raw(struct cursor *cursor, const uint8_t *bytes, uint32_t n)
{
    if (!room_for(cursor, n))
        return;
    memcpy(cursor->out + cursor->at, bytes, n);
    cursor->at += n;
}

static void get_raw(struct cursor *cursor, uint8_t *bytes, uint32_t n)
{
    if (!room_for(cursor, n))
        return;
    memcpy(bytes, cursor->in + cursor->at, n);
    cursor->at += n;
}

static void put_text(struct cursor *cursor, const uint8_t *text, uint32_t max)
{
    const uint8_t *end = memchr(text, 0, max + 1);
    if (end == NULL || !text_valid(text, (uint32_t)(end - text))) {
        cursor->bad = true;
        return;
    }
    put_number(cursor, (uint64_t)(end - text), 2);
    put_raw(cursor, text, (uint32_t)(end - text));
}

static void get_text(struct cursor *cursor, uint8_t *text, uint32_t max)
{
    uint32_t n = (uint32_t)get_number(cursor, 2);
    if (n > max)
        cursor->bad = true;
    if (!room_for(cursor, n) || !text_valid(cursor->in + cursor->at, n)) {
        cursor->bad = true;
        return;
    }
    get_raw(cursor, text, n);
    text[n] = 0;
}

/* The count of a blob or list, checked against its cap. */
static uint32_t checked_count(struct cursor *cursor, uint64_t n, uint32_t max)
{
    if (n > max)
        cursor->bad = true;
    return cursor->bad ? 0 : (uint32_t)n;
}

static void put_record(struct cursor *cursor, const struct record *record, const uint8_t *from);

static void put_field(struct cursor *cursor, const struct field *field, const uint8_t *from)
{
    const uint8_t *value = from + field->offset;
    uint32_t bytes = scalar_bytes(field->kind), n;
    if (bytes > 0) {
        put_number(cursor, load_native(value, bytes), bytes);
    } else if (field->kind == FIELD_bytes) {
        put_raw(cursor, value, field->max);
    } else if (field->kind == FIELD_string) {
        put_text(cursor, value, field->max);
    } else {
        n = checked_count(cursor, load_native(from + field->count_offset, 2), field->max);
        put_number(cursor, n, 2);
        const struct record *element = field->kind == FIELD_list ? element_record(field->element) : NULL;
        if (element == NULL)
            put_raw(cursor, value, n);
        else
            for (uint32_t i = 0; i < n && !cursor->bad; i++)
                put_record(cursor, element, value + (size_t)i * element->size);
    }
}

static void put_record(struct cursor *cursor, const struct record *record, const uint8_t *from)
{
    for (uint32_t i = 0; i < record->n_fields && !cursor->bad; i++)
        put_field(cursor, &record->fields[i], from);
}

static void get_record(struct cursor *cursor, const struct record *record, uint8_t *to);

static void get_field(struct cursor *cursor, const struct field *field, uint8_t *to)
{
    uint8_t *value = to + field->offset;
    uint32_t bytes = scalar_bytes(field->kind), n;
    if (bytes > 0) {
        store_native(value, bytes, get_number(cursor, bytes));
    } else if (field->kind == FIELD_bytes) {
        get_raw(cursor, value, field->max);
    } else if (field->kind == FIELD_string) {
        get_text(cursor, value, field->max);
    } else {
        n = checked_count(cursor, get_number(cursor, 2), field->max);
        store_native(to + field->count_offset, 2, n);
        const struct record *element = field->kind == FIELD_list ? element_record(field->element) : NULL;
        if (element == NULL)
            get_raw(cursor, value, n);
        else
            for (uint32_t i = 0; i < n && !cursor->bad; i++)
                get_record(cursor, element, value + (size_t)i * element->size);
    }
}

static void get_record(struct cursor *cursor, const struct record *record, uint8_t *to)
{
    for (uint32_t i = 0; i < record->n_fields && !cursor->bad; i++)
        get_field(cursor, &record->fields[i], to);
}

static int encode(const struct record *record, const void *message, uint8_t *payload)
{
    struct cursor cursor = {.out = payload, .end = WIRE_PAYLOAD_MAX};
    put_record(&cursor, record, message);
    return cursor.bad ? STATUS_WIRE_MALFORMED : (int)cursor.at;
}

static int decode(const struct record *record, const uint8_t *payload, uint32_t length, void *message)
{
    struct cursor cursor = {.in = payload, .end = length, .bad = length > WIRE_PAYLOAD_MAX};
    memset(message, 0, record->size);
    get_record(&cursor, record, message);
    if (!cursor.bad && cursor.at == length)
        return STATUS_OK;
    memset(message, 0, record->size);
    return STATUS_WIRE_MALFORMED;
}

#define FUNCTIONS(UPPER, lower)                                                                    \
    int wire_encode_##lower(const struct wire_##lower *message, uint8_t *payload)                  \
    {                                                                                              \
        return encode(record_##lower(), message, payload);                                         \
    }                                                                                              \
    int wire_decode_##lower(const uint8_t *payload, uint32_t length, struct wire_##lower *message) \
    {                                                                                              \
        return decode(record_##lower(), payload, length, message);                                 \
    }
WIRE_MESSAGES(FUNCTIONS)

int wire_encode(uint8_t type, const void *message, uint8_t *payload)
{
    const struct record *record = message_record(type);
    return record == NULL ? STATUS_NOT_FOUND : encode(record, message, payload);
}

int wire_decode(uint8_t type, const uint8_t *payload, uint32_t length, void *room)
{
    const struct record *record = message_record(type);
    return record == NULL ? STATUS_NOT_FOUND : decode(record, payload, length, room);
}

/* ---- samples ---- */

struct sampler {
    uint64_t state;
    uint32_t budget; /* bytes that lists, strings and blobs may still take */
};

static uint32_t sample_number(struct sampler *sampler, uint32_t below)
{
    sampler->state = sampler->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(sampler->state >> 33) % below;
}

static uint32_t sample_count(struct sampler *sampler, uint32_t max, uint32_t each)
{
    uint32_t most = sampler->budget / each < max ? sampler->budget / each : max;
    uint32_t n = sample_number(sampler, most + 1);
    sampler->budget -= n * each;
    return n;
}

static void sample_record(struct sampler *sampler, const struct record *record, uint8_t *to);

static void sample_field(struct sampler *sampler, const struct field *field, uint8_t *to)
{
    uint8_t *value = to + field->offset;
    uint32_t bytes = scalar_bytes(field->kind), n;
    if (bytes == 0 && field->kind == FIELD_bytes)
        bytes = field->max;
    if (bytes > 0) {
        for (uint32_t i = 0; i < bytes; i++)
            value[i] = (uint8_t)sample_number(sampler, 256);
    } else if (field->kind == FIELD_string) {
        n = sample_count(sampler, field->max, 1);
        for (uint32_t i = 0; i < n; i++)
            value[i] = (uint8_t)(' ' + sample_number(sampler, 95));
        value[n] = 0;
        if (n >= 2) { /* one letter of two bytes */
            value[0] = 0xC3;
            value[1] = 0xA9;
        }
    } else {
        const struct record *element = field->kind == FIELD_list ? element_record(field->element) : NULL;
        n = sample_count(sampler, field->max, element == NULL ? 1 : element->size);
        store_native(to + field->count_offset, 2, n);
        for (uint32_t i = 0; i < n; i++)
            if (element == NULL)
                value[i] = (uint8_t)sample_number(sampler, 256);
            else
                sample_record(sampler, element, value + (size_t)i * element->size);
    }
}

static void sample_record(struct sampler *sampler, const struct record *record, uint8_t *to)
{
    for (uint32_t i = 0; i < record->n_fields; i++)
        sample_field(sampler, &record->fields[i], to);
}

int wire_sample(uint8_t type, uint64_t seed, void *room)
{
    const struct record *record = message_record(type);
    struct sampler sampler = {.state = seed * 2 + 1, .budget = WIRE_PAYLOAD_MAX - 700};
    if (record == NULL)
        return STATUS_NOT_FOUND;
    memset(room, 0, record->size);
    sample_record(&sampler, record, room);
    return STATUS_OK;
}
