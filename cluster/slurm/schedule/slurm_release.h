/*
 * Releases and holds jobs of Slurm's queue, through libslurm. One thread.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_SLURM_SCHEDULE_SLURM_RELEASE_H
#define LULL_CLUSTER_SLURM_SCHEDULE_SLURM_RELEASE_H

#include "cluster/slurm/schedule/slurm_queue.h"

/*
 * Releases a job of the queue as decided, in one request: its nodes, its clock and the end of its
 * hold. Does nothing to a job that is no longer held. Errors: -EACCES; -EAGAIN; -ECANCELED rejected
 * by Slurm, with its reason.
 */
int lull_slurm_release(struct lull_slurm *slurm, const struct lull_schedule_decision *decision,
                       struct lull_error *err);

/* Gives a held job to Slurm's own scheduler. Errors: the same. */
int lull_slurm_hand_over(struct lull_slurm *slurm, uint32_t job, struct lull_error *err);

/* Holds a released job that has not begun, so that it can be placed again. Errors: the same. */
int lull_slurm_hold(struct lull_slurm *slurm, uint32_t job, struct lull_error *err);

#endif
