/*
 * EDL as jobs arrive (core/cluster/edl.h), in virtual time: the published slot loop, in which only
 * slots where something happens cost anything. O(log n) for each arrival and each node turned on or
 * off, and a node's GPUs, where the published loop looks at every node in every slot.
 *
 * In slot t, in this order: a GPU without a task since the slot before is idle for one slot; GPUs
 * whose task has ended take the next, at most one in a slot, or fall idle; DRS turns off the nodes
 * whose GPUs have all been idle for LULL_EDL_IDLE_SLOTS slots; tasks that have arrived get GPUs, in
 * the policy's order. A GPU that was off remembers when its last task ended, which orders GPUs
 * that are all free.
 *
 * One thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_REPRODUCE_EDL_ONLINE_H
#define LULL_REPRODUCE_EDL_ONLINE_H

#include <stddef.h>

#include "base/error.h"
#include "reproduce/edl/edl.h"

enum { LULL_EDL_IDLE_SLOTS = 2 };

/*
 * Runs the tasks, which may be in any order; one that arrives within a slot is seen at its end.
 * jobs_out has room for all, in the tasks' order; nodes are numbered. Times may not exceed 2^50 s.
 * Errors: -ENOMEM; -E2BIG more GPUs than a pool holds.
 */
int lull_edl_simulate(const struct lull_edl_config *config, const struct lull_dvfs_task *tasks,
                      size_t count, struct lull_edl_job *jobs_out,
                      struct lull_edl_outcome *outcome_out, struct lull_error *err);

#endif
