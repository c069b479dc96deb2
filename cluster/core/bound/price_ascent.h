/*
 * Searches prices that prove a high bound by steps along a subgradient: the requested amount at the
 * prices less the available amount. Polyak's rule determines the length of a step, for a goal
 * between the best bound so far and the cost of a known schedule. Without a known schedule the goal
 * is a level above the best bound that moves closer (Polyak 1969; Held, Wolfe, Crowder,
 * Mathematical Programming 6, 1974). Any prices prove a bound, so errors here can only make the
 * search slow.
 *
 * Pure; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_BOUND_PRICE_ASCENT_H
#define LULL_CLUSTER_CORE_BOUND_PRICE_ASCENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limits and callbacks of an ascent. */
struct lull_price_ascent {
    double achieved; /* cost of a known schedule, which no bound exceeds; INFINITY: none is known */
    double fine_ratio; /* without a schedule: the distance of the goal to the best bound at which
                          the search ends; > 0 */
    uint32_t steps;
    void (*tell)(void *user, uint32_t step); /* before each; may be NULL */
    bool (*is_over)(void *user);             /* after each: whether to stop; may be NULL */
    void *user;
};

/* Computes the bound at these prices, and for each price the requested amount less the available
 * one. Returns 0 or an error, which ends the search. */
typedef int (*lull_price_look)(void *asked, const double *prices, double *bound_out,
                               double *excess_out);

/*
 * Finds the best bound among the given prices times 0, 0.1 to 1.2, and then along the steps.
 * prices: `cells` of them, >= 0, which the best ones overwrite. asked is passed to look. Errors:
 * -ENOMEM, or those of look.
 */
int lull_price_ascend(size_t cells, lull_price_look look, void *asked,
                      const struct lull_price_ascent *ascent, double *prices, double *bound_out);

#endif
