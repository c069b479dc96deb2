/*
 * The batch size of a recurring job: the size that the next run should use, and the cost at which
 * to stop it. The question and the early stopping are Zeus's (NSDI'23, section 4); the search is a
 * Thompson sampling on one smooth curve of cost over size (batch_smooth.c).
 *
 * The state is a pure function of the configuration and of the records applied, in their order: a
 * store keeps the records and nothing else. Choosing changes nothing; it draws from the seed and
 * the number of runs submitted so far. A record contains the choice, so a history stays valid if a
 * later version chooses differently.
 *
 *   lull_batch_choose(batch, 0, &choice);
 *   lull_batch_apply(batch, &(struct lull_batch_record){LULL_BATCH_SUBMITTED, run, ...choice});
 *   ...the run, stopped when its cost exceeds choice.bound...
 *   lull_batch_apply(batch, &(struct lull_batch_record){LULL_BATCH_REACHED, run, ...energy, time});
 *
 * Runs may overlap and end in any order. While the result of an exploring run is awaited, others
 * use the cheapest size known. Costs are those of lull_job_cost, in J. Threads: one at a time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_TUNING_BATCH_H
#define LULL_CORE_TUNING_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "core/tuning/cost.h"

enum {
    LULL_BATCH_SIZES = 64, /* candidates at most */
    LULL_BATCH_TRIES = 20, /* runs of one recurrence that a user can request, at most */
};

struct lull_batch_config {
    const uint32_t *sizes; /* candidates, strictly ascending, > 0; copied */
    size_t size_count;     /* 1..LULL_BATCH_SIZES */
    uint32_t default_size; /* the job's present size; one of sizes */
    struct lull_job_price price;
    double beta_ratio; /* runs stop at beta times the least cost; >= 1, INFINITY: never */
    uint32_t window;   /* this many last results of each size count; 0: all of them */
    bool is_watching;  /* tests for changed data; a change re-opens exploration */
    uint64_t seed;
};

/* Sets eta 0.5, one GPU of 0 W, beta 2, and switches window and test for changes on. The sizes are
 * left to the caller. */
void lull_batch_config_default(struct lull_batch_config *config);

struct lull_batch; /* opaque */

/* Errors: -EINVAL with the member that is out of range, -ENOMEM. */
int lull_batch_create(const struct lull_batch_config *config, struct lull_batch **batch_out,
                      struct lull_error *err);
void lull_batch_destroy(struct lull_batch *batch);

struct lull_batch_choice {
    uint32_t size;
    double bound;      /* J: stop the run once its cost exceeds this; INFINITY: do not */
    bool is_exploring; /* chosen to learn, not as the expected cheapest */
};

/*
 * Chooses the size of the next run. retry_of: the run that missed the target or crashed and is now
 * repeated, 0: none (an unknown one counts as none). Sizes that crashed in this recurrence are not
 * taken again while there is another. Never fails: where all sizes have failed, it is the cheapest
 * that ever reached the target, else one of those tried least, without a bound.
 */
void lull_batch_choose(const struct lull_batch *batch, uint64_t retry_of,
                       struct lull_batch_choice *choice_out);

enum lull_batch_event {
    LULL_BATCH_SUBMITTED,
    LULL_BATCH_REACHED, /* the target, at whatever cost: success is success */
    LULL_BATCH_MISSED,  /* stopped by the bound, or the most epochs were not enough */
    LULL_BATCH_LOST,    /* cancelled, or its process is gone: no evidence */
    LULL_BATCH_CRASHED, /* ended with a failure of its own, such as a lack of memory */
};

struct lull_batch_record {
    enum lull_batch_event event;
    uint64_t run;      /* the caller's number of it, not 0, never used twice */
    uint64_t retry_of; /* SUBMITTED: as above */
    uint32_t size;     /* SUBMITTED */
    double bound;      /* SUBMITTED */
    double energy_j;   /* REACHED, MISSED: of all GPUs; both 0: not even one epoch fitted. CRASHED:
                        * may be NAN */
    double time_s;     /* REACHED, MISSED, CRASHED */
};

/*
 * Errors, which change nothing: -EEXIST a run submitted twice, -ENOENT the end of a run that is not
 * running, -EINVAL a size that is no candidate or a number that cannot be, -ENOMEM.
 */
int lull_batch_apply(struct lull_batch *batch, const struct lull_batch_record *record,
                     struct lull_error *err);

/* ---- to look at ---------------------------------------------------------------------------- */

/* J; INFINITY before the first success. With the cost of the attempts that led there. */
double lull_batch_min_cost(const struct lull_batch *batch);

/* The best known size, without exploring; 0 before the first success. */
uint32_t lull_batch_best_size(const struct lull_batch *batch);

/* Returns whether there is an untried size that may be cheaper than the best. */
bool lull_batch_is_exploring(const struct lull_batch *batch);

/* The number of detected changes of the data. */
uint32_t lull_batch_change_count(const struct lull_batch *batch);

struct lull_batch_arm {
    uint32_t size;
    uint32_t run_count;    /* results that count: in the window, since the last change */
    uint32_t missed_count; /* of these */
    uint32_t
        crashed_count;     /* the last runs in a row that crashed; they are not among the results */
    double mean_cost;      /* J; NAN where nothing is known */
    double deviation_cost; /* J, of the mean */
    bool is_candidate;     /* false: given up */
};

/* Writes the arm of each candidate size, ascending; returns their number. */
size_t lull_batch_arms(const struct lull_batch *batch, struct lull_batch_arm *arms,
                       size_t capacity);

#endif
