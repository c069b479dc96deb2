/*
 * Decimal numbers as exact integers: microseconds since 1970 with three decimals have more digits
 * than a double. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_DECIMAL_H
#define LULL_TRACE_DECIMAL_H

#include <stddef.h>
#include <stdint.h>

#define LULL_DECIMAL_MAX (INT64_MAX / 2)

/*
 * The number times 10^shift, rounded to the nearest integer (halves away from zero), from text like
 * -12, 3.25 or 1.5e+3. -EINVAL: no such number; -ERANGE: beyond +-LULL_DECIMAL_MAX. The output is
 * written on success only.
 */
int lull_decimal_parse(const char *bytes, size_t length, int shift, int64_t *value_out);

#endif
