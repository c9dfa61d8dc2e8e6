/* The two clocks. Monotonic time for everything that is measured or waited for; wall time only to tell people
 * and to date what is stored. Safe on any thread. */
#ifndef SHOAL_SERVER_BASE_CLOCK_H
#define SHOAL_SERVER_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

enum { CLOCK_TEXT_BYTES = 32 };

/* Microseconds since an arbitrary start; never goes back. */
uint64_t clock_monotonic_us(void);
/* Milliseconds since 1970-01-01 UTC; may jump. */
int64_t clock_wall_ms(void);
/* "2026-01-31T08:15:00.123Z". Years 0000 to 9999; what lies outside is clamped to the nearest of these. */
void clock_rfc3339(int64_t wall_ms, char out[CLOCK_TEXT_BYTES]);
/* The reverse, for exactly that form (the milliseconds may be missing). False: not such a time. */
bool clock_from_rfc3339(const char *text, int64_t *wall_ms);

#endif
