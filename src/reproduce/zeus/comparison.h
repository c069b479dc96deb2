/*
 * Policies of the batch-size search on the same series of a recorded job, seed by seed: what each
 * saves against the default size at the highest limit, and what it spends beyond one that knows the
 * best size beforehand (regret). Exploration, failed runs and profiling are paid for.
 *
 * One thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_REPRODUCE_ZEUS_COMPARISON_H
#define LULL_REPRODUCE_ZEUS_COMPARISON_H

#include <stdint.h>

#include "base/error.h"
#include "reproduce/zeus/recurrence.h"

enum { LULL_COMPARISON_PHASES = 8, LULL_COMPARISON_LAST = 5 };

struct lull_comparison {
    const struct lull_recurrence_phase *phases;
    uint32_t phase_count; /* 1..LULL_COMPARISON_PHASES */
    double eta_ratio;
    /* Filled in by lull_comparison_init. */
    struct lull_recurrence_potential potential[LULL_COMPARISON_PHASES];
    double least_cost[LULL_COMPARISON_PHASES]; /* J per recurrence of who knows the best size */
    uint32_t recurrences;                      /* of all phases */
    double base_energy_j;                      /* of all recurrences */
    double base_time_s;
    double oracle_cost;
};

/* Takes phases and eta. Errors: -EINVAL no phase, or too many; those of lull_recurrence_search. */
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
    double last_energy_j; /* mean of the last five runs */
    double last_time_s;
    uint32_t last_size;
    double last_limit_w;
};

/*
 * One policy on one seed. cost_by_recurrence: room for comparison->recurrences sums to which each
 * recurrence's cost is added, or NULL. Errors: those of lull_recurrence_play.
 */
int lull_comparison_play(const struct lull_comparison *comparison,
                         const struct lull_zeus_config *policy, uint64_t seed,
                         double *cost_by_recurrence, struct lull_comparison_outcome *outcome_out,
                         struct lull_error *err);

/* Energy saved over all recurrences, as a share of the default's. */
double lull_comparison_saving_ratio(const struct lull_comparison *comparison,
                                    const struct lull_comparison_outcome *outcome);

/* The same of the last five runs, against the last phase's default; and how much longer they take.
 */
double lull_comparison_last_saving_ratio(const struct lull_comparison *comparison,
                                         const struct lull_comparison_outcome *outcome);
double lull_comparison_last_slowdown_ratio(const struct lull_comparison *comparison,
                                           const struct lull_comparison_outcome *outcome);

#endif
