/*
 * Published job traces that are not tables with a header:
 *
 *   Philly            the JSON array cluster_job_log: jobs with attempts, whose times add up and
 *                     whose GPUs are counted in the details of the attempt that has most
 *   SWF               the Standard Workload Format of the Parallel Workloads Archive: comments
 *                     after ;, then 18 numbers a line; its processors count as GPUs
 *   Gavel, Shockwave  10 or 12 fields between tabs; Gavel's, which have a number of steps and no
 * duration, are rejected
 *
 * Jobs that never ran, or whose end is not known, are counted and left out as those of tables are.
 * Private to job_table.c. Threads: one at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_TRACE_CLUSTER_FORMATS_H
#define LULL_CLUSTER_TRACE_CLUSTER_FORMATS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "cluster/trace/job_table.h"
#include "trace/lines.h"
#include "trace/source.h"

enum lull_cluster_format {
    LULL_CLUSTER_TABLE, /* everything else */
    LULL_CLUSTER_PHILLY,
    LULL_CLUSTER_SWF,
    LULL_CLUSTER_GAVEL,
};

/* Detects a JSON format by the first bytes; everything else is LULL_CLUSTER_TABLE. */
enum lull_cluster_format lull_cluster_format_of_head(const char *head, size_t size);

/* Detects the other formats by their first line. */
enum lull_cluster_format lull_cluster_format_of_line(const char *line);

/* Reads all jobs of a text. Errors, with the byte of the text: LULL_E_FORMAT not such an array, or
 * an invalid date; -ENOMEM; those of lull_json_next. */
int lull_cluster_philly_read(struct lull_source *source, const char *path,
                             struct lull_job_table *table, struct lull_error *err);

/* Reads all jobs of a file. Errors, with the line: LULL_E_FORMAT too few fields, a number that is
 * none or out of range; -ENOMEM; those of lull_lines_next. */
int lull_cluster_swf_read(struct lull_lines *lines, struct lull_job_table *table,
                          struct lull_error *err);
int lull_cluster_gavel_read(struct lull_lines *lines, struct lull_job_table *table,
                            struct lull_error *err);

/* Adds a row to the table, or counts it as left out and drops its steps, which were added last.
 * Errors: -ENOMEM. */
int lull_job_table_add(struct lull_job_table *table, const struct lull_job_table_row *row,
                       const char *path, struct lull_error *err);

#endif
