/*
 * Decimal numbers as exact integers: microseconds since 1970 with three decimals have more digits
 * than a double. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_DECIMAL_H
#define LULL_TRACE_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LULL_DECIMAL_MAX (INT64_MAX / 2)

/*
 * Parses text like -12, 3.25 or 1.5e+3 and returns the number times 10^shift, rounded to the
 * nearest integer (halves away from zero). -EINVAL: it is not a number; -ERANGE: the result is
 * beyond
 * +-LULL_DECIMAL_MAX. The output is written on success only.
 */
int lull_decimal_parse(const char *bytes, size_t length, int shift, int64_t *value_out);

/* Returns whether a text that lull_decimal_parse takes is a whole number: 8, 8.0 and 8e0, not 8.5.
 */
bool lull_decimal_is_whole(const char *text);

/*
 * A time in units of unit_s seconds, from 0 to about 30 years, rounded to nanoseconds. Returns
 * null, or in the user's words what is wrong; the output is written on success only.
 */
const char *lull_decimal_parse_time(const char *bytes, size_t length, int64_t unit_s,
                                    int64_t *time_ns_out);

#endif
