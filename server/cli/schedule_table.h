/* A schedule as a table on standard output, for `shoal schedule`. */
#ifndef SHOAL_SERVER_CLI_SCHEDULE_TABLE_H
#define SHOAL_SERVER_CLI_SCHEDULE_TABLE_H

#include <jansson.h>

/* `schedule` is schedule_describe's. Columns line up whatever the numbers; names stand last, long ones
 * shortened to what tells most; the steps within a patch stand below its step. */
void schedule_table_print(json_t *schedule);

/* The steps alone: of a schedule, or of a plan's party, where no times are told. `macs` are the network's. */
void schedule_table_steps(json_t *steps, long long macs);

#endif
