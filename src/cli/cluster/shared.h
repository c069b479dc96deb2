/*
 * Private to shared*.c: jobs that share GPUs and a network. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_CLUSTER_SHARED_H
#define LULL_CLI_CLUSTER_SHARED_H

#include "base/error.h"
#include "cli/cluster/shared_options.h"
#include "simulator/cluster/shared_gpus.h"
#include "trace/training_jobs.h"

struct lull_shared_run {
    const struct lull_shared_options *wish;
    struct lull_training_job *told; /* as the file has them */
    struct lull_shared_job *jobs;
    size_t count;
    struct lull_shared_result result;
};

/* shared_report.c. For people, or one JSON document. -ENOMEM, said in err. */
int lull_shared_report_print(const struct lull_shared_run *run, struct lull_error *err);

/*
 * One line per job: job_id,net,gpus,fate,submit_s,start_s,end_s,placement,reason; placement is
 * node:GPUs in the order of choice. Errors: -ENOMEM; those of lull_file_write_atomic.
 */
int lull_shared_report_write_jobs(const struct lull_shared_run *run, struct lull_error *err);

#endif
