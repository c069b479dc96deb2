/*
 * What an iteration of a job, a task graph (job_graph.h), comes to with all GPUs at one clock.
 *
 * Pure. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_CLUSTER_JOB_ITERATION_H
#define LULL_CORE_CLUSTER_JOB_ITERATION_H

#include <stdint.h>

#include "core/cluster/job_graph.h"
#include "core/cluster/job_surface.h"

struct lull_job_iteration {
    int64_t time_ns;
    double energy_j; /* of all GPUs */
    /* Of the time of an average device; they add up to 1. */
    double compute_ratio;
    double exposed_ratio; /* communication */
    double bubble_ratio;
};

/*
 * Resources 0 to devices - 1 (devices > 0) are what computes, each so many GPUs (> 0) that are
 * alike; the graph is finished, and not all of it takes no time. Computation takes tempo's
 * compute_ratio as long, transfers its transfer_ratio; a GPU draws compute_w, in exposed
 * communication transfer_w and in bubbles waiting_w. -ENOMEM. As long as one schedule.
 */
int lull_job_iterate(const struct lull_job_graph *graph, uint32_t devices, uint64_t gpus,
                     const struct lull_job_tempo *tempo, struct lull_job_iteration *iteration_out);

#endif
