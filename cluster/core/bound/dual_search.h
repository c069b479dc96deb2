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

/* The number of prices of a problem: one for a GPU of each [type * slots + slot], followed, with a
 * cap, by one for a watt of each slot. */
size_t lull_dual_cells(const struct lull_slot_problem *problem);

/*
 * The best bound on the least cost (J, see dual_bound.h) that the ascent finds. achieved: the cost
 * of a known schedule, or INFINITY. prices_j: lull_dual_cells() initial prices, overwritten by the
 * best. O((steps + 13) (starts + prices)). -ENOMEM.
 */
int lull_dual_search(const struct lull_slot_problem *problem,
                     const struct lull_price_ascent *ascent, double *prices_j, double *bound_j_out);

/* Returns whether a bound is consistent with a schedule's result, up to rounding errors of sums
 * whose absolute terms add up to size_j >= 0. If not, the bound is wrong and must not be used. */
bool lull_dual_is_sound(double bound_j, double achieved_j, double size_j);

/* Upper bound on the ratio between the optimum and the result: optimum over achieved where both
 * are welfare (negative costs), achieved over optimum where both are costs. At least 1, and 1 where
 * there is nothing to gain; INFINITY: nothing was achieved. The bound is sound
 * (lull_dual_is_sound). */
double lull_dual_ratio(double bound_j, double achieved_j);

#endif
