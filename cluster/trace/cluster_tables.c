/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/trace/cluster_tables.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "trace/array.h"
#include "trace/columns.h"

/* ---- virtual clusters --------------------------------------------------------------------- */

enum { MAX_NODES = 1 << 20 };

enum pool_field { VC, NODES };

uint32_t lull_cluster_pools_find(const struct lull_cluster_pools_table *table, const char *name)
{
    for (uint32_t i = 0; i < table->count; i++)
        if (strcmp(table->rows[i].name, name) == 0)
            return i;
    return table->count;
}

/* Names are compared one by one: there are some dozens of virtual clusters. */
static int read_pool(const struct lull_columns *columns, void *context, struct lull_error *err)
{
    struct lull_cluster_pools_table *const table = context;
    struct lull_cluster_pools_row row;
    int64_t nodes = 0;
    int rc =
        lull_columns_integer(columns, NODES, 1, MAX_NODES, "not a number of nodes", &nodes, err);

    if (rc < 0)
        return rc;
    rc = lull_columns_name(columns, VC, row.name, sizeof(row.name), err);
    if (rc < 0)
        return rc;
    if (lull_cluster_pools_find(table, row.name) < table->count)
        return lull_columns_refuse(columns, VC, "this name stands above already", err);
    if (table->count == LULL_CLUSTER_POOLS_MAX || nodes > MAX_NODES - (int64_t)table->nodes)
        return lull_columns_refuse(columns, VC, "there are more than 4096 clusters or 2^20 nodes",
                                   err);
    rc = lull_trace_grow(&table->rows, table->count, sizeof(*table->rows), columns->name, err);
    if (rc < 0)
        return rc;
    row.nodes = (uint32_t)nodes;
    table->nodes += row.nodes;
    table->rows[table->count++] = row;
    return 0;
}

int lull_cluster_pools_read(const char *path, struct lull_cluster_pools_table *table_out,
                            struct lull_error *err)
{
    static const struct lull_column known[] = {{"vc", VC}, {"nodes", NODES}, {NULL}};
    static const struct lull_table pools = {known, 1u << VC | 1u << NODES, "lull-simulate(1)", NULL,
                                            read_pool};
    int rc;

    *table_out = (struct lull_cluster_pools_table){0};
    rc = lull_columns_read(path, &pools, table_out, err);
    if (rc == 0 && table_out->count == 0)
        rc = lull_error_set(err, LULL_E_FORMAT, "%s: there is no cluster after the header", path);
    if (rc < 0)
        lull_cluster_pools_fini(table_out);
    return rc;
}

void lull_cluster_pools_fini(struct lull_cluster_pools_table *table)
{
    free(table->rows);
    *table = (struct lull_cluster_pools_table){0};
}

/* ---- failures ----------------------------------------------------------------------------- */

enum failure_field { NODE, FROM, TO };

struct failures {
    struct lull_cluster_failure *rows;
    size_t count;
    uint32_t node_count;
};

static int read_failure(const struct lull_columns *columns, void *context, struct lull_error *err)
{
    struct failures *const failures = context;
    struct lull_cluster_failure row = {0};
    int64_t node = 0;
    int rc = lull_columns_integer(columns, NODE, 0, (int64_t)failures->node_count - 1,
                                  "the cluster has no such node", &node, err);

    if (rc < 0)
        return rc;
    rc = lull_columns_instant(columns, FROM, &row.from_ns, err);
    if (rc < 0)
        return rc;
    rc = lull_columns_instant(columns, TO, &row.to_ns, err);
    if (rc < 0)
        return rc;
    if (row.to_ns <= row.from_ns)
        return lull_columns_refuse(columns, TO, "the end is not after the beginning", err);
    if (failures->count == LULL_CLUSTER_MAX_FAILURES)
        return lull_columns_refuse(columns, NODE, "there are more than 16777216 failures", err);
    row.node = (uint32_t)node;
    return lull_trace_append(&failures->rows, &failures->count, &row, sizeof(row), columns->name,
                             err);
}

