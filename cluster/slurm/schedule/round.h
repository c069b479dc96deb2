/*
 * One look at Slurm's queue and what follows from it: jobs that were released in vain are held
 * again, jobs that no policy can place go to Slurm's own scheduler, and the policy's decisions are
 * executed.
 *
 * One thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_SLURM_SCHEDULE_ROUND_H
#define LULL_CLUSTER_SLURM_SCHEDULE_ROUND_H

#include <jansson.h>

#include "cluster/slurm/schedule/journal.h"
#include "cluster/slurm/schedule/schedule.h"
#include "cluster/slurm/schedule/slurm_queue.h"

struct lull_round {
    struct lull_slurm *slurm;
    struct lull_scheduling_rules rules;
    struct lull_schedule_journal *journal; /* NULL: decisions are only reported, not executed */
    struct lull_past *past;                /* executed decisions are stored here */
    int64_t patience_s;                    /* time limit for a released job to begin */
    bool is_pressed;                       /* examine the queue even if nothing has changed */
    int64_t due_s;      /* start of the cheaper time of a delayed job; 0: no job is delayed */
    uint64_t looks;     /* so far: at queues that had changed */
    uint64_t decisions; /* so far: jobs released */
};

/*
 * Runs a round. reported_out gets a document with the decisions, which the caller owns; NULL where
 * nothing has changed. Errors: -EAGAIN slurmctld does not answer; -EINVAL the rules do not match
 * the queue; -ENOMEM. If Slurm rejects a request for a single job, that is logged and is not an
 * error.
 */
int lull_round_run(struct lull_round *round, json_t **reported_out, struct lull_error *err);

#endif
