/*
 * Data of jobs by their names: slowdown and power at each clock; and of types of GPU: idle power
 * and highest power. A JSON document:
 *
 *   {"gpus": {"h100": {"idle_w": 70, "full_w": 700}},
 *    "jobs": {"resnet": {"time_s": 3600, "gpus": {"h100":
 *        [{"sm_mhz": 0, "time_ratio": 1, "gpu_w": 620}, {"sm_mhz": 1200, ...}]}}}}
 *
 * The first point of a list has no clock and the ratio 1; further ones are slower and of lower
 * clocks. time_s is the typical length at full clocks and may be missing.
 *
 * Threads: any for a table that was read. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_TRACE_POINT_TABLE_H
#define LULL_CLUSTER_TRACE_POINT_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { LULL_POINT_TABLE_MAX = 16, LULL_POINT_TABLE_NAME = 64 };

struct lull_table_point {
    uint32_t sm_mhz;   /* 0: full clocks */
    double time_ratio; /* to the time at full clocks, >= 1 */
    double gpu_w;      /* of one GPU, > 0 */
};

struct lull_table_row {
    char job[LULL_POINT_TABLE_NAME];
    char type[LULL_POINT_TABLE_NAME];
    double time_s; /* 0: not known */
    uint32_t count;
    struct lull_table_point points[LULL_POINT_TABLE_MAX];
};

struct lull_table_gpu {
    char type[LULL_POINT_TABLE_NAME];
    double idle_w;
    double full_w;
};

struct lull_point_table; /* opaque */

/* Reads a file. Errors: LULL_E_FORMAT not such a document, with the error and its place; -ENOENT;
 * -ENOMEM; -EFBIG. */
int lull_point_table_read(const char *path, struct lull_point_table **table_out,
                          struct lull_error *err);

/* The same of a text; name: of the file, for messages. */
int lull_point_table_parse(const char *text, size_t size, const char *name,
                           struct lull_point_table **table_out, struct lull_error *err);

void lull_point_table_destroy(struct lull_point_table *table);

/* The entry of a job on a type of GPU; the entry of a type.
 * NULL: there is none, or the table is NULL. O(log n). */
const struct lull_table_row *lull_point_table_find(const struct lull_point_table *table,
                                                   const char *job, const char *type);
const struct lull_table_gpu *lull_point_table_gpu(const struct lull_point_table *table,
                                                  const char *type);

/* Returns the one type of GPU that a table covers; NULL: it covers none or several. */
const struct lull_table_gpu *lull_point_table_only_gpu(const struct lull_point_table *table);

#endif
