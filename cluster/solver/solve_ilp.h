/*
 * Solves the integer program by CBC: finds a schedule, and bounds its distance from the optimum.
 * The schedule is checked, and its cost is computed again (cluster/core/model/slots.h). The
 * solver's own bound rests on its arithmetic and tolerances; it is returned lowered by a margin,
 * and is not proven like that of the linear program. One thread.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_SOLVER_SOLVE_ILP_H
#define LULL_CLUSTER_SOLVER_SOLVE_ILP_H

#include "cluster/solver/time_indexed.h"

/* The part of its size by which the solver's bound is lowered: its tolerances are 1e-7 and finer.
 */
#define LULL_ILP_MARGIN_RATIO 1e-6

struct lull_ilp_options {
    double gap_j; /* >= 0: a schedule is good enough if it costs this much more than the best */
    double time_limit_s; /* > 0 */
};

struct lull_ilp_result {
    bool is_infeasible; /* the solver reports that there is no schedule */
    bool is_optimal;    /* it is within gap_j; else the solver stopped at the time limit */
    bool has_schedule;
    double schedule_j;
    double bound_j; /* the solver's own bound, lowered by what its arithmetic may be off */
    struct lull_slot_choice *choices;
};

/* Errors: LULL_E_FORMAT the solver gave up, or its schedule does not fit; -ENOMEM. */
int lull_solve_ilp(const struct lull_time_indexed *program, const struct lull_ilp_options *options,
                   struct lull_ilp_result *result_out, struct lull_error *err);
void lull_ilp_result_fini(struct lull_ilp_result *result);

#endif
