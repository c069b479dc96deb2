/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/cluster_pools.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/columns.h"

enum { MOST_NODES = 1 << 20 };

enum cluster_pools_field { VC, NODES };

static const struct lull_column known[] = {{"vc", VC, 0}, {"nodes", NODES, 0}, {NULL, 0, 0}};

uint32_t lull_cluster_pools_find(const struct lull_cluster_pools_table *table, const char *name)
{
    for (uint32_t i = 0; i < table->count; i++)
        if (strcmp(table->rows[i].name, name) == 0)
            return i;
    return table->count;
}

static int read_row(const struct lull_columns *columns, struct lull_cluster_pools_table *table,
                    struct lull_error *err)
{
    struct lull_cluster_pools_row *const row = &table->rows[table->count];
    const char *const name = columns->cells[VC];
    int64_t nodes = 0;
    const int rc =
        lull_columns_integer(columns, NODES, 1, MOST_NODES, "not a number of nodes", &nodes, err);

    if (rc < 0)
        return rc;
    if (name[0] == '\0' || strlen(name) >= sizeof(row->name))
        return lull_columns_refuse(columns, VC, "a name has 1 to 63 bytes", err);
    if (lull_cluster_pools_find(table, name) < table->count)
        return lull_columns_refuse(columns, VC, "this name stands above already", err);
    if (table->count == LULL_CLUSTER_POOLS_MAX || nodes > MOST_NODES - (int64_t)table->nodes)
        return lull_columns_refuse(columns, VC, "more than 4096 clusters or a million nodes", err);
    snprintf(row->name, sizeof(row->name), "%s", name);
    row->nodes = (uint32_t)nodes;
    table->nodes += row->nodes;
    table->count++;
    return 0;
}

static int read_all(struct lull_lines *lines, struct lull_cluster_pools_table *table,
                    struct lull_error *err)
{
    struct lull_columns columns;
    int rc = lull_columns_open(&columns, known, lines, err);

    if (rc == 0)
        rc = lull_columns_need(&columns, VC, err);
    if (rc == 0)
        rc = lull_columns_need(&columns, NODES, err);
    while (rc >= 0 && (rc = lull_columns_next(&columns, err)) > 0)
        rc = read_row(&columns, table, err);
    if (rc == 0 && table->count == 0)
        return lull_error_set(err, LULL_E_FORMAT, "%s: names no cluster", lull_lines_name(lines));
    return rc;
}

int lull_cluster_pools_read_lines(struct lull_lines *lines,
                                  struct lull_cluster_pools_table *table_out,
                                  struct lull_error *err)
{
    int rc;

    *table_out = (struct lull_cluster_pools_table){
        .rows = calloc(LULL_CLUSTER_POOLS_MAX, sizeof(*table_out->rows))};
    if (table_out->rows == NULL)
        return lull_error_set(err, -ENOMEM, "out of memory");
    rc = read_all(lines, table_out, err);
    if (rc < 0)
        lull_cluster_pools_fini(table_out);
    return rc;
}

int lull_cluster_pools_read(const char *path, struct lull_cluster_pools_table *table_out,
                            struct lull_error *err)
{
    struct lull_lines *lines = NULL;
    int rc;

    *table_out = (struct lull_cluster_pools_table){0};
    rc = lull_lines_open(path, &lines, err);
    if (rc < 0)
        return rc;
    rc = lull_cluster_pools_read_lines(lines, table_out, err);
    lull_lines_close(lines);
    return rc;
}

void lull_cluster_pools_fini(struct lull_cluster_pools_table *table)
{
    free(table->rows);
    *table = (struct lull_cluster_pools_table){0};
}
