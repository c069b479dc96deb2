/*
 * Periodic extension: the frontier of a pipeline with many micro-batches from two with few. A
 * pipeline's schedule repeats itself in the middle, and so does the optimal flow: at equal slope
 * (watts), iteration time and effective energy are affine in the number of micro-batches as soon as
 * there are about four per stage. Nothing of that is assumed to be true of a result: the plan and
 * the flow that are expanded to the full graph are checked there, and the bound that is returned is
 * what the full graph's certificate proves.
 *
 * The three graphs come from one generator with M0, M0 + period and M micro-batches, M - M0 a
 * multiple of the period; operations correspond by device, place in the device's order, and
 * microbatch. Pure. Threads: one per object. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_PERIODIC_H
#define LULL_CORE_PIPELINE_PERIODIC_H

#include "core/pipeline/frontier.h"

struct lull_periodic_problem {
    struct lull_pipeline_problem small;  /* M0 micro-batches */
    struct lull_pipeline_problem larger; /* M0 + period */
    struct lull_pipeline_problem full;   /* M */
};

struct lull_periodic;

/*
 * NULL on failure: -EINVAL the graphs do not continue each other (then solve the full one),
 * -ENOMEM.
 */
struct lull_periodic *lull_periodic_create(const struct lull_periodic_problem *problem,
                                           struct lull_error *err);
void lull_periodic_destroy(struct lull_periodic *periodic);

/*
 * All points of the full frontier, the slow end first, extrapolated at equal slope; energies are
 * estimates of the bound, not yet proven. Returns 0, -ENOMEM.
 */
int lull_periodic_points(struct lull_periodic *periodic, const struct lull_frontier_point **points,
                         size_t *count_out);

/*
 * Relaxed durations of the full graph's operations whose makespan is at most time_ns, and a checked
 * certificate of the full graph (initialised with it). Returns 0 and the proven bound
 * in joules; the gap between what the durations cost in the relaxation and the bound is reported.
 * Errors: -ERANGE shorter than what the expansion reaches, -ENOMEM.
 */
int lull_periodic_plan(struct lull_periodic *periodic, int64_t time_ns, int64_t *duration_out,
                       struct lull_certificate *certificate, double *bound_j_out,
                       double *relaxed_j_out);

#endif
