/*
 * Certificate: a flow through the task graph that proves how little energy any plan of an iteration
 * time T can take, whatever found it. The checker shares nothing with the solver (frontier.h): it
 * asks that the flow is conserved and not negative, and adds up
 *
 *   E(T) >= sum over ops of min over all operating points k of (e'_k + f_op * t_k)
 *           + sum over edges of f_edge * latency - v * T + sum over devices of blocking_w * T
 *
 * with e' = energy - blocking power * time. True of every conserved flow f of value v, because it
 * is a sum of paths from an operation that waits for none to one that none waits for, and no path
 * is longer than T (weak duality; reference: Kelley 1961, Fulkerson 1961).
 *
 * Pure. Threads: any for const objects. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_FRONTIER_CERTIFICATE_H
#define LULL_CORE_PIPELINE_FRONTIER_CERTIFICATE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "core/pipeline/model/plan.h"

/* Integers, so that conservation is exact. What flows in and out at an operation's ends beyond its
 * edges comes from the source and goes to the sink, only where it has no edges on that side. */
struct lull_certificate {
    double unit_w;      /* watts per unit of flow, > 0 */
    int64_t value;      /* flow from the source to the sink */
    int64_t *op_flow;   /* graph->op_count, >= 0 */
    int64_t *edge_flow; /* graph->edge_count, >= 0, in the order of the finished graph's edges */
};

/* Allocates a flow for a graph, all 0, which proves that no plan is below the cheapest operating
 * points. Error: -ENOMEM. */
int lull_certificate_init(struct lull_certificate *certificate,
                          const struct lull_pipeline_graph *graph);
void lull_certificate_fini(struct lull_certificate *certificate);

/* Checks the flow. Error: -EINVAL, the text says which operation breaks which rule. O(n). */
int lull_certificate_check(const struct lull_certificate *certificate,
                           const struct lull_pipeline_graph *graph, struct lull_error *err);

/*
 * The energy in joules below which no plan of an iteration time of time_ns lies, from a flow that
 * has been checked; the rounding of the sum is on the safe side. The bound is tight at the time
 * that the flow was found for, and true at any other. O(n * operating points).
 */
double lull_certificate_bound(const struct lull_certificate *certificate,
                              const struct lull_pipeline_problem *problem, int64_t time_ns);

#endif
