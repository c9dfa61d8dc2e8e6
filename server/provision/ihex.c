/*
 * See the header. A file is read line by line; nothing is skipped: what is not a record, or a record that is
 * not quite right, is an error with its line, since what it damaged would be found only on the board.
 */
#include "server/provision/ihex.h"

#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 16, RECORD_MAX = 255 + 5 };

void ihex_free(struct ihex *ihex)
{
    for (size_t i = 0; i < ihex->n_runs; i++)
        free(ihex->runs[i].bytes);
    free(ihex->runs);
    *ihex = (struct ihex){0};
}

uint64_t ihex_bytes(const struct ihex *ihex)
{
    uint64_t n = 0;
    for (size_t i = 0; i < ihex->n_runs; i++)
        n += ihex->runs[i].n;
    return n;
}

/* ---- memory ---- */

static uint64_t end_of(const struct ihex_run *run)
{
    return (uint64_t)run->address + run->n;
}

/* The first run that ends behind `address`. */
static size_t run_behind(const struct ihex *ihex, uint32_t address)
{
    size_t low = 0, high = ihex->n_runs;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (end_of(&ihex->runs[middle]) > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static int no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "no memory");
}

static int append(struct ihex_run *run, const uint8_t *bytes, uint32_t n, struct error *error)
{
    if (n > run->room - run->n) {
        uint64_t room = (uint64_t)run->n * 2 + n;
        uint8_t *grown = room <= UINT32_MAX ? realloc(run->bytes, (size_t)room) : NULL;
        if (!grown)
            return no_memory(error);
        run->bytes = grown;
        run->room = (uint32_t)room;
    }
    memcpy(run->bytes + run->n, bytes, n);
    run->n += n;
    return STATUS_OK;
}

/* A new, empty run at index `at`. */
static int insert(struct ihex *ihex, size_t at, uint32_t address, struct error *error)
{
    if (ihex->n_runs == ihex->room) {
        size_t room = ihex->room * 2 + 8;
        struct ihex_run *grown = realloc(ihex->runs, room * sizeof *grown);
        if (!grown)
            return no_memory(error);
        ihex->runs = grown;
        ihex->room = room;
    }
    memmove(ihex->runs + at + 1, ihex->runs + at, (ihex->n_runs - at) * sizeof *ihex->runs);
    ihex->n_runs++;
    ihex->runs[at] = (struct ihex_run){.address = address};
    return STATUS_OK;
}

static void erase(struct ihex *ihex, size_t at)
{
    free(ihex->runs[at].bytes);
    ihex->n_runs--;
    memmove(ihex->runs + at, ihex->runs + at + 1, (ihex->n_runs - at) * sizeof *ihex->runs);
}

int ihex_add(struct ihex *ihex, uint32_t address, const uint8_t *bytes, uint32_t n, struct error *error)
{
    if (n == 0)
        return STATUS_OK;
    if ((uint64_t)address + n > (uint64_t)UINT32_MAX + 1)
        return error_set(error, STATUS_INVALID_ARGUMENT, "0x%08x and %u bytes is beyond the last address",
                         address, n);
    size_t at = run_behind(ihex, address);
    if (at < ihex->n_runs && ihex->runs[at].address < (uint64_t)address + n) {
        uint32_t first = ihex->runs[at].address > address ? ihex->runs[at].address : address;
        return error_set(error, STATUS_CONFLICT, "the byte at 0x%08x is there twice", first);
    }
    if (at > 0 && end_of(&ihex->runs[at - 1]) == address)
        return append(&ihex->runs[at - 1], bytes, n, error);
    int status = insert(ihex, at, address, error);
    if (status == STATUS_OK)
        status = append(&ihex->runs[at], bytes, n, error);
    if (status != STATUS_OK && at < ihex->n_runs && ihex->runs[at].n == 0)
        erase(ihex, at);
    return status;
}

