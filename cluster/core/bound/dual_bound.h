/*
 * A proven bound on the cost of all schedules, from any prices. For the linear program over x[job,
 * schedule] >= 0
 *
 *   least  sum cost x + sum reject (1 - sum x)
 *   with   sum of a job's x <= 1 (= 1 where it is mandatory),
 *          for each type and slot: sum of gpus x over the schedules that take it <= GPUs of the
 * type, for each slot: sum of power x <= cap,
 *
 * every price vector pi >= 0 per (type, slot), and rho >= 0 per slot of the cap, proves
 *
 *   optimum >= sum over jobs of min(reject, min over schedules of (cost + sum of gpus pi + power
 * rho))
 *              - sum of GPUs pi - sum of cap rho
 *
 * (weak duality: the schedules of an optimum pay in prices at most the price of all resources). The
 * integer problem costs no less. For mandatory jobs reject is infinite and the value bounds energy
 * from below; for welfare (slots.h) its negative bounds welfare from above: sum max(0, max (b - sum
 * gpus pi)) + sum GPUs pi.
 *
 * The value returned is proven in floating point too. Prices are first rounded down to whole
 * multiples of one quantum, a power of two at most 2^-59 of the highest possible cost and prices of
 * a schedule: the results are valid prices, too. Costs are rounded down to quanta, which only
 * lowers the value; all that follows is exact in integers, and the result is rounded down. So a
 * solver's duals may have any error. Negative or infinite prices count as 0.
 *
 * Cost: prefix sums of prices, then each start of each operating point is examined once. The search
 * leaves an operating point as soon as no later start can be better (prices are not negative).
 * O(types * slots
 * + sum of starts).
 *
 * Pure. Threads: any for const objects. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_BOUND_DUAL_BOUND_H
#define LULL_CLUSTER_CORE_BOUND_DUAL_BOUND_H

#include "cluster/core/model/slots.h"

/* Prices, J. */
struct lull_dual_prices {
    const double *gpu_j; /* [type * slots + slot] of a GPU for a slot */
    const double *cap_j; /* [slot] of a watt for a slot; NULL: all 0 */
};

/*
 * Computes the bound, J, of a checked problem (lull_slot_problem_check). choices_out may be NULL;
 * otherwise it has job_count elements and receives the best schedule of each job at these prices.
 * Of equal ones the first operating point and the earliest start
 * are used. A job has no schedule if rejecting it costs no more. Errors: -ENOMEM.
 */
int lull_dual_bound(const struct lull_slot_problem *problem, const struct lull_dual_prices *prices,
                    double *bound_j_out, struct lull_slot_choice *choices_out);

#endif
