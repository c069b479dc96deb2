/*
 * The operating points of a job relative to how long it runs: made once for all jobs that are alike
 * but for their number of iterations. One thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_SIMULATOR_CLUSTER_JOB_POINTS_H
#define LULL_SIMULATOR_CLUSTER_JOB_POINTS_H

#include <stddef.h>
#include <stdint.h>

#include "core/cluster/model/job.h"

struct lull_job_points {
    uint32_t count;
    struct {
        uint32_t sm_mhz;     /* 0: a plan's clocks */
        double time_ratio;   /* to the fastest, which is the first: 1 */
        double energy_w;     /* of all GPUs, over the time of the fastest */
        float exposed_ratio; /* as of an operating point */
        float waiting_w;
    } all[LULL_CLUSTER_MOST_POINTS];
};

/* Those of count > 0 candidates of one iteration that lull_operating_points_choose keeps;
 * candidates are put into another order. */
void lull_job_points_choose(struct lull_cluster_point *candidates, size_t count,
                            struct lull_job_points *points_out);

/*
 * The operating points of a job on so many GPUs of a type that runs for time_ns in the fastest of
 * them; points_out: room for LULL_CLUSTER_MOST_POINTS. Returns how many: those whose time is in
 * range.
 */
uint32_t lull_job_points_make(const struct lull_job_points *points, int64_t time_ns, uint32_t type,
                              uint32_t gpus, struct lull_cluster_point *points_out);

#endif
