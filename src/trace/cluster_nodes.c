/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/cluster_nodes.h"

#include <errno.h>
#include <stdlib.h>

#include "trace/columns.h"
#include "trace/string_set.h"

enum field { ID, GPUS, MODEL, VC };

static const struct lull_column known[] = {
    {"node", ID, 0}, {"gpus", GPUS, 0}, {"model", MODEL, 0}, {"vc", VC, 0}, {NULL, 0, 0},
};

struct reading {
    struct lull_columns columns;
    struct lull_cluster_nodes_table *table;
    size_t room;
};

static int out_of_memory(const struct reading *reading, struct lull_error *err)
{
    return lull_error_set(err, -ENOMEM, "%s: no memory for its nodes", reading->columns.name);
}

static int read_name(const struct reading *reading, enum field field, uint32_t *name_out,
                     struct lull_error *err)
{
    int64_t name;

    *name_out = UINT32_MAX;
    if (!lull_columns_has(&reading->columns, field) ||
        (field == MODEL && !lull_columns_is_filled(&reading->columns, field)))
        return 0;
    name = lull_string_set_add(reading->table->names, reading->columns.cells[field]);
    if (name < 0)
        return out_of_memory(reading, err);
    *name_out = (uint32_t)name;
    return 0;
}

static int append(struct reading *reading, const struct lull_cluster_nodes_row *row,
                  struct lull_error *err)
{
    struct lull_cluster_nodes_table *const table = reading->table;

    if (table->count == LULL_CLUSTER_NODES_MAX)
        return lull_columns_refuse(&reading->columns, GPUS, "more than a million nodes", err);
    if (table->count == reading->room) {
        const size_t room = reading->room > 0 ? 2 * reading->room : 256;
        struct lull_cluster_nodes_row *const rows = realloc(table->rows, room * sizeof(*rows));

        if (rows == NULL)
            return out_of_memory(reading, err);
        table->rows = rows;
        reading->room = room;
    }
    table->rows[table->count++] = *row;
    return 0;
}

static int read_row(struct reading *reading, struct lull_error *err)
{
    struct lull_cluster_nodes_row row;
    int64_t gpus = 0;
    int rc = lull_columns_integer(&reading->columns, GPUS, 0, LULL_CLUSTER_NODES_MOST_GPUS,
                                  "not a number of GPUs up to 64", &gpus, err);

    if (rc == 0 && gpus == 0)
        reading->table->without_gpus++;
    if (rc < 0 || gpus == 0)
        return rc;
    row.gpus = (uint32_t)gpus;
    rc = read_name(reading, ID, &row.id, err);
    if (rc == 0)
        rc = read_name(reading, MODEL, &row.model, err);
    if (rc == 0)
        rc = read_name(reading, VC, &row.vc, err);
    return rc == 0 ? append(reading, &row, err) : rc;
}

static int read_all(struct reading *reading, struct lull_lines *lines, struct lull_error *err)
{
    int rc = lull_columns_open(&reading->columns, known, lines, err);

    if (rc == 0)
        rc = lull_columns_need(&reading->columns, ID, err);
    if (rc == 0)
        rc = lull_columns_need(&reading->columns, GPUS, err);
    while (rc >= 0 && (rc = lull_columns_next(&reading->columns, err)) > 0)
        rc = read_row(reading, err);
    if (rc == 0 && reading->table->count == 0)
        return lull_error_set(err, LULL_E_FORMAT, "%s: names no node with a GPU",
                              reading->columns.name);
    return rc;
}

int lull_cluster_nodes_read_lines(struct lull_lines *lines,
                                  struct lull_cluster_nodes_table *table_out,
                                  struct lull_error *err)
{
    struct reading reading = {.table = table_out};
    int rc;

    *table_out = (struct lull_cluster_nodes_table){.names = lull_string_set_create()};
    if (table_out->names == NULL)
        return lull_error_set(err, -ENOMEM, "%s: no memory for its nodes", lull_lines_name(lines));
    rc = read_all(&reading, lines, err);
    if (rc < 0)
        lull_cluster_nodes_fini(table_out);
    return rc;
}

int lull_cluster_nodes_read(const char *path, struct lull_cluster_nodes_table *table_out,
                            struct lull_error *err)
{
    struct lull_lines *lines = NULL;
    int rc;

    *table_out = (struct lull_cluster_nodes_table){0};
    rc = lull_lines_open(path, &lines, err);
    if (rc < 0)
        return rc;
    rc = lull_cluster_nodes_read_lines(lines, table_out, err);
    lull_lines_close(lines);
    return rc;
}

void lull_cluster_nodes_fini(struct lull_cluster_nodes_table *table)
{
    free(table->rows);
    lull_string_set_destroy(table->names);
    *table = (struct lull_cluster_nodes_table){0};
}

const char *lull_cluster_nodes_name(const struct lull_cluster_nodes_table *table, uint32_t name)
{
    return name == UINT32_MAX ? "" : lull_string_set_get(table->names, name);
}
