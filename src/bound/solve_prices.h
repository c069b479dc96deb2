/*
 * A bound where the linear program is too large to be written down: prices are raised in slots that
 * the jobs' best schedules overfill and lowered in those they leave empty, and the best bound that
 * any of them proves is kept (subgradient ascent of the Lagrangian dual, with Polyak's steps
 * towards a level that comes nearer; Held, Wolfe, Crowder, Mathematical Programming 6, 1974).
 * Proven like any bound by prices; how near the program's optimum it comes is not known.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BOUND_SOLVE_PRICES_H
#define LULL_BOUND_SOLVE_PRICES_H

#include "bound/solve_lp.h"

/* What is worth waiting for, and for a first guess. */
#define LULL_PRICES_FINE_RATIO 1e-6
#define LULL_PRICES_COARSE_RATIO 1e-3

/*
 * Stops when the level aimed at is within fine_ratio (> 0) of the best bound, or after time_limit_s
 * of processor time, but looks at prices of 0 at least. -ENOMEM.
 */
int lull_solve_prices(const struct lull_slot_problem *problem, double fine_ratio,
                      double time_limit_s, struct lull_lp_result *result_out,
                      struct lull_error *err);

#endif