int lull_cluster_failures_read(const char *path, uint32_t node_count,
                               struct lull_cluster_failure **failures_out, size_t *count_out,
                               struct lull_error *err)
{
    static const struct lull_column known[] = {
        {"node", NODE}, {"from_s", FROM, 1}, {"to_s", TO, 1}, {NULL}};
    static const struct lull_table table = {known, 1u << NODE | 1u << FROM | 1u << TO,
                                            "lull-simulate(1)", NULL, read_failure};
    struct failures failures = {.node_count = node_count};
    struct lull_error why = {0};
    int rc = lull_columns_read(path, &table, &failures, err);

    if (rc < 0)
        goto fail;
    rc = lull_cluster_failures_order(failures.rows, failures.count, node_count, &why);
    if (rc < 0) {
        rc = lull_error_set(err, rc == -EINVAL ? LULL_E_FORMAT : rc, "%s: %s", path, why.text);
        goto fail;
    }
    *failures_out = failures.rows;
    *count_out = failures.count;
    return 0;

fail:
    free(failures.rows);
    return rc;
}

/* ---- tariffs ------------------------------------------------------------------------------ */

/* More than any currency or fuel requests a kilowatt-hour. */
#define MAX_PER_KWH 1e9

/* Times may be seconds since 1970: as many as 64 bits hold in ns. */
#define MAX_TARIFF_S 9e9

enum tariff_field { TIME, VALUE };

/* Times must rise, because a row holds until the next one. */
static int read_rate(const struct lull_columns *columns, void *context, struct lull_error *err)
{
    struct lull_tariff_table *const table = context;
    const size_t count = table->tariff.count;
    int64_t time_ns;
    double time_s = 0.0;
    double value = 0.0;
    int rc = lull_columns_real(columns, TIME, 0.0, MAX_TARIFF_S, "not a time of 0 to 9e9 s",
                               &time_s, err);

    if (rc < 0)
        return rc;
    /* In two parts, so that whole seconds stay whole ones. */
    time_ns = (int64_t)time_s * LULL_NS_PER_S + llround((time_s - floor(time_s)) * 1e9);
    if (count > 0 && time_ns <= table->time_ns[count - 1])
        return lull_columns_refuse(columns, TIME, "this time is not after the one above", err);
    rc = lull_columns_real(columns, VALUE, -MAX_PER_KWH, MAX_PER_KWH, "beyond a billion per kWh",
                           &value, err);
    if (rc < 0)
        return rc;
    rc = lull_trace_grow(&table->time_ns, count, sizeof(*table->time_ns), columns->name, err);
    if (rc < 0)
        return rc;
    rc = lull_trace_grow(&table->value, count, sizeof(*table->value), columns->name, err);
    if (rc < 0)
        return rc;
    table->time_ns[count] = time_ns;
    table->value[count] = value;
    table->tariff.count++;
    return 0;
}

int lull_tariff_read(const char *path, enum lull_tariff_kind kind,
                     struct lull_tariff_table *table_out, struct lull_error *err)
{
    static const struct lull_column known[][3] = {
        [LULL_TARIFF_PRICE] = {{"time_s", TIME, 1}, {"price_per_kwh", VALUE}, {NULL}},
        [LULL_TARIFF_CARBON] = {{"time_s", TIME, 1}, {"g_per_kwh", VALUE}, {NULL}},
    };
    const struct lull_table table = {known[kind], 1u << TIME | 1u << VALUE, "lull-simulate(1)",
                                     NULL, read_rate};
    int rc;

    *table_out = (struct lull_tariff_table){0};
    rc = lull_columns_read(path, &table, table_out, err);
    if (rc == 0 && table_out->tariff.count == 0)
        rc = lull_error_set(err, LULL_E_FORMAT, "%s: there are no rows after the header", path);
    if (rc < 0) {
        lull_tariff_fini(table_out);
        return rc;
    }
    table_out->tariff.time_ns = table_out->time_ns;
    table_out->tariff.value = table_out->value;
    return 0;
}

void lull_tariff_fini(struct lull_tariff_table *table)
{
    free(table->time_ns);
    free(table->value);
    *table = (struct lull_tariff_table){0};
}
