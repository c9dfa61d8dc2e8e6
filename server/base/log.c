/*
 * Formatting a log line into one buffer on the stack and writing it at once. Nothing here allocates or locks,
 * so a line can be logged when memory is gone. The text is escaped after formatting: no argument can forge a
 * line.
 */
#include "server/base/log.h"

#include "server/base/clock.h"
#include "server/base/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = {"debug", "info", "warn", "error", "none"};
static atomic_int lowest = LOG_LEVEL_INFO;

void log_set_level(enum log_level level)
{
    atomic_store(&lowest, (int)level);
}

int log_level_from_name(const char *name)
{
    for (int i = LOG_LEVEL_DEBUG; i <= LOG_LEVEL_NONE; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

/* Appends `text` to line[at..room), escaped; returns the new end. Stops where no whole character fits. */
static size_t append_escaped(char *line, size_t at, size_t room, const char *text)
{
    static const char hex[] = "0123456789abcdef";
    while (*text) {
        size_t n = utf8_length(text);
        unsigned char c = (unsigned char)*text;
        if (n == 0 || c < 0x20 || c == 0x7f) {
            if (room - at < 4)
                break;
            char escape[4] = {'\\', 'x', hex[c >> 4], hex[c & 15]};
            memcpy(line + at, escape, 4);
            at += 4;
            text++;
        } else {
            if (room - at < n)
                break;
            memcpy(line + at, text, n);
            at += n;
            text += n;
        }
    }
    return at;
}

static void write_all(const char *line, size_t n)
{
    while (n) {
        ssize_t done = write(STDERR_FILENO, line, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return;
        line += done;
        n -= (size_t)done;
    }
}

void log_line(enum log_level level, const char *area, const char *format, ...)
{
    if ((int)level < atomic_load(&lowest) || level >= LOG_LEVEL_NONE)
        return;
    int saved = errno;
    char text[LOG_LINE_BYTES], line[LOG_LINE_BYTES + 8], now[CLOCK_TEXT_BYTES];
    va_list list;
    va_start(list, format);
    int wanted = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    clock_rfc3339(clock_wall_ms(), now);
    int head = snprintf(line, sizeof line, "%s %-5s %.24s: ", now, names[level], area);
    size_t end = append_escaped(line, (size_t)head, LOG_LINE_BYTES - 4, wanted < 0 ? format : text);
    if (wanted >= (int)sizeof text || end >= LOG_LINE_BYTES - 8) {
        memcpy(line + end, "...", 3);
        end += 3;
    }
    line[end++] = '\n';
    write_all(line, end);
    errno = saved;
}
