/*
 * Turns a parallel job (job_parallel.h) into a problem of the pipeline planner, and the plans of
 * its frontier into candidates for operating points. In such an operating point every operation of
 * the pipeline has its own clock, so that bubbles and stages that wait cost less energy for the
 * same time.
 *
 * An action is one operation: its computation follows the clock, its collectives keep their time.
 * The last bucket of gradients and the optimizer end every device's iteration; the other buckets
 * are taken to be hidden. A device waits at the clock of what it did last; while plans are made it
 * is taken to wait, and to send gradients, at the clock at which computation costs least energy.
 *
 * Pure. One thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_MODEL_JOB_PIPELINE_H
#define LULL_CLUSTER_CORE_MODEL_JOB_PIPELINE_H

#include <stdint.h>

#include "base/error.h"
#include "cluster/core/model/job_parallel.h"
#include "core/pipeline/model/plan.h"

struct lull_job_pipeline {
    struct lull_pipeline_profile fitted;
    struct lull_pipeline_graph graph;
    double *blocking_w;
    struct lull_pipeline_problem problem; /* of the three above */
    double *waiting_w;                    /* of a device, by option */
    uint64_t gpus;                        /* of the job */
};

/*
 * tempo: clock_count (1 to LULL_PIPELINE_MAX_OPTIONS) clocks, the highest first, each of another
 * MHz. Written on success, and then the caller's to fini; it points into itself, so it stays where
 * it is. Errors: -EINVAL; those of lull_pipeline_schedule_build.
 */
int lull_job_pipeline_init(struct lull_job_pipeline *pipeline,
                           const struct lull_job_parallel *parallel,
                           const struct lull_job_tempo *tempo, uint32_t clock_count,
                           struct lull_error *err);
void lull_job_pipeline_fini(struct lull_job_pipeline *pipeline);

/*
 * Plans of real clocks at `points` (> 1) iteration times between the fastest and that of least
 * energy, `iterations` (> 0) of each; sm_mhz is 0, since they have many. points_out: `points`
 * places. Returns how many were written, or -ENOMEM.
 */
int64_t lull_job_pipeline_points(const struct lull_job_pipeline *pipeline, uint32_t points,
                                 uint64_t iterations, uint32_t type,
                                 struct lull_cluster_point *points_out, struct lull_error *err);

#endif
