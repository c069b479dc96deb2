/*
 * What a kilowatt-hour costs or emits over time: a comma-separated table, plain or gzip, with the
 * columns time_s and price_per_kwh (in any currency) or g_per_kwh (of CO2). Each row holds until
 * the next one; other columns are passed over. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_TARIFF_H
#define LULL_TRACE_TARIFF_H

#include "core/cluster/power/power_meter.h"
#include "trace/lines.h"

enum lull_tariff_kind { LULL_TARIFF_PRICE, LULL_TARIFF_CARBON };

struct lull_tariff_table {
    struct lull_tariff tariff; /* checked; refers to the arrays below */
    int64_t *time_ns;
    double *value;
};

/*
 * Reads a file ("-": standard input). Errors, with file, line and column: LULL_E_FORMAT no such
 * number, a time below 0 or not after the row above, no rows; -ENOMEM; those of lull_lines_open.
 * The table is left empty then.
 */
int lull_tariff_read(const char *path, enum lull_tariff_kind kind,
                     struct lull_tariff_table *table_out, struct lull_error *err);

/* The same from open lines, which stay the caller's. */
int lull_tariff_read_lines(struct lull_lines *lines, enum lull_tariff_kind kind,
                           struct lull_tariff_table *table_out, struct lull_error *err);
void lull_tariff_fini(struct lull_tariff_table *table);

#endif
