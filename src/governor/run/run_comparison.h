/*
 * A comparison: unmanaged and managed runs of one command in turn (lull run --compare), and their
 * combined result.
 *
 * "Slower" compares whole runs: the mean time of all iterations of the managed run, including
 * learning, trials and reference blocks, against that of the unmanaged run of its pair. The saving
 * is that of settled iterations, since a long job consists of them. In both runs these are the
 * iterations at the final temperature; in the managed run also only those with the final results
 * (all, if the run ended before).
 *
 * Bounds come from the differences between pairs alone (core/stats/paired_runs.h). With one run on
 * each side there are no bounds, however many iterations the runs have.
 *
 * Threads: one; the controls are stopped. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_RUN_COMPARISON_H
#define LULL_GOVERNOR_RUN_RUN_COMPARISON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "core/stats/paired_runs.h"
#include "governor/run/run_statistics.h"

enum { LULL_RUN_COMPARISON_MAX_PAIRS = 1000 };

struct lull_compared_run {
    bool is_managed;
    int status;              /* of the command */
    const char *disturbance; /* why its times do not show Lull's effect; NULL: they do */
    uint32_t limits_mw[LULL_CONTROLLER_MAX_GPUS]; /* of its GPUs at its begin; 0: not known */
    double wall_s;
    struct lull_run_statistics whole;   /* every iteration */
    struct lull_run_statistics settled; /* see above */
};

struct lull_run_comparison {
    uint32_t pairs_wanted; /* 1..LULL_RUN_COMPARISON_MAX_PAIRS */
    uint32_t run_count;    /* so far; the last may have failed */
    bool sets_limits;      /* Lull itself sets power limits */
    struct lull_compared_run *runs;
};

struct lull_run_difference {
    uint32_t pairs_done;     /* pairs of runs that both ended well, and were not set aside */
    uint32_t set_aside;      /* pairs that carry no information about Lull's effect */
    const char *disturbance; /* why the first pair was set aside; NULL: none was */
    struct lull_paired_change slowdown;
    /* saving.ratio is the saving. Both bounds hold jointly with the confidence. */
    struct lull_paired_change saving;
};

/* Errors: -ENOMEM. The comparison is empty then, and lull_run_comparison_fini is allowed. */
int lull_run_comparison_init(struct lull_run_comparison *comparison, uint32_t pairs,
                             struct lull_error *err);
void lull_run_comparison_fini(struct lull_run_comparison *comparison);

/* Computes the part of a stopped control's run that counts for the saving: the time after settling,
 * or all of it if no energy after settling is known. */
void lull_run_comparison_settled(const struct lull_control *control, bool is_managed,
                                 struct lull_run_statistics *settled_out);

/* Adds the next run, of the side given by lull_paired_runs_is_other. control NULL: its iterations
 * are unknown. */
void lull_run_comparison_add(struct lull_run_comparison *comparison,
                             const struct lull_control *control, double wall_s, int status);

/* The last successful run of that side; NULL: none. */
const struct lull_compared_run *
lull_run_comparison_last(const struct lull_run_comparison *comparison, bool is_managed);

/* Computes the result of all complete pairs; NAN is unknown. */
void lull_run_comparison_difference(const struct lull_run_comparison *comparison, double confidence,
                                    struct lull_run_difference *difference_out);

/* Returns the reason why there is no run-to-run bound; NULL: there is one. */
const char *lull_run_difference_no_bound(const struct lull_run_difference *difference);

#endif
