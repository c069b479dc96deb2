/*
 * Run frontier: what some slowdowns would save of the job, from the trials of a managed run
 * (core/energy/job_frontier.h): time from the boundaries of its iterations, energy from the
 * readings of its GPUs.
 *
 * Threads: one; the control is stopped. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_RUN_FRONTIER_H
#define LULL_GOVERNOR_RUN_RUN_FRONTIER_H

#include "core/energy/job_frontier.h"
#include "governor/control/control.h"

/* Computes the frontier with what is kept in sections and gaps. points_out:
 * LULL_JOB_FRONTIER_BUDGETS of them. False: the job used no GPU, or there is no memory; nothing is
 * written then. */
bool lull_run_frontier_compute(const struct lull_control *control,
                               struct lull_job_frontier_point *points_out);

#endif
