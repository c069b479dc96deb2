/*
 * EDL (edl.h) as jobs arrive, in virtual time. This is the published slot loop, but only slots in
 * which something happens cost time: O(log n) for each arrival, and O(log n) and a pass over the
 * node's GPUs for each node turned on or off. The published loop looks at every node in every slot.
 *
 * In slot t, in this order: a GPU without a task since the slot before is idle for one slot; GPUs
 * whose task has ended take the next, at most one in a slot, or fall idle; DRS turns off the nodes
 * whose GPUs have all been idle for LULL_EDL_IDLE_SLOTS slots; tasks that have arrived get GPUs, in
 * the policy's order. A GPU that was off remembers when its last task ended, which orders GPUs
 * that are all free.
 *
 * One thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_REPRODUCE_EDL_ONLINE_H
#define LULL_LAB_REPRODUCE_EDL_ONLINE_H

#include <stddef.h>

#include "base/error.h"
#include "lab/reproduce/edl/edl.h"

enum { LULL_EDL_IDLE_SLOTS = 2 };

/*
 * Runs the tasks, which may be in any order; a task that arrives within a slot is seen at the end
 * of the slot. jobs_out has room for all, in the tasks' order. Times may not exceed 2^50 s. Errors:
 * -ENOMEM; -E2BIG more GPUs than a pool holds.
 */
int lull_edl_simulate(const struct lull_edl_config *config, const struct lull_dvfs_task *tasks,
                      size_t count, struct lull_edl_job *jobs_out,
                      struct lull_edl_outcome *outcome_out, struct lull_error *err);

#endif
