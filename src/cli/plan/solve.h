/*
 * Plans for a task: the frontier, or the plan for one deadline. Every plan that leaves here has
 * been evaluated with the profile's own numbers, and stands beside the bound that is proven for its
 * time.
 *
 * The solver prints its progress on standard error if that is a terminal and it takes long.
 * Threads: any, one per object. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAN_SOLVE_H
#define LULL_CLI_PLAN_SOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cli/plan/orders.h"
#include "cli/plan/task.h"
#include "cli/plan/waiting.h"
#include "core/pipeline/frontier/certificate.h"
#include "core/pipeline/frontier/frontier.h"
#include "core/pipeline/switching/switching.h"

struct lull_plan_options {
    int64_t deadline_ns;  /* 0: the whole frontier */
    int64_t straggler_ns; /* the iteration takes at least this long; 0: there is no straggler */
    struct lull_pipeline_switching switching; /* all 0: switching takes no time */
    struct lull_plan_waiting_points waiting;  /* of one plan; none: gaps draw blocking power */
    const struct lull_plan_orders *orders;    /* the orders that were compared, or null */
};

struct lull_plan_point {
    int64_t time_ns; /* the makespan in the worst case of switching */
    double energy_j; /* of an iteration that takes this long, or as long as the straggler */
    double bound_j;  /* no plan of this makespan needs less */
};

/* One plan, with all that proves it. */
struct lull_plan_single {
    struct lull_plan_point point;
    int64_t deadline_ns; /* the deadline that it holds */
    int64_t period_ns;   /* length of the iteration */
    uint32_t *option;
    struct lull_certificate certificate;
    struct lull_plan_waits waits; /* their saving is not in point.energy_j */
};

struct lull_plan_result {
    struct lull_plan_point *points; /* times growing, energies falling; one for a single plan */
    size_t point_count;
    struct lull_plan_single *single; /* null for the whole frontier */
};

/*
 * Solves a task. Errors: -ERANGE the deadline is shorter than any plan (the text says the
 * shortest), or the plan is infeasible with this switching; -ENOMEM.
 */
int lull_plan_solve(const struct lull_plan_task *task, const struct lull_plan_options *options,
                    struct lull_plan_result *result_out, struct lull_error *err);
void lull_plan_result_fini(struct lull_plan_result *result);

/* The plan of all at the highest clock, in an iteration that takes at least as long as the
 * straggler. It has no bound. */
struct lull_plan_point lull_plan_all_max(const struct lull_plan_task *task,
                                         const struct lull_plan_options *options);

#endif
