/*
 * Solves the linear program by CLP, in a process of its own, because CLP calls abort() on some
 * programs. The bound that comes back does not rest on the solver's arithmetic: only the dual
 * prices of its solution are used, and the bound is computed from them
 * (cluster/core/bound/dual_bound.h). One thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_SOLVER_SOLVE_LP_H
#define LULL_CLUSTER_SOLVER_SOLVE_LP_H

#include "cluster/solver/time_indexed.h"

/* Relative distance of the goal of lull_solve_prices() from the best bound, for bounds worth
 * waiting for. */
#define LULL_PRICES_FINE_RATIO 1e-6

struct lull_lp_result {
    bool is_infeasible; /* no schedule runs all jobs that have to run */
    bool is_optimal; /* as reported by the solver; else it stopped at the time limit or gave up */
    double objective_j; /* what the solver gives as the optimum; bound_j is what its prices prove */
    double bound_j;
    double *gpu_j; /* [type * slots + slot]: prices, >= 0 */
    double *cap_j; /* [slot]: the price of a watt, >= 0 */
};

/* time_limit_s > 0. Where the solver gives up, bound_j is -INFINITY. Errors: -ENOMEM; -errno of
 * fork(). */
int lull_solve_lp(const struct lull_time_indexed *program, double time_limit_s,
                  struct lull_lp_result *result_out, struct lull_error *err);

/*
 * A bound where the linear program is too large to be written down: prices found by ascent
 * (cluster/core/bound/dual_search.h). It is proven like any bound by prices; how near the program's
 * optimum it comes is not known. Stops when the goal is within fine_ratio (> 0) of the best bound,
 * or after time_limit_s of processor time, but looks at prices of 0 at least. -ENOMEM.
 */
int lull_solve_prices(const struct lull_slot_problem *problem, double fine_ratio,
                      double time_limit_s, struct lull_lp_result *result_out,
                      struct lull_error *err);
void lull_lp_result_fini(struct lull_lp_result *result);

#endif
