/*
 * The policies that are compared on recorded training: Zeus's (NSDI'23, sections 4.3 and 4.4,
 * algorithms 1 to 3) and the product's own search (core/tuning/batch.h). Both choose from the same
 * history of runs, which core/tuning/batch.h keeps.
 *
 * Zeus prunes in two rounds, each from a base size downwards and upwards until a size fails; then
 * it samples by Thompson, with one Gaussian per size that is left. A run is stopped at beta times
 * the least cost of a recurrence so far, but no longer after 20 attempts at one recurrence, nor
 * when all sizes have failed. While the result of an exploring run is awaited, other runs use the
 * cheapest size known.
 *
 * Threads: one at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_REPRODUCE_ZEUS_POLICY_H
#define LULL_LAB_REPRODUCE_ZEUS_POLICY_H

#include "core/tuning/batch.h"

/*
 * The source of Zeus's random draws instead of the seed, so that a recorded series
 * can be replayed. Both functions are set or neither; context is passed to them.
 */
struct lull_zeus_draws {
    void *context;
    /* Puts the count arms (indices of sizes, ascending) into random order. */
    void (*permute)(void *context, uint32_t *arms, size_t count);
    /* Draws a cost from N(mean, deviation^2) for an arm; called in ascending order of arms. */
    double (*normal)(void *context, uint32_t arm, double mean, double deviation);
};

struct lull_zeus_config {
    bool is_published;              /* Zeus's policy; otherwise the product's own search */
    struct lull_batch_config batch; /* Zeus's policy ignores is_watching */
    struct lull_zeus_draws draws;   /* of Zeus's policy; empty: they follow from the seed */
};

/* Sets the product's own search with lull_batch_config_default, or Zeus's policy with all history
 * as published. The sizes are left to the caller. */
void lull_zeus_config_default(struct lull_zeus_config *config, bool is_published);

struct lull_zeus; /* opaque */

/* Creates the search that the caller destroys. Errors: those of lull_batch_create. */
int lull_zeus_create(const struct lull_zeus_config *config, struct lull_zeus **zeus_out,
                     struct lull_error *err);

/* NULL is allowed. */
void lull_zeus_destroy(struct lull_zeus *zeus);

/* Chooses the settings of the next run; see lull_batch_choose. */
void lull_zeus_choose(const struct lull_zeus *zeus, uint64_t retry_of,
                      struct lull_batch_choice *choice_out);

/* Takes a record of a run; errors are those of lull_batch_apply and change nothing. */
int lull_zeus_apply(struct lull_zeus *zeus, const struct lull_batch_record *record,
                    struct lull_error *err);

/* Returns whether Zeus's pruning rounds are under way. */
bool lull_zeus_is_pruning(const struct lull_zeus *zeus);

/* The history, which the search owns. */
const struct lull_batch *lull_zeus_history(const struct lull_zeus *zeus);

#endif
