/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/tariff.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/cluster_times.h"
#include "trace/columns.h"

/* Beyond what any currency or fuel asks for a kilowatt-hour. */
#define MOST_PER_KWH 1e9

enum tariff_field { TIME, VALUE };

static const struct lull_column known[][3] = {
    [LULL_TARIFF_PRICE] = {{"time_s", TIME, 0}, {"price_per_kwh", VALUE, 0}, {NULL, 0, 0}},
    [LULL_TARIFF_CARBON] = {{"time_s", TIME, 0}, {"g_per_kwh", VALUE, 0}, {NULL, 0, 0}},
};

static int make_room(struct lull_tariff_table *table, size_t *room, struct lull_error *err)
{
    const size_t wanted = *room > 0 ? 2 * *room : 64;
    int64_t *times;
    double *values;

    if (table->tariff.count < *room)
        return 0;
    times = realloc(table->time_ns, wanted * sizeof(*times));
    if (times != NULL)
        table->time_ns = times;
    values = realloc(table->value, wanted * sizeof(*values));
    if (values != NULL)
        table->value = values;
    if (times == NULL || values == NULL)
        return lull_error_set(err, -ENOMEM, "out of memory");
    *room = wanted;
    return 0;
}

static int read_row(const struct lull_columns *columns, struct lull_tariff_table *table,
                    size_t *room, struct lull_error *err)
{
    const char *cell = columns->cells[TIME];
    const size_t count = table->tariff.count;
    int64_t time_ns = 0;
    const char *wrong = lull_cluster_time_parse(cell, strlen(cell), 1, &time_ns);
    double value = 0.0;
    int rc;

    if (wrong != NULL)
        return lull_columns_refuse(columns, TIME, wrong, err);
    if (count > 0 && time_ns <= table->time_ns[count - 1])
        return lull_columns_refuse(columns, TIME, "this time is not after the one above", err);
    rc = lull_columns_real(columns, VALUE, -MOST_PER_KWH, MOST_PER_KWH, "beyond a billion per kWh",
                           &value, err);
    if (rc == 0)
        rc = make_room(table, room, err);
    if (rc < 0)
        return rc;
    table->time_ns[count] = time_ns;
    table->value[count] = value;
    table->tariff.count++;
    return 0;
}

static int read_all(struct lull_lines *lines, enum lull_tariff_kind kind,
                    struct lull_tariff_table *table, struct lull_error *err)
{
    struct lull_columns columns;
    size_t room = 0;
    int rc = lull_columns_open(&columns, known[kind], lines, err);

    if (rc == 0)
        rc = lull_columns_need(&columns, TIME, err);
    if (rc == 0)
        rc = lull_columns_need(&columns, VALUE, err);
    while (rc >= 0 && (rc = lull_columns_next(&columns, err)) > 0)
        rc = read_row(&columns, table, &room, err);
    if (rc == 0 && table->tariff.count == 0)
        return lull_error_set(err, LULL_E_FORMAT, "%s: has no rows", lull_lines_name(lines));
    return rc;
}

int lull_tariff_read_lines(struct lull_lines *lines, enum lull_tariff_kind kind,
                           struct lull_tariff_table *table_out, struct lull_error *err)
{
    int rc;

    *table_out = (struct lull_tariff_table){0};
    rc = read_all(lines, kind, table_out, err);
    if (rc < 0) {
        lull_tariff_fini(table_out);
        return rc;
    }
    table_out->tariff.time_ns = table_out->time_ns;
    table_out->tariff.value = table_out->value;
    return 0;
}

int lull_tariff_read(const char *path, enum lull_tariff_kind kind,
                     struct lull_tariff_table *table_out, struct lull_error *err)
{
    struct lull_lines *lines = NULL;
    int rc;

    *table_out = (struct lull_tariff_table){0};
    rc = lull_lines_open(path, &lines, err);
    if (rc < 0)
        return rc;
    rc = lull_tariff_read_lines(lines, kind, table_out, err);
    lull_lines_close(lines);
    return rc;
}

void lull_tariff_fini(struct lull_tariff_table *table)
{
    free(table->time_ns);
    free(table->value);
    *table = (struct lull_tariff_table){0};
}
