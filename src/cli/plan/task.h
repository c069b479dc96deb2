/*
 * What `lull plan` plans: a pipeline put together from a profile and a schedule, as the user names
 * them. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAN_TASK_H
#define LULL_CLI_PLAN_TASK_H

#include <stdint.h>

#include "base/error.h"
#include "core/pipeline/plan.h"

/* Measured by Kareus' authors on an A100 (2025); what --blocking-w is where it is not given. */
#define LULL_PLAN_BLOCKING_W 85.0

enum { LULL_PLAN_COPY_PROFILES = 63 };

struct lull_plan_source {
    const char *profile;  /* a file; "-": standard input */
    const char *copies[LULL_PLAN_COPY_PROFILES]; /* files, of the second copy and those behind it */
    uint32_t copy_count;                         /* copies beyond are as the first one */
    const char *schedule; /* as core/pipeline/schedule/schedule.h parses it; NULL with a graph */
    const char *graph;    /* a file: torch's schedule or operations as JSON lines; or NULL */
    const char *blocking; /* watts, one for all or one per stage, or a GPU model; NULL: above */
    int64_t stages;
    int64_t microbatches;
    int64_t replicas;
    double latency_ms; /* of a transfer between stages */
    const char *sync;  /* ms at the end of each device, one for all or one per device; NULL: none */
};

struct lull_plan_task {
    const struct lull_plan_source *source; /* borrowed */
    char title[128];
    uint32_t stages;                      /* devices of one copy */
    int64_t parts;                        /* model chunks per device that share a measured stage */
    struct lull_pipeline_profile profile; /* fitted to the pipeline */
    struct lull_pipeline_graph graph;
    double *blocking_w; /* of every device */
    double blocking_sum_w;
    struct lull_pipeline_problem problem;
    uint32_t *highest; /* every operation at its highest clock */
    struct lull_pipeline_cost all_max;
    int64_t shortest_ns; /* no plan is faster: every operation at its fastest option */
};

/*
 * Reads the files and builds all that is in a task. On success the caller owns the contents of
 * *task_out. Errors: those of the readers and generators; -EINVAL blocking power that is none.
 */
int lull_plan_task_init(const struct lull_plan_source *source, struct lull_plan_task *task_out,
                        struct lull_error *err);
/* The same with a profile that has been read, and is not needed any more afterwards. */
int lull_plan_task_build(const struct lull_plan_source *source,
                         const struct lull_pipeline_profile *measured,
                         struct lull_plan_task *task_out, struct lull_error *err);
void lull_plan_task_fini(struct lull_plan_task *task);

#endif
