/*
 * Private to cluster_jobs*.c: a table of jobs while it is read. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_CLUSTER_JOBS_READING_H
#define LULL_TRACE_CLUSTER_JOBS_READING_H

#include <errno.h>
#include <stdbool.h>

#include "trace/cluster_jobs.h"
#include "trace/columns.h"

enum lull_field {
    ID,
    SUBMIT,
    GPUS,
    GPU_MILLI,
    GPU_MODELS,
    DURATION,
    SCHEDULED,
    DELETED,
    DEADLINE,
    DEADLINES,
    VALUES,
    VALUE,
    VC,
    MODEL,
    WORKLOAD,
    WEIGHT,
    MEMORY,
    PREEMPTIBLE,
    LEAST_GPUS,
    MOST_GPUS,
};

struct lull_reading {
    struct lull_columns columns;
    struct lull_cluster_jobs_table *table;
    size_t room;
    size_t step_room;
    struct lull_error *err;
};

static inline int refuse(const struct lull_reading *reading, enum lull_field field,
                         const char *what)
{
    return lull_columns_refuse(&reading->columns, field, what, reading->err);
}

static inline bool has(const struct lull_reading *reading, enum lull_field field)
{
    return lull_columns_has(&reading->columns, field);
}

static inline bool is_filled(const struct lull_reading *reading, enum lull_field field)
{
    return lull_columns_is_filled(&reading->columns, field);
}

static inline int out_of_memory(const struct lull_reading *reading)
{
    return lull_error_set(reading->err, -ENOMEM, "%s: no memory for its jobs",
                          reading->columns.name);
}

/* The cell of a column that is there. */
int lull_cluster_jobs_read_time(const struct lull_reading *reading, enum lull_field field,
                                int64_t *time_ns_out);

/* By when the job at hand is to end, and what that is worth. */
int lull_cluster_jobs_read_deadline(struct lull_reading *reading,
                                    struct lull_cluster_jobs_row *row);
int lull_cluster_jobs_read_value(const struct lull_reading *reading,
                                 struct lull_cluster_jobs_row *row);

#endif
