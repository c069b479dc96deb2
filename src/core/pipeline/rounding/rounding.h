/*
 * Rounding: from the relaxed optimum of a pipeline to a plan of real clocks.
 *
 * The relaxation (frontier.h) gives every operation a duration for a deadline. Real operating
 * points are few: each operation takes the slowest operating point that fits into its duration and
 * hands on what is left to the operations after it, and moves in the neighbourhood of the plan win
 * back most of the rest. The discrete problem is NP-hard (De et al. 1997); how far a plan is from
 * the best one is bounded by the relaxation, not by this search. The plan's longest path never
 * exceeds the deadline, the same input always gives the same plan, and the work is bounded.
 *
 * Two efforts: *quick*, a few microseconds for every hundred operations, for each point of a
 * frontier; *thorough*, for the one deadline that a job will run with.
 *
 * Pure. Threads: one per rounding; a problem may be shared. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_ROUNDING_ROUNDING_H
#define LULL_CORE_PIPELINE_ROUNDING_ROUNDING_H

#include <stdint.h>

#include "core/pipeline/model/plan.h"

struct lull_frontier;

/* Data prepared once for a problem, and working memory. */
struct lull_pipeline_rounding;

/* The problem and all that it points at must outlive the rounding. Errors: -ENOMEM. */
int lull_pipeline_rounding_create(const struct lull_pipeline_problem *problem,
                                  struct lull_pipeline_rounding **rounding_out);
void lull_pipeline_rounding_destroy(struct lull_pipeline_rounding *rounding);

/*
 * Quick: makes a plan within deadline_ns from relaxed durations, which may be those of another
 * deadline near by. point_out receives an index into the class's operating points for each
 * operation, and is left unchanged on failure. Error: -ERANGE no plan is that fast (all operations
 * at their fastest operating point take longer). O(operations).
 */
int lull_pipeline_round_quick(struct lull_pipeline_rounding *rounding, const int64_t *relaxed_ns,
                              int64_t deadline_ns, uint32_t *point_out);

/*
 * Makes moves in the neighbourhood of a plan that is within deadline_ns: it stays within and never
 * becomes more expensive. At most moves_limit moves are tried. Returns how many were made. Errors:
 * -ERANGE the plan takes longer than the deadline; -ENOMEM.
 */
int64_t lull_pipeline_round_improve(struct lull_pipeline_rounding *rounding, int64_t deadline_ns,
                                    uint64_t moves_limit, uint32_t *point_inout);

/*
 * Thorough: makes the cheapest plan within deadline_ns that is found from the relaxed optima at
 * this and at neighbouring deadlines, improved by moves. The frontier, of the same problem, is left
 * standing somewhere near. It takes 20 to 500 ms for 512 operations, and stops early where the plan
 * is near the bound. Errors: -ERANGE as above, and those of lull_frontier_seek; -ENOMEM.
 */
int lull_pipeline_round_thorough(struct lull_pipeline_rounding *rounding,
                                 struct lull_frontier *frontier, int64_t deadline_ns,
                                 uint32_t *point_out);

#endif
