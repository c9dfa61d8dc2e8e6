/*
 * Clocks and the one text form of a time. Calendar arithmetic is done here, on days since 1970-01-01, because
 * gmtime_r and timegm depend on the width of time_t and accept what is no date. Every value that
 * clock_rfc3339 writes is read back unchanged by clock_from_rfc3339.
 */
#include "server/base/clock.h"

#include <stdio.h>
#include <time.h>

static const int64_t DAY_MS = 86400000;
static const int64_t FIRST_MS = -62167219200000; /* 0000-01-01T00:00:00.000Z */
static const int64_t LAST_MS = 253402300799999;  /* 9999-12-31T23:59:59.999Z */

uint64_t clock_monotonic_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

int64_t clock_wall_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Days since 1970-01-01 of a date in the proleptic Gregorian calendar, years from 0 on. The year is taken to
 * begin in March, so that the leap day is its last. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t of_era = year - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static void date_of(int64_t days, int *year, int *month, int *day)
{
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    int64_t of_era = days - era * 146097;
    int64_t y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * y + y / 4 - y / 100);
    int64_t m = (5 * of_year + 2) / 153;
    *day = (int)(of_year - (153 * m + 2) / 5 + 1);
    *month = (int)(m < 10 ? m + 3 : m - 9);
    *year = (int)(y + era * 400 + (*month <= 2));
}

void clock_rfc3339(int64_t wall_ms, char out[CLOCK_TEXT_BYTES])
{
    wall_ms = wall_ms < FIRST_MS ? FIRST_MS : wall_ms > LAST_MS ? LAST_MS : wall_ms;
    int64_t days = wall_ms / DAY_MS - (wall_ms % DAY_MS < 0);
    int ms = (int)(wall_ms - days * DAY_MS);
    int year, month, day;
    date_of(days, &year, &month, &day);
    (void)snprintf(out, CLOCK_TEXT_BYTES, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", year % 10000, month % 100,
                   day % 100, ms / 3600000 % 100, ms / 60000 % 60, ms / 1000 % 60, ms % 1000);
}

/* Reads `digits` digits and the character after them. */
static bool take(const char **text, int digits, char after, int64_t max, int64_t *value)
{
    *value = 0;
    for (int i = 0; i < digits; i++, (*text)++) {
        if (**text < '0' || **text > '9')
            return false;
        *value = *value * 10 + (**text - '0');
    }
    return *value <= max && *(*text)++ == after;
}

bool clock_from_rfc3339(const char *text, int64_t *wall_ms)
{
    int64_t year, month, day, hour, minute, second, ms = 0;
    if (!take(&text, 4, '-', 9999, &year) || !take(&text, 2, '-', 12, &month) ||
        !take(&text, 2, 'T', 31, &day) || !take(&text, 2, ':', 23, &hour) ||
        !take(&text, 2, ':', 59, &minute))
        return false;
    const char *mark = text;
    if (!take(&text, 2, 'Z', 59, &second)) {
        text = mark;
        if (!take(&text, 2, '.', 59, &second) || !take(&text, 3, 'Z', 999, &ms))
            return false;
    }
    int y, m, d;
    int64_t days = days_of(year, month, day);
    date_of(days, &y, &m, &d);
    if (*text || y != year || m != month || d != day)
        return false;
    *wall_ms = days * DAY_MS + hour * 3600000 + minute * 60000 + second * 1000 + ms;
    return true;
}
