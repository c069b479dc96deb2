/*
 * Periodic extension: the frontier of a pipeline with many micro-batches from one with few. A
 * pipeline's schedule repeats itself in the middle, and so does the optimal flow: at equal slope
 * (watts), iteration time and effective energy are affine in the number of micro-batches as soon as
 * there are about four per stage (five, for plans of the fastest times). What a period adds to them
 * is read off the column in the middle. No result relies on that: the plan and the flow that are
 * expanded to the full graph are checked there, and the bound that is returned is what the full
 * graph's certificate proves.
 *
 * The three graphs come from one generator with M0, M0 + period and M micro-batches, M - M0 a
 * multiple of the period; classes and devices are numbered alike. On every device the first half of
 * M0's order opens the full one's, the second half closes it, and what the larger one has more is
 * what repeats between them.
 *
 * Pure. Threads: one per object; the problems are only read, and outlive the object.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_FRONTIER_PERIODIC_H
#define LULL_CORE_PIPELINE_FRONTIER_PERIODIC_H

#include "core/pipeline/frontier/frontier.h"

struct lull_periodic_problem {
    struct lull_pipeline_problem small;  /* of M0 micro-batches */
    struct lull_pipeline_problem larger; /* of M0 + period: its size tells what the period is */
    struct lull_pipeline_problem full;   /* of M micro-batches */
};

struct lull_periodic;

/*
 * Solves all of the small frontier. Returns null on failure: -EINVAL the graphs do not continue
 * each other (the caller then solves the full one), -ENOMEM.
 */
struct lull_periodic *lull_periodic_create(const struct lull_periodic_problem *problem,
                                           struct lull_error *err);
void lull_periodic_destroy(struct lull_periodic *periodic);

/*
 * The points of the full frontier, the slow end first, extrapolated at equal slope. They estimate
 * the bound (exactly where the stages are alike); lull_periodic_plan proves it. They are valid as
 * long as the object.
 */
const struct lull_frontier_point *lull_periodic_points(const struct lull_periodic *periodic,
                                                       size_t *count_out);

struct lull_periodic_plan {
    int64_t time_ns;  /* the makespan of the durations, at most the time asked for */
    double relaxed_j; /* what they cost, operating points mixed, in an iteration of the time asked
                         for */
    double bound_j;   /* what the certificate proves for that time */
};

/*
 * Finds relaxed durations of the full graph's operations (op_count places) whose makespan is at
 * most time_ns, and a checked flow that proves how good they are; the certificate has been
 * initialised with the full graph. Errors: -ERANGE the expansion reaches no time as short, -EINVAL
 * the flow does not continue at this slope (the caller then solves the full graph), -ENOMEM. O(n)
 * besides a solution of the small frontier.
 */
int lull_periodic_plan(struct lull_periodic *periodic, int64_t time_ns, int64_t *duration_out,
                       struct lull_certificate *certificate, struct lull_periodic_plan *plan_out);

#endif
