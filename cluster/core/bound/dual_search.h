/*
 * Searches prices that prove a tight bound (dual_bound.h): an upper bound on a schedule's distance
 * from the optimum, found after the run, or a lower bound on the cost of any schedule. Since any
 * prices prove a bound, they may be guessed, scaled and improved freely.
 *
 * Pure; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_BOUND_DUAL_SEARCH_H
#define LULL_CLUSTER_CORE_BOUND_DUAL_SEARCH_H

#include <stdbool.h>

#include "cluster/core/bound/price_ascent.h"
#include "cluster/core/model/slots.h"

/* How many prices a problem has: one of a GPU for each [type * slots + slot], and behind them, with
 * a cap, one of a watt for each slot. */
size_t lull_dual_cells(const struct lull_slot_problem *problem);

/*
 * The best bound on the least cost (J, see dual_bound.h) that the ascent finds; achieved: what a
 * schedule costs, or INFINITY. prices_j: lull_dual_cells() of them to begin with, overwritten by
 * the best. O((steps + 13) (starts + prices)). -ENOMEM.
 */
int lull_dual_search(const struct lull_slot_problem *problem,
                     const struct lull_price_ascent *ascent, double *prices_j, double *bound_j_out);

/* Returns whether a bound is consistent with what a schedule achieved, up to the rounding of
 * sums whose terms' sizes sum to size_j >= 0. If not, the bound is wrong and must not be used. */
bool lull_dual_is_sound(double bound_j, double achieved_j, double size_j);

/* Upper bound on the ratio between the optimum and the result: optimum over achieved where both
 * are welfare (negative costs), achieved over optimum where both are costs. At least 1, and 1 where
 * there is nothing to gain; INFINITY: nothing was achieved. The bound is sound
 * (lull_dual_is_sound). */
double lull_dual_ratio(double bound_j, double achieved_j);

#endif