/* Cuts a run in two at `address`, which lies inside it. */
static int split(struct ihex *ihex, size_t at, uint32_t address, struct error *error)
{
    uint32_t front = address - ihex->runs[at].address;
    int status = insert(ihex, at + 1, address, error);
    if (status != STATUS_OK)
        return status;
    struct ihex_run *run = &ihex->runs[at];
    status = append(&run[1], run->bytes + front, run->n - front, error);
    if (status == STATUS_OK)
        run->n = front;
    else
        erase(ihex, at + 1);
    return status;
}

int ihex_cut(struct ihex *ihex, uint32_t first, uint32_t n, struct error *error)
{
    uint64_t end = (uint64_t)first + n;
    size_t at = n == 0 ? ihex->n_runs : run_behind(ihex, first);
    while (at < ihex->n_runs && ihex->runs[at].address < end) {
        const struct ihex_run *run = &ihex->runs[at];
        int status = STATUS_OK;
        if (end_of(run) > end) {
            status = split(ihex, at, (uint32_t)end, error);
        } else if (run->address < first) {
            status = split(ihex, at, first, error);
            at++;
        } else {
            erase(ihex, at);
        }
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

/* ---- reading ---- */

static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* Where a reader stands. */
struct reader {
    struct ihex *ihex;
    struct error *error;
    unsigned line;
    uint32_t base; /* of data records */
    bool ended;
};

static int wrong(struct reader *reader, const char *what)
{
    return error_set(reader->error, STATUS_INVALID_ARGUMENT, "line %u: %s", reader->line, what);
}

/* Bytes of the line's record; their number, or a negative status. */
static int record_of(struct reader *reader, const char *line, size_t n, uint8_t record[RECORD_MAX])
{
    uint8_t sum = 0;
    if (line[0] != ':')
        return wrong(reader, "does not begin with a colon: not an Intel HEX file?");
    if (n < 11 || n % 2 != 1 || n / 2 > RECORD_MAX)
        return wrong(reader, "a record of a wrong length");
    for (size_t i = 0; i < n / 2; i++) {
        int high = digit(line[1 + 2 * i]), low = digit(line[2 + 2 * i]);
        if (high < 0 || low < 0)
            return wrong(reader, "a character that is no hexadecimal digit");
        record[i] = (uint8_t)(high << 4 | low);
        sum = (uint8_t)(sum + record[i]);
    }
    if (record[0] + 5u != n / 2)
        return wrong(reader, "the record's length is not what it states");
    return sum == 0 ? (int)(n / 2) : wrong(reader, "the checksum is wrong");
}

static int take_data(struct reader *reader, const uint8_t *record)
{
    uint32_t offset = (uint32_t)record[1] << 8 | record[2];
    struct error inner;
    error_clear(&inner);
    if (offset + record[0] > 0x10000)
        return wrong(reader, "the record runs over its 64 KiB");
    int status = ihex_add(reader->ihex, reader->base + offset, record + 4, record[0], &inner);
    return status == STATUS_OK
               ? status
               : error_set(reader->error, (enum status)status, "line %u: %s", reader->line, inner.message);
}

static int take_start(struct reader *reader, const uint8_t *record)
{
    struct ihex *ihex = reader->ihex;
    if (ihex->has_start)
        return wrong(reader, "a second start address");
    ihex->has_start = true;
    ihex->start_is_segment = record[3] == 3;
    ihex->start =
        (uint32_t)record[4] << 24 | (uint32_t)record[5] << 16 | (uint32_t)record[6] << 8 | record[7];
    return STATUS_OK;
}

static int take(struct reader *reader, const uint8_t *record)
{
    static const uint8_t lengths[] = {0, 0, 2, 4, 2, 4};
    uint8_t type = record[3];
    if (reader->ended)
        return wrong(reader, "a record behind the end record");
    if (type > 5)
        return wrong(reader, "a record of an unknown type");
    if (type != 0 && record[0] != lengths[type])
        return wrong(reader, "a record of its type has another length");
    switch (type) {
    case 0:
        return take_data(reader, record);
    case 1:
        reader->ended = true;
        return STATUS_OK;
    case 2:
    case 4:
        reader->base = ((uint32_t)record[4] << 8 | record[5]) << (type == 2 ? 4 : 16);
        return STATUS_OK;
    default:
        return take_start(reader, record);
    }
}

int ihex_parse(struct ihex *ihex, const char *text, size_t n, struct error *error)
{
    struct reader reader = {.ihex = ihex, .error = error};
    uint8_t record[RECORD_MAX];
    for (size_t at = 0; at < n;) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t length = end ? (size_t)(end - text) - at : n - at, next = at + length + 1;
        reader.line++;
        while (length > 0 && (text[at + length - 1] == '\r' || text[at + length - 1] == ' '))
            length--;
        int status = length > 0 ? record_of(&reader, text + at, length, record) : 0;
        if (status > 0)
            status = take(&reader, record);
        if (status < 0)
            return status;
        at = next;
    }
    return reader.ended ? STATUS_OK
                        : error_set(error, STATUS_INVALID_ARGUMENT,
                                    "there is no end record: the file is cut off, or no Intel HEX file");
}

/* ---- writing ---- */

static char *put_record(char *out, uint8_t type, uint32_t offset, const uint8_t *bytes, uint32_t n)
{
    static const char digits[] = "0123456789ABCDEF";
    uint8_t record[LINE_BYTES + 5] = {(uint8_t)n, (uint8_t)(offset >> 8), (uint8_t)offset, type};
    uint8_t sum = 0;
    if (n > 0)
        memcpy(record + 4, bytes, n);
    for (uint32_t i = 0; i < n + 4; i++)
        sum = (uint8_t)(sum + record[i]);
    record[n + 4] = (uint8_t)-sum;
    *out++ = ':';
    for (uint32_t i = 0; i < n + 5; i++) {
        *out++ = digits[record[i] >> 4];
        *out++ = digits[record[i] & 15];
    }
    *out++ = '\n';
    return out;
}

static char *put_run(char *out, const struct ihex_run *run, uint32_t *high)
{
    for (uint32_t at = 0; at < run->n;) {
        uint32_t address = run->address + at, n = LINE_BYTES - address % LINE_BYTES;
        n = n < run->n - at ? n : run->n - at;
        if (address >> 16 != *high) {
            *high = address >> 16;
            out = put_record(out, 4, 0, (const uint8_t[]){(uint8_t)(*high >> 8), (uint8_t)*high}, 2);
        }
        out = put_record(out, 0, address & 0xFFFF, run->bytes + at, n);
        at += n;
    }
    return out;
}

int ihex_format(const struct ihex *ihex, char **text, size_t *n, struct error *error)
{
    enum { LONGEST = 1 + 2 * (LINE_BYTES + 5) + 1 };
    size_t lines = 2;
    uint32_t high = 0;
    for (size_t i = 0; i < ihex->n_runs; i++)
        lines += 2 + ihex->runs[i].n / LINE_BYTES + 1 + ihex->runs[i].n / 65536 + 1;
    char *out = *text = malloc(lines * LONGEST + 1);
    if (!out)
        return no_memory(error);
    for (size_t i = 0; i < ihex->n_runs; i++)
        out = put_run(out, &ihex->runs[i], &high);
    if (ihex->has_start) {
        const uint8_t start[] = {(uint8_t)(ihex->start >> 24), (uint8_t)(ihex->start >> 16),
                                 (uint8_t)(ihex->start >> 8), (uint8_t)ihex->start};
        out = put_record(out, ihex->start_is_segment ? 3 : 5, 0, start, 4);
    }
    out = put_record(out, 1, 0, NULL, 0);
    *out = 0;
    *n = (size_t)(out - *text);
    return STATUS_OK;
}
