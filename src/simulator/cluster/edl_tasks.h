/*
 * Random tasks from the published ranges (Wang et al., TPDS 2022, section 5): 2048 GPUs' worth of
 * them at a utilisation. The draws are Lull's own, so these are other sets than the published ones.
 *
 * One thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_SIMULATOR_CLUSTER_EDL_TASKS_H
#define LULL_SIMULATOR_CLUSTER_EDL_TASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cluster/dvfs_task.h"

enum { LULL_EDL_TASKS_GPUS = 2048, LULL_EDL_TASKS_SLOTS = 1440, LULL_EDL_TASKS_AT_ONCE = 819 };

/* floor(2048 U) tasks, online LULL_EDL_TASKS_AT_ONCE more; utilisation U in (0, 1000]. */
size_t lull_edl_tasks_count(double utilisation, bool is_online);

/*
 * Draws the tasks, of which the caller has room for all. Offline they are all there at 0 and the
 * set of a smaller utilisation is the beginning of that of a larger one; online the first 819 are
 * (U = 0.4), and each further one arrives in any of the slots 1 to 1439 (a Poisson process, given
 * how many).
 */
void lull_edl_tasks_draw(double utilisation, bool is_online, uint64_t seed,
                         struct lull_dvfs_task *tasks_out);

#endif
