/*
 * Run frontier: what some slowdowns would save of the job, from the trials of a managed run
 * (core/energy/job_frontier.h): time from the boundaries of its iterations, energy from the
 * readings of its GPUs; and the result of each tried point.
 *
 * Threads: one; the control is stopped, or locked where it says so.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_RUN_FRONTIER_H
#define LULL_GOVERNOR_RUN_RUN_FRONTIER_H

#include "core/energy/job_frontier.h"
#include "governor/control/control.h"

struct lull_run_frontier {
    struct lull_job_frontier_point points[LULL_JOB_FRONTIER_BUDGETS];
    struct lull_job_frontier_tried tried[LULL_JOB_FRONTIER_SETTINGS];
    uint32_t tried_count;
    uint32_t kept_point;  /* the lowest steady point that is kept on a GPU of the job */
    uint64_t kept_others; /* accepted points of all other targets, encoded as in a visit */
    bool is_proven;       /* a proof has shown that the accepted clocks are within the tolerance */
};

/* Computes the frontier with the clocks accepted for sections and gaps. False: the job used no GPU,
 * or out of memory; nothing is written then. */
bool lull_run_frontier_compute(const struct lull_control *control,
                               struct lull_run_frontier *frontier_out);

/* Returns the trial of a steady point with these points of sections and gaps; NULL: it was not
 * tried. */
const struct lull_job_frontier_tried *
lull_run_frontier_find(const struct lull_run_frontier *frontier, uint32_t point, uint64_t others);

/*
 * Lists the results of the trials in the energy of one GPU of the job, over the time of the job's
 * iterations. tried_out: LULL_JOB_FRONTIER_SETTINGS of them. Returns how many there are; 0 as well
 * if memory runs out.
 */
uint32_t lull_run_frontier_of_gpu(const struct lull_control *control, uint32_t gpu,
                                  struct lull_job_frontier_tried *tried_out);

/* The trials of a run that continues, as far as they have been taken. */
struct lull_run_trials {
    struct lull_job_frontier pairs;
    const struct lull_boundaries *from; /* those of the rank that has had most iterations */
    size_t taken;                       /* of them */
    bool was_measured;
};

/*
 * Takes the boundaries up to until_ns, which the readings must have passed; zero-initialised trials
 * have taken none. They start again when another rank has had most iterations. To be called while
 * the control is locked. Each boundary is taken once, so the cost of a call is proportional to the
 * new boundaries.
 */
void lull_run_trials_take(struct lull_run_trials *trials, const struct lull_control *control,
                          int64_t until_ns);

/* Passes the controller what these trials have measured of the power profile's energy, while it is
 * tested. Likewise locked. */
void lull_run_trials_measure_profile(const struct lull_run_trials *trials,
                                     struct lull_control *control);

/* Returns the measured saving of the accepted clocks as a ratio of the job's energy. NAN: none is
 * accepted, or the interval does not exclude 0 yet. Likewise locked. */
double lull_run_trials_saving(const struct lull_run_trials *trials,
                              const struct lull_control *control);

#endif
