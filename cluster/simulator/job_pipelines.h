/*
 * Large jobs as pipelines of transformers: the operating points of a job of so many GPUs, relative
 * to how long it runs. Some have one clock for all GPUs, the others are plans of the pipeline
 * planner. The layout is assumed: GPT-3's stages (12 layers of width 12288) on 8 tensor parallel
 * GPUs each, as many stages up to 8 as the GPUs have room for, copies of that, 4 micro-batches per
 * stage, 1F1B.
 *
 * One thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_SIMULATOR_JOB_PIPELINES_H
#define LULL_CLUSTER_SIMULATOR_JOB_PIPELINES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "cluster/core/model/job.h"
#include "cluster/simulator/job_classes.h"
#include "cluster/core/model/operating_points.h"

enum {
    LULL_JOB_PIPELINE_TENSOR = 8,
    LULL_JOB_PIPELINE_STAGES = 8,
    LULL_JOB_PIPELINE_MIN_GPUS = 2 * LULL_JOB_PIPELINE_TENSOR,
};

struct lull_job_pipelined {
    uint32_t gpus;
    uint32_t stages;
    uint32_t data; /* copies */
    struct lull_job_points points;
    struct lull_job_points relaxed; /* for bounds */
};

/* Returns whether a job of so many GPUs can have this layout, on a type whose matrix products are
 * known (A100 and H100). */
bool lull_job_pipelined_is_possible(const struct lull_job_type *type, uint32_t gpus);

/* Makes the points of a job that is possible. Takes about a tenth of a second. Errors: -ENOMEM. */
int lull_job_pipelined_make(const struct lull_job_type *type, enum lull_job_network network,
                            uint32_t gpus, struct lull_job_pipelined *pipelined_out,
                            struct lull_error *err);

#endif
