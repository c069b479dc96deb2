/*
 * The state of a batch-size search, shared by its files and the reproduction of Zeus, which
 * searches otherwise over the same history (lab/reproduce/zeus/policy.c). Calls go down this list
 * only:
 *   batch.c          settings, records and choices
 *   batch_smooth.c   the search on one smooth curve
 *   batch_history.c  results of the runs
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_TUNING_BATCH_STATE_H
#define LULL_CORE_TUNING_BATCH_STATE_H

#include "core/tuning/batch.h"

/* Results of one arm that a decision looks at, at most. */
enum { LULL_BATCH_RESULTS = 1024 };

struct lull_batch_run {
    uint64_t id;
    uint32_t arm;
    uint32_t attempt;     /* from 1 */
    uint64_t retry_of;    /* as in the record */
    double bound;         /* J */
    double cost;          /* J, as observed */
    double attempts_cost; /* J, of it and the attempts before it */
    bool is_over;
    bool has_result; /* it reached or missed the target */
    bool has_reached;
    bool has_crashed;
};

/* One side of the test for changes. */
struct lull_batch_side {
    double sum;   /* deviations */
    size_t since; /* result with which it left 0 */
};

struct lull_batch {
    struct lull_batch_config config;
    uint32_t sizes[LULL_BATCH_SIZES];
    uint32_t default_arm;
    struct lull_batch_run *runs; /* in the order of submission */
    size_t run_count;
    size_t *results; /* indices of runs in the order in which they ended; lost ones are left out */
    size_t result_count;
    size_t first_result; /* those before are of other data */
    double min_cost;
    uint32_t change_count;
    struct lull_batch_side above;
    struct lull_batch_side below;
};

/* ---- runs and results (batch_history.c) ---------------------------------------------------- */

/* The run of this number; null: there is none, as for 0. */
struct lull_batch_run *lull_batch_find_run(const struct lull_batch *batch, uint64_t id);

/* An arm's last results that count, newest first; returns how many (<= capacity). */
size_t lull_batch_results(const struct lull_batch *batch, uint32_t arm,
                          const struct lull_batch_run **runs, size_t capacity);

/* The arm with the least mean cost over its successful runs since the last change, or where there
   is none ever; -1: none. */
int lull_batch_cheapest_arm(const struct lull_batch *batch);

/* Number of an arm's last runs in a row that have crashed; lost ones are passed over. O(runs). */
uint32_t lull_batch_crashes(const struct lull_batch *batch, uint32_t arm);

/* Returns whether an arm is given up because it crashes: twice in a row and more, while another arm
 * had a result; of an arm that has had one itself, after the first of these crashes. O(runs). */
bool lull_batch_has_crashed(const struct lull_batch *batch, uint32_t arm);

/* Seed of the draws of the next choice. */
uint64_t lull_batch_draw_seed(const struct lull_batch *batch);

/* Estimate of the mean cost of an arm, J. */
struct lull_batch_belief {
    size_t count; /* results that count */
    double mean;
    double deviation; /* of the mean */
    bool is_candidate;
};

/* ---- the search (batch_smooth.c) ---------------------------------------------------------- */

/* before: the run that is repeated; one of no attempts: none. */
void lull_batch_smooth_choose(const struct lull_batch *batch, const struct lull_batch_run *before,
                              struct lull_batch_choice *choice);
uint32_t lull_batch_smooth_best(const struct lull_batch *batch);
void lull_batch_smooth_accept(const struct lull_batch *batch, uint32_t arm,
                              struct lull_batch_belief *belief);

/* ---- results in logarithms, changed data (batch_history.c) ---------------------------------- */

/* An arm's results that count. */
struct lull_batch_summary {
    uint32_t count;
    uint32_t reached_count;
    double mean_log; /* of cost */
};

/* One summary per arm; returns the variance of one result's logarithm, pooled over the arms. */
double lull_batch_summarize(const struct lull_batch *batch, struct lull_batch_summary *summaries);

/*
 * Before the result of run, just ended, joins the others: is it of other data than they? If so,
 * returns true and forgets all results before the change.
 */
bool lull_batch_change_test(struct lull_batch *batch, const struct lull_batch_run *run);

/* Sets the least cost of a recurrence to that of the results since the last change. */
void lull_batch_reset_min_cost(struct lull_batch *batch);

#endif
