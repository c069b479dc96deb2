/*
 * A job that comes again and again, in no time at all: recorded training (trace/batch_trace.h)
 * answers what each run would have cost (Zeus, NSDI'23, section 6.1, its trace simulator). The
 * power limit of a batch size is the one of least cost per epoch; the first run of a size spends
 * its first epoch on finding it.
 *
 * One thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_REPRODUCE_ZEUS_RECURRENCE_H
#define LULL_REPRODUCE_ZEUS_RECURRENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "reproduce/zeus/policy.h"
#include "reproduce/zeus/trace.h"

/* C = eta E + (1 - eta) P T of one epoch, P the highest limit recorded for this size. */
double lull_recurrence_epoch_cost(const struct lull_batch_trace_size *size,
                                  const struct lull_batch_trace_limit *limit, double eta_ratio);

/* Of a size's limits the one of least cost per epoch; of equal ones the highest. */
const struct lull_batch_trace_limit *
lull_recurrence_choose_limit(const struct lull_batch_trace_size *size, double eta_ratio);

struct lull_recurrence_run {
    /* Asked. */
    const struct lull_batch_trace_size *size;
    const struct lull_batch_trace_limit *limit;
    double epochs;     /* that it would take; NAN: it never gets there */
    double bound;      /* J of cost; INFINITY: none */
    bool is_profiling; /* the first epoch goes through all limits */
    /* Answered. */
    uint32_t max_epochs; /* as many as fit under the bound */
    double energy_j;     /* both 0 where not one epoch fits */
    double time_s;
    bool has_reached;
};

/* max_epochs: of the job. */
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

/* For so many recurrences the job is like this. */
struct lull_recurrence_phase {
    const struct lull_batch_trace *trace;
    uint32_t recurrences;
};

struct lull_recurrence_series {
    const struct lull_recurrence_phase *phases; /* all with the same sizes */
    uint32_t phase_count;                       /* > 0 */
    uint64_t seed; /* of which repetition a run meets: the same for each policy */
    lull_recurrence_observer observe;
    void *context;
};

/*
 * Fills in a policy's sizes, default size, price and seed from the series, runs it, and tells of
 * each run. change_count_out: how many
 * changes it noticed, may be NULL. Errors: those of lull_zeus_create; -EINVAL phases with other
 * sizes; -ENODATA a recurrence that misses its target 200
 * times in a row.
 */
int lull_recurrence_play(const struct lull_recurrence_series *series,
                         const struct lull_zeus_config *policy, uint32_t *change_count_out,
                         struct lull_error *err);

/* As many recurrences as the published simulator runs: twice the sizes times the limits that have
   rows for the target. */
uint32_t lull_recurrence_count(const struct lull_batch_trace *trace);

/* ---- what is possible --------------------------------------------------------------------- */

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
    struct lull_recurrence_knobs least_energy;
    struct lull_recurrence_knobs least_cost;
    struct lull_recurrence_knobs least_time;
};

/*
 * Exhaustive search. A size's epochs are the mean over its repetitions that reach the target within
 * the job's most epochs. Errors: -ENODATA the default size never does.
 */
int lull_recurrence_search(const struct lull_batch_trace *trace, double eta_ratio,
                           struct lull_recurrence_potential *potential_out, struct lull_error *err);

/*
 * J: the least cost per reached target over the sizes, each at the limit it would be run at, failed
 * repetitions paid to the job's most epochs and repeated. What regret is measured against.
 */
double lull_recurrence_least_cost(const struct lull_batch_trace *trace, double eta_ratio);

#endif
