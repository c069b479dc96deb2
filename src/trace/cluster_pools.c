/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/cluster_pools.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { MOST_NODES = 1 << 20 };

static int refuse(const struct lull_lines *lines, const char *what, struct lull_error *err)
{
    return lull_error_set(err, LULL_E_FORMAT, "%s: line %zu: %s", lull_lines_name(lines),
                          lull_lines_number(lines), what);
}

uint32_t lull_cluster_pools_find(const struct lull_cluster_pools_table *table, const char *name)
{
    for (uint32_t i = 0; i < table->count; i++)
        if (strcmp(table->rows[i].name, name) == 0)
            return i;
    return table->count;
}

static int read_header(struct lull_lines *lines, struct lull_error *err)
{
    char *line = NULL;
    const int rc = lull_lines_next(lines, &line, err);

    if (rc < 0)
        return rc;
    if (rc == 0 || strcmp(line, "vc,nodes") != 0)
        return lull_error_set(err, LULL_E_FORMAT, "%s: line 1 is not the header vc,nodes",
                              lull_lines_name(lines));
    return 0;
}

static int read_row(const struct lull_lines *lines, char *line,
                    struct lull_cluster_pools_table *table, struct lull_error *err)
{
    char *rest = line;
    const char *name = lull_lines_cell(&rest);
    const char *nodes_text = rest == NULL ? "" : lull_lines_cell(&rest);
    struct lull_cluster_pools_row *const row = &table->rows[table->count];
    int64_t nodes = 0;

    if (rest != NULL || lull_text_parse_int(nodes_text, 1, MOST_NODES, &nodes) < 0)
        return refuse(lines, "not a name and a number of nodes", err);
    if (name[0] == '\0' || strlen(name) >= sizeof(row->name))
        return refuse(lines, "a name has 1 to 63 bytes", err);
    if (lull_cluster_pools_find(table, name) < table->count)
        return refuse(lines, "this name stands above already", err);
    if (table->count == LULL_CLUSTER_POOLS_MAX || nodes > MOST_NODES - (int64_t)table->nodes)
        return refuse(lines, "more than 4096 clusters or a million nodes", err);
    snprintf(row->name, sizeof(row->name), "%s", name);
    row->nodes = (uint32_t)nodes;
    table->nodes += row->nodes;
    table->count++;
    return 0;
}

static int read_all(struct lull_lines *lines, struct lull_cluster_pools_table *table,
                    struct lull_error *err)
{
    int rc = read_header(lines, err);

    while (rc >= 0) {
        char *line = NULL;

        rc = lull_lines_next(lines, &line, err);
        if (rc <= 0)
            break;
        rc = read_row(lines, line, table, err);
    }
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
