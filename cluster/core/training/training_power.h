/*
 * The average power of a job's GPUs at each moment of a step, as measured by a slow meter.
 *
 * All GPUs of a job rise and fall together, so that a dip at a step's boundary is seen by the whole
 * cluster. A meter reports the mean over the window before each of its samples; taken at random
 * times and sorted by position in the step, its samples show the dip blurred.
 *
 * Pure. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_TRAINING_TRAINING_POWER_H
#define LULL_CLUSTER_CORE_TRAINING_TRAINING_POWER_H

#include <stdint.h>

#include "cluster/core/model/job_graph.h"

/*
 * Mean power of a GPU in each of `bins` (> 0) equal parts of a step that repeats, its schedule that
 * of lull_job_iterate with the same arguments. window_ns >= 0: 0 is no meter. watts_out: bins
 * places. Returns 0, or -ENOMEM. O(tasks log tasks + tasks bins) at worst.
 */
int lull_training_power(const struct lull_job_graph *graph, uint32_t devices,
                        const struct lull_job_tempo *tempo, int64_t window_ns, uint32_t bins,
                        double *watts_out);

#endif
