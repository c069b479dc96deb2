/*
 * The difference between two ways of running one program, from whole runs made in pairs.
 *
 * Iterations of one run do not show the differences between runs: placement of processes, other
 * load of the machine, temperature. So the unit is the run, and the evidence is one log ratio per
 * pair (Kalibera and Jones 2013, "Rigorous benchmarking in reasonable time"). Bounds are Student's
 * for the mean of those log ratios. They hold if the log ratios are independent and roughly
 * symmetric, whatever the iterations within a run do; with few pairs a side that is sometimes much
 * slower than typical makes them too narrow.
 *
 * The sides alternate A B B A A B B A ..., so that a steady drift is added to one pair and taken
 * from the next: it cancels in the mean of an even number of pairs, and widens the bounds. The
 * order is fixed, because several nodes of one job must follow it without communication.
 *
 * Pure; caller's storage; zero-initialised is empty. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_STATS_PAIRED_RUNS_H
#define LULL_CORE_STATS_PAIRED_RUNS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/stats/moments.h"

struct lull_paired_runs {
    struct lull_moments log_ratios; /* of other to reference, one per pair */
    struct lull_moments shared;     /* their common error, see lull_paired_runs_add */
};

/* Changes as ratios: 0.01 says that the other side is 1 % above the reference. */
struct lull_paired_change {
    uint32_t pairs;
    double ratio;       /* from the geometric mean of the ratios; NAN without a pair */
    double lower_ratio; /* one-sided bounds; NAN with fewer than two pairs */
    double upper_ratio;
};

/* True if the run of this number, from 0, is one of the other side and not of the reference. Runs
 * 2i and 2i + 1 are a pair. */
bool lull_paired_runs_is_other(uint32_t run);

/*
 * Adds a pair of amounts in one unit; it is ignored unless both are finite and > 0. shared_log >= 0
 * is the bound of an error of the log ratio that is the same in every pair (the offset of a
 * sensor). More pairs do not reduce it, so bounds are moved outwards by its mean.
 */
void lull_paired_runs_add(struct lull_paired_runs *runs, double reference, double other,
                          double shared_log);

/* Each bound alone holds with this confidence, in (0.5, 1); both of them, as an interval, with
 * 2 * confidence - 1. */
void lull_paired_runs_change(const struct lull_paired_runs *runs, double confidence,
                             struct lull_paired_change *change_out);

#endif
