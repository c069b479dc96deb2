/*
 * A job that comes again and again, in virtual time: recorded training (trace.h) answers what each
 * run would have cost (Zeus, NSDI'23, section 6.1, its trace simulator). The power limit of a batch
 * size is the one of least cost per epoch; the first run of a size spends its first epoch on
 * finding it.
 *
 * Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_REPRODUCE_ZEUS_RECURRENCE_H
#define LULL_LAB_REPRODUCE_ZEUS_RECURRENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "lab/reproduce/zeus/policy.h"
#include "lab/reproduce/zeus/trace.h"

/* C = eta E + (1 - eta) P T of one epoch, P the highest limit recorded for this size. */
double lull_recurrence_epoch_cost(const struct lull_batch_trace_size *size,
                                  const struct lull_batch_trace_limit *limit, double eta_ratio);

/* Chooses the limit of a size with the least cost per epoch, the highest of equal ones. */
const struct lull_batch_trace_limit *
lull_recurrence_choose_limit(const struct lull_batch_trace_size *size, double eta_ratio);

struct lull_recurrence_run {
    /* The request. */
    const struct lull_batch_trace_size *size;
    const struct lull_batch_trace_limit *limit;
    double epochs;     /* this many epochs reach the target; NAN: none do */
    double bound;      /* the run stops at this cost, J; INFINITY: it does not */
    bool is_profiling; /* the first epoch goes through all limits */
    /* The result. */
    uint32_t max_epochs; /* this many fit under the bound */
    double energy_j;     /* 0, like the time, where not one epoch fits */
    double time_s;
    bool has_reached;
};

/* Fills in the result. max_epochs: the run has missed its target after this many epochs. */
void lull_recurrence_execute(struct lull_recurrence_run *run, double eta_ratio,
                             uint32_t max_epochs);

/* ---- a whole series ----------------------------------------------------------------------- */

struct lull_recurrence_step {
    uint32_t recurrence; /* from 0 */
    uint32_t attempt;    /* from 1 */
    struct lull_batch_choice choice;
    struct lull_recurrence_run run;
    double cost; /* J, with the highest limit of the whole trace */
    const struct lull_batch_trace *trace;
};

typedef void (*lull_recurrence_observer)(void *context, const struct lull_recurrence_step *step);

/* The job is like this trace for this many recurrences. */
struct lull_recurrence_phase {
    const struct lull_batch_trace *trace;
    uint32_t recurrences;
};

struct lull_recurrence_series {
    const struct lull_recurrence_phase *phases; /* all with the same sizes */
    uint32_t phase_count;                       /* > 0 */
    uint64_t seed; /* selects the repetition of a run, the same for each policy */
    lull_recurrence_observer observe;
    void *context;
};

/*
 * Fills in a policy's sizes, default size, price and seed from the series, runs it, and calls
 * series->observe after each run. change_count_out, which may be NULL, gets how many changes of the
 * data the policy noticed. Errors: those of lull_zeus_create; -EINVAL the phases have different
 * sizes; -ENODATA a recurrence misses its target 200 times in a row.
 */
int lull_recurrence_play(const struct lull_recurrence_series *series,
                         const struct lull_zeus_config *policy, uint32_t *change_count_out,
                         struct lull_error *err);

/* The number of recurrences that the published simulator runs: twice the sizes times the limits
 * that have rows for the target. */
uint32_t lull_recurrence_count(const struct lull_batch_trace *trace);

/* ---- upper bounds ------------------------------------------------------------------------- */

struct lull_recurrence_knobs {
    uint32_t size;
    double limit_w;
    double energy_j; /* of a mean run that reaches the target */
    double time_s;
    double cost; /* J */
};

struct lull_recurrence_potential {
    struct lull_recurrence_knobs base;       /* the default size at the highest limit */
    struct lull_recurrence_knobs best_size;  /* at the highest limit, least energy */
    struct lull_recurrence_knobs best_limit; /* at the default size, least energy */
    struct lull_recurrence_knobs min_energy;
    struct lull_recurrence_knobs min_cost;
    struct lull_recurrence_knobs min_time;
};

/*
 * Searches all sizes and limits. The epochs of a size are the mean over its repetitions that reach
 * the target within the job's most epochs. Errors: -ENODATA the default size never reaches it.
 */
int lull_recurrence_search(const struct lull_batch_trace *trace, double eta_ratio,
                           struct lull_recurrence_potential *potential_out, struct lull_error *err);

/*
 * The least cost per reached target over the sizes, in J; the reference for regret. Each
 * size runs at the limit that would be chosen for it; failed repetitions cost as much as the job's
 * most epochs, and are repeated.
 */
double lull_recurrence_min_cost(const struct lull_batch_trace *trace, double eta_ratio);

#endif
