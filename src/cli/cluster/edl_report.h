/* What --policy edl prints and writes. SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_CLI_CLUSTER_EDL_REPORT_H
#define LULL_CLI_CLUSTER_EDL_REPORT_H

#include "cli/cluster/edl_options.h"

struct lull_edl_run {
    const struct lull_edl_options *wish;
    struct lull_edl_job *jobs; /* in the tasks' order */
    size_t count;
    struct lull_edl_outcome outcome;
};

/* For people, or one JSON document. Errors: -ENOMEM. */
int lull_edl_report_print(const struct lull_edl_run *run, struct lull_error *err);

/*
 * One line per task: job_id,voltage,fc,fm,time,power_w,start,finish,node,gpu; clocks and voltage as
 * ratios to the base point, times in seconds. Whole or not at all. Errors: -ENOMEM; those of
 * lull_file_write_atomic.
 */
int lull_edl_report_write_jobs(const struct lull_edl_run *run, struct lull_error *err);

#endif
