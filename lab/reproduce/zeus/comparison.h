/*
 * Compares policies of the batch-size search on the same series of a recorded job, seed by seed:
 * the savings of each against the default size at the highest limit, and its extra cost over a
 * policy with full foresight (regret). Exploration, failed runs and profiling are included.
 *
 * Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_REPRODUCE_ZEUS_COMPARISON_H
#define LULL_LAB_REPRODUCE_ZEUS_COMPARISON_H

#include <stdint.h>

#include "base/error.h"
#include "lab/reproduce/zeus/recurrence.h"

enum { LULL_COMPARISON_PHASES = 8, LULL_COMPARISON_LAST = 5 };

struct lull_comparison {
    const struct lull_recurrence_phase *phases;
    uint32_t phase_count; /* 1..LULL_COMPARISON_PHASES */
    double eta_ratio;
    /* Filled in by lull_comparison_init. */
    struct lull_recurrence_potential potential[LULL_COMPARISON_PHASES];
    double min_cost[LULL_COMPARISON_PHASES]; /* J per recurrence with the best size known */
    uint32_t recurrences;                    /* in all phases */
    double base_energy_j;                    /* over all recurrences with the default size */
    double base_time_s;
    double oracle_cost; /* J over all recurrences with the best size known */
};

/* Fills in the comparison; phases are borrowed. Errors: -EINVAL there is no phase, or there are too
 * many; those of lull_recurrence_search. */
int lull_comparison_init(struct lull_comparison *comparison,
                         const struct lull_recurrence_phase *phases, uint32_t phase_count,
                         double eta_ratio, struct lull_error *err);

struct lull_comparison_outcome {
    uint32_t runs;
    uint32_t missed_runs;
    uint32_t change_count;
    double energy_j;
    double time_s;
    double cost;          /* J */
    double last_energy_j; /* mean over the last five runs, like the next */
    double last_time_s;
    uint32_t last_size;
    double last_limit_w;
};

/*
 * Plays one policy on one seed. The cost of each recurrence is added to cost_by_recurrence, which
 * has room for comparison->recurrences sums or is NULL. Errors: those of lull_recurrence_play.
 */
int lull_comparison_play(const struct lull_comparison *comparison,
                         const struct lull_zeus_config *policy, uint64_t seed,
                         double *cost_by_recurrence, struct lull_comparison_outcome *outcome_out,
                         struct lull_error *err);

/* The energy saved over all recurrences, as a share of that of the default size. */
double lull_comparison_saving_ratio(const struct lull_comparison *comparison,
                                    const struct lull_comparison_outcome *outcome);

/* Over the last five runs, against the default size of the last phase: the energy saved, and how
 * much longer the runs take. */
double lull_comparison_last_saving_ratio(const struct lull_comparison *comparison,
                                         const struct lull_comparison_outcome *outcome);
double lull_comparison_last_slowdown_ratio(const struct lull_comparison *comparison,
                                           const struct lull_comparison_outcome *outcome);

#endif
