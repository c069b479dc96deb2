/*
 * The conditions that the jobs of a cluster run under, each from a comma-separated table, plain or
 * gzip (columns.h); columns that are not named here are ignored:
 *
 *   virtual clusters   vc, nodes
 *                      each name occurs once
 *   failures           node, from_s, to_s
 *                      in any order; nodes count from 0, and a node works again at to_s
 *   a tariff           time_s, price_per_kwh or g_per_kwh
 *                      what a kWh costs (in any currency) or emits (CO2), until the next row
 *
 * The path "-" is standard input. Outputs are empty on errors, which name the file, line and
 * column. Threads: any; a table belongs to its caller.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_TRACE_CLUSTER_TABLES_H
#define LULL_CLUSTER_TRACE_CLUSTER_TABLES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cluster/core/model/failures.h"
#include "cluster/core/power/power_meter.h"

/* ---- virtual clusters and how many nodes each has ---- */

enum { LULL_CLUSTER_POOLS_MAX = 4096, LULL_CLUSTER_POOL_NAME = 64 };

struct lull_cluster_pools_row {
    char name[LULL_CLUSTER_POOL_NAME];
    uint32_t nodes; /* > 0 */
};

struct lull_cluster_pools_table {
    struct lull_cluster_pools_row *rows; /* in the order of the file, each name once */
    uint32_t count;                      /* > 0 */
    uint32_t nodes;                      /* of all clusters together, at most 2^20 */
};

/* Errors: LULL_E_FORMAT a column missing, no such number, a name that is empty, too long or there
 * twice, no rows, or more than 2^20 nodes; -ENOMEM; those of lull_columns_read. */
int lull_cluster_pools_read(const char *path, struct lull_cluster_pools_table *table_out,
                            struct lull_error *err);
void lull_cluster_pools_fini(struct lull_cluster_pools_table *table);

/* The row of a name; table->count where there is none. */
uint32_t lull_cluster_pools_find(const struct lull_cluster_pools_table *table, const char *name);

/* ---- failures ---- */

/*
 * Reads the failures of a cluster of node_count nodes, ordered (lull_cluster_failures_order). The
 * caller frees *failures_out. Errors: LULL_E_FORMAT no such number, an unknown node, a time below
 * 0, an end that is not after its beginning, a node that fails while it is down; -ENOMEM; those of
 * lull_columns_read.
 */
int lull_cluster_failures_read(const char *path, uint32_t node_count,
                               struct lull_cluster_failure **failures_out, size_t *count_out,
                               struct lull_error *err);

/* ---- tariffs ---- */

enum lull_tariff_kind { LULL_TARIFF_PRICE, LULL_TARIFF_CARBON };

struct lull_tariff_table {
    struct lull_tariff tariff; /* checked; refers to the arrays below */
    int64_t *time_ns;
    double *value;
};

/* Errors: LULL_E_FORMAT no such number, a time below 0 or not after the row above, no rows;
 * -ENOMEM; those of lull_columns_read. */
int lull_tariff_read(const char *path, enum lull_tariff_kind kind,
                     struct lull_tariff_table *table_out, struct lull_error *err);
void lull_tariff_fini(struct lull_tariff_table *table);

#endif
