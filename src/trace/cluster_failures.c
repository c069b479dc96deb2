/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/cluster_failures.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/cluster_times.h"
#include "trace/columns.h"

enum cluster_failures_field { NODE, FROM, TO };

static const struct lull_column known[] = {
    {"node", NODE, 0}, {"from_s", FROM, 0}, {"to_s", TO, 0}, {NULL, 0, 0}};

struct table {
    struct lull_cluster_failure *rows;
    size_t count, room;
};

static int read_ns(const struct lull_columns *columns, uint32_t field, int64_t *ns_out,
                   struct lull_error *err)
{
    const char *cell = columns->cells[field];
    const char *wrong = lull_cluster_time_parse(cell, strlen(cell), 1, ns_out);

    return wrong == NULL ? 0 : lull_columns_refuse(columns, field, wrong, err);
}

static int make_room(struct table *table, struct lull_error *err)
{
    const size_t room = table->room > 0 ? 2 * table->room : 64;
    struct lull_cluster_failure *rows;

    if (table->count < table->room)
        return 0;
    rows = realloc(table->rows, room * sizeof(*rows));
    if (rows == NULL)
        return lull_error_set(err, -ENOMEM, "out of memory");
    table->rows = rows;
    table->room = room;
    return 0;
}

static int read_row(const struct lull_columns *columns, uint32_t node_count, struct table *table,
                    struct lull_error *err)
{
    struct lull_cluster_failure row = {0};
    int64_t node = 0;
    int rc = lull_columns_integer(columns, NODE, 0, (int64_t)node_count - 1,
                                  "the cluster has no such node", &node, err);

    if (rc == 0)
        rc = read_ns(columns, FROM, &row.from_ns, err);
    if (rc == 0)
        rc = read_ns(columns, TO, &row.to_ns, err);
    if (rc == 0 && row.to_ns <= row.from_ns)
        rc = lull_columns_refuse(columns, TO, "the end is not after the beginning", err);
    if (rc == 0 && table->count == LULL_CLUSTER_MOST_FAILURES)
        rc = lull_columns_refuse(columns, NODE, "more than 16777216 failures", err);
    if (rc == 0)
        rc = make_room(table, err);
    if (rc < 0)
        return rc;
    row.node = (uint32_t)node;
    table->rows[table->count++] = row;
    return 0;
}

static int read_all(struct lull_lines *lines, uint32_t node_count, struct table *table,
                    struct lull_error *err)
{
    struct lull_columns columns;
    struct lull_error why = {0};
    int rc = lull_columns_open(&columns, known, lines, err);

    for (uint32_t field = NODE; field <= TO && rc == 0; field++)
        rc = lull_columns_need(&columns, field, err);
    while (rc >= 0 && (rc = lull_columns_next(&columns, err)) > 0)
        rc = read_row(&columns, node_count, table, err);
    if (rc < 0)
        return rc;
    rc = lull_cluster_failures_order(table->rows, table->count, node_count, &why);
    if (rc < 0)
        return lull_error_set(err, rc == -EINVAL ? LULL_E_FORMAT : rc, "%s: %s",
                              lull_lines_name(lines), why.text);
    return 0;
}

int lull_cluster_failures_read_lines(struct lull_lines *lines, uint32_t node_count,
                                     struct lull_cluster_failure **failures_out, size_t *count_out,
                                     struct lull_error *err)
{
    struct table table = {0};
    const int rc = read_all(lines, node_count, &table, err);

    if (rc < 0) {
        free(table.rows);
        return rc;
    }
    *failures_out = table.rows;
    *count_out = table.count;
    return 0;
}

int lull_cluster_failures_read(const char *path, uint32_t node_count,
                               struct lull_cluster_failure **failures_out, size_t *count_out,
                               struct lull_error *err)
{
    struct lull_lines *lines = NULL;
    int rc = lull_lines_open(path, &lines, err);

    if (rc < 0)
        return rc;
    rc = lull_cluster_failures_read_lines(lines, node_count, failures_out, count_out, err);
    lull_lines_close(lines);
    return rc;
}
