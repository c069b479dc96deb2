/*
 * Frontier: the least energy of a pipeline iteration for every iteration time, exactly, where an
 * operation may mix its operating points (the convex relaxation): a lower bound for all plans with
 * real operating points, and where to start looking for a good one.
 *
 * The dual of a linear time-cost trade-off (Kelley 1961; Fulkerson 1961; Phillips and Dessouky
 * 1977) is a parametric min-cost flow: watts flow along the longest paths of the task graph, and an
 * operation's length falls from one corner of its convex hull to the next as more flows through it.
 * Pushing flow along longest paths until one cannot become shorter passes every corner ("point") of
 * the frontier, from the slowest to the fastest. Integers throughout (nanoseconds, and watts in
 * units of the certificate's): every comparison is exact.
 *
 * A frontier object stands at one iteration time: at first at the slow end, where every operation
 * is at its cheapest. It moves to the next point, or to any time; durations and the flow are those
 * of the time where it stands. Moves to times that it has passed before start from the nearest of a
 * few places that it remembers. In large pipelines a move to a much shorter time jumps there
 * (cost scaling) without passing the points before it.
 *
 * An iteration that takes longer than the slow end is the plan of the slow end, and waiting.
 *
 * Memory: 130 bytes per operation and 40 per edge; 24 and 8 of them again for each of up to
 * LULL_FRONTIER_KEPT places; 24 per point. Pure. Threads: one per object; the problem is only read,
 * and outlives the object. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_FRONTIER_FRONTIER_H
#define LULL_CORE_PIPELINE_FRONTIER_FRONTIER_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "core/pipeline/frontier/certificate.h"
#include "core/pipeline/model/plan.h"

enum { LULL_FRONTIER_KEPT = 32 };

struct lull_frontier_point {
    int64_t time_ns;
    double energy_j; /* of an iteration of this time, blocking included: the bound, to 1e-10 */
    double slope_w; /* cost of a shorter time beyond the blocking power of all devices, between this
                     * point and the one before (longer); 0 at the slow end. So the energy falls
                     * towards shorter times while slope_w is below the sum of blocking_w */
};

struct lull_frontier;

/* Returns null on failure: -ENOMEM, and -EINVAL a blocking power is negative or no number. */
struct lull_frontier *lull_frontier_create(const struct lull_pipeline_problem *problem,
                                           struct lull_error *err);
void lull_frontier_destroy(struct lull_frontier *frontier);

/*
 * Moves to the next point towards shorter times; the first call stays at the slow end. Returns 1
 * and the point, 0 when the fastest was the last one (point_out is left unchanged), -ENOMEM.
 *
 *   while (lull_frontier_next(frontier, &point) == 1)
 *       lull_frontier_durations(frontier, duration_ns);
 */
int lull_frontier_next(struct lull_frontier *frontier, struct lull_frontier_point *point_out);

/*
 * Moves to an iteration time, forwards or backwards; to the slow end if it is longer than that.
 * Errors: -ERANGE shorter than any plan (it then stands at the fastest), -ENOMEM.
 */
int lull_frontier_seek(struct lull_frontier *frontier, int64_t time_ns);

/* Moves to the time where an iteration costs least: where slope_w crosses the blocking power of all
 * devices. Error: -ENOMEM. */
int lull_frontier_seek_cheapest(struct lull_frontier *frontier);

/* The same among the times up to max_ns, which some plan holds. Errors: -ERANGE none does,
 * -ENOMEM.
 */
int lull_frontier_seek_cheapest_within(struct lull_frontier *frontier, int64_t max_ns);

/* Returns the frontier's present point: the time, the least energy, and the slope between here and
 * the point before. */
struct lull_frontier_point lull_frontier_here(const struct lull_frontier *frontier);

/* The points passed so far, the slow end first; valid until the next move. */
const struct lull_frontier_point *lull_frontier_points(const struct lull_frontier *frontier,
                                                       size_t *count_out);

/*
 * Writes how long each operation takes in the relaxed optimum here, op_count integers in
 * nanoseconds, each between its fastest operating point and its cheapest. The makespan is never
 * longer than the time here.
 */
void lull_frontier_durations(const struct lull_frontier *frontier, int64_t *duration_out);

/* Writes the flow here, which proves the energy (certificate.h), to a certificate that has been
 * initialised with the problem's graph. */
void lull_frontier_certify(const struct lull_frontier *frontier,
                           struct lull_certificate *certificate);

#endif
