/*
 * The judge of schedules: replays one by the rules of partial execution from the graph and the operator table
 * alone, and works out each step's memory and MACs again. It shares no code with server/schedule.
 */
#ifndef SHOAL_TESTS_SUPPORT_JUDGE_H
#define SHOAL_TESTS_SUPPORT_JUDGE_H

#include "server/schedule/schedule.h"

#include <stddef.h>

/* True: legal, and every peak is what the rules give. Else `reason` says what is wrong, with the step. Peaks
 * may be above the judge's where the search counts with caution (rows that pass, an order's overwriting),
 * never below; *cautious is the number of such steps. */
bool judge_schedule(const struct graph *graph, const struct schedule_options *options,
                    const struct schedule *schedule, int32_t *cautious, char *reason, size_t size);

#endif
