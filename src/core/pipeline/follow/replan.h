/*
 * Replan: another plan of a pipeline that runs, in milliseconds: for devices that have become
 * slower, or for more time. What is slow in planning (the frontier) is done beforehand, once.
 *
 * A slow device's operations take a factor longer at every clock, and draw the same power. Where
 * its clock was capped in truth, operations at lower clocks are faster than that: never slower.
 *
 * With slow devices a frontier is computed anew, some milliseconds for hundreds of operations;
 * without, the one that exists is moved along.
 *
 * Pure; create/destroy; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_FOLLOW_REPLAN_H
#define LULL_CORE_PIPELINE_FOLLOW_REPLAN_H

#include <stdint.h>

#include "core/pipeline/model/plan.h"
#include "core/pipeline/switching/switching.h"

struct lull_replan;

/* The problem, and operating point (the plan that is carried out, op_count), must outlive it.
 * Errors: -EINVAL a blocking power that is negative or no number; -ENOMEM. O(frontier). */
int lull_replan_create(const struct lull_pipeline_problem *problem, const uint32_t *point,
                       struct lull_replan **replan_out, struct lull_error *err);
void lull_replan_destroy(struct lull_replan *replan);

struct lull_replan_outcome {
    int64_t deadline_ns; /* what the new plan holds: as much over the highest clocks of these
                          * devices as the plan is over those of the profile, and extra_ns */
    double energy_j;     /* of an iteration of that time, by the new plan, switching included */
    double kept_j;       /* by the old one; NAN: it takes longer than the deadline */
};

/*
 * factor: of every device, >= 1 (at most 100 counts). extra_ns: >= 0. Returns 1 and the plan, 0
 * where the old one is as good (point_out is left alone). Errors: -ENOMEM.
 */
int lull_replan_make(struct lull_replan *replan, const double *factor, int64_t extra_ns,
                     const struct lull_pipeline_switching *switching, uint32_t *point_out,
                     struct lull_replan_outcome *outcome_out);

#endif
