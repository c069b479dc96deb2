/*
 * Dates, times of day and lengths of time as logs and accounting tables print them.
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_TIMESTAMP_H
#define LULL_TRACE_TIMESTAMP_H

#include <stdint.h>

/*
 * Parses YYYY-MM-DD, YYYY/MM/DD or YYYYMMDD, then optionally a blank or T and HH:MM, HH:MM:SS or
 * HH:MM:SS.fraction (with a point or a comma), then optionally a zone: Z, UTC, GMT, +HH, +HHMM or
 * +HH:MM. A time without a zone is taken as UTC. Years are 1970 to 2115. Returns ns since
 * 1970-01-01 UTC through time_ns_out; -EINVAL for anything else, and time_ns_out is unchanged.
 */
int lull_timestamp_parse(const char *text, int64_t *time_ns_out);

/*
 * Parses MM:SS, HH:MM:SS, D-HH:MM or D-HH:MM:SS, as Slurm prints them, or "N days, HH:MM:SS", as
 * Python does, each with an optional fraction of seconds. Returns ns through time_ns_out; -EINVAL
 * for anything else or more than 30 years, and time_ns_out is unchanged.
 */
int lull_timestamp_elapsed(const char *text, int64_t *time_ns_out);

#endif
