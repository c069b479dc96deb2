/*
 * Replanning finds another plan for a running pipeline in milliseconds, because devices have become
 * slower or because there is more time. The slow part of planning (the frontier) is done once,
 * beforehand.
 *
 * The operations of a slow device are taken to last longer by one factor at every clock, and to
 * draw the same power. If the device is slow because its clock is capped, operations at lower
 * clocks are faster than that, never slower.
 *
 * With slow devices a frontier is computed again, which takes some milliseconds for hundreds of
 * operations; without them the one that exists is moved along.
 *
 * Pure; create/destroy; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_FOLLOW_REPLAN_H
#define LULL_CORE_PIPELINE_FOLLOW_REPLAN_H

#include <stdint.h>

#include "core/pipeline/model/plan.h"
#include "core/pipeline/switching/switching.h"

struct lull_replan;

/* Borrows the problem and `point` (the plan that is executed, op_count entries) until destroy.
 * Errors: -EINVAL a blocking power that is negative or no number; -ENOMEM. O(frontier). */
int lull_replan_create(const struct lull_pipeline_problem *problem, const uint32_t *point,
                       struct lull_replan **replan_out, struct lull_error *err);
void lull_replan_destroy(struct lull_replan *replan);

struct lull_replan_outcome {
    int64_t deadline_ns; /* that the new plan keeps: longer than these devices take at the highest
                          * clocks by as much as the old plan is longer than the profile says of
                          * them, plus extra_ns */
    double energy_j;     /* of an iteration of that time by the new plan, switching included */
    double kept_j;       /* the same by the old plan; NAN: it takes longer than the deadline */
};

/*
 * factor: how much slower each device is, >= 1; more than 100 counts as 100. extra_ns >= 0. Returns
 * 1 and the plan. Returns 0 and leaves point_out unchanged if the old plan is as good. Errors:
 * -ENOMEM.
 */
int lull_replan_make(struct lull_replan *replan, const double *factor, int64_t extra_ns,
                     const struct lull_pipeline_switching *switching, uint32_t *point_out,
                     struct lull_replan_outcome *outcome_out);

#endif
