/*
 * The log: one line an event on standard error, "TIME level area: text". Control bytes and bytes that are no
 * UTF-8 come out as \xNN, so that names from strangers can stand in it. A line is one write(2): lines of
 * several threads and processes do not mix. Longer than LOG_LINE_BYTES is cut and ends in "...". Safe on any
 * thread; keeps errno.
 */
#ifndef SHOAL_SERVER_BASE_LOG_H
#define SHOAL_SERVER_BASE_LOG_H

enum { LOG_LINE_BYTES = 1024 };

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR, LOG_LEVEL_NONE };

/* Lines below `level` are dropped; LOG_LEVEL_INFO at the start. Call it before there are threads. */
void log_set_level(enum log_level level);
/* "debug", "info", "warn", "error", "none"; -1 for any other text. */
int log_level_from_name(const char *name);

/* `area` is the folder's name ("link"), the rest is as printf's. */
void log_line(enum log_level level, const char *area, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define LOG_DEBUG(area, ...) log_line(LOG_LEVEL_DEBUG, (area), __VA_ARGS__)
#define LOG_INFO(area, ...) log_line(LOG_LEVEL_INFO, (area), __VA_ARGS__)
#define LOG_WARN(area, ...) log_line(LOG_LEVEL_WARN, (area), __VA_ARGS__)
#define LOG_ERROR(area, ...) log_line(LOG_LEVEL_ERROR, (area), __VA_ARGS__)

#endif
