/*
 * Declarations shared by the files of the frontier: the flow network of a task graph (frontier.h
 * says what it is for).
 *
 * Nodes are the begin and the end of every operation, in topological order of the operations
 * ("places"). Lengths and potentials are nanoseconds; a potential is counted back from the
 * sink, where it is 0, so that -potential of the source is the iteration time. The invariant
 * between any two moves: no arc that can carry more (or less) flow has a negative slack, that is,
 * the potentials are longest distances.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_FRONTIER_STATE_H
#define LULL_CORE_PIPELINE_FRONTIER_STATE_H

#include <stdbool.h>

#include "base/array.h"
#include "core/pipeline/frontier/frontier.h"

/* Corners of the convex hull of a class at a blocking power, the slowest first. */
struct lull_frontier_curve {
    uint32_t class_index;
    uint32_t steps; /* corners - 1 */
    double blocking_w;
    double slow_nj;     /* effective energy of the slowest corner */
    double steepest_w;  /* slope of the fastest segment, 0 without one */
    int64_t *length_ns; /* steps + 1, falling */
    int64_t *threshold; /* steps, rising: with this much flow the next corner is worth it */
};

struct lull_frontier_curves {
    struct lull_frontier_curve *all;
    size_t count;
    uint32_t *of_op;           /* by place */
    double unit_w;             /* watts per unit of flow */
    struct lull_memory memory; /* of the curves' corners and of of_op */
};

/* An operation, with the length at which more can flow through it, and the one at which less can.
 */
struct lull_frontier_flow_op {
    int64_t more_ns;
    int64_t less_ns; /* only valid while flow > 0 */
    int64_t flow;
    uint32_t level; /* number of thresholds that its flow has reached */
    uint32_t curve;
    uint32_t first_out;
    uint32_t first_in;
    uint32_t carriers; /* number of edges into it that have flow */
};

/* Nodes: 2 * place is an operation's begin, 2 * place + 1 its end; their numbers lie apart from the
 * operations', close together, since the search looks at little else. */
enum { FLOW_UNSETTLED = UINT32_MAX };

struct lull_frontier_flow_edge {
    int64_t flow;
    int64_t latency_ns;
    uint32_t from; /* places */
    uint32_t to;
};

struct lull_frontier_flow_key {
    int64_t distance;
    uint32_t node;
};

struct lull_frontier_network {
    const struct lull_pipeline_graph *graph;
    struct lull_frontier_curves curves;
    struct lull_frontier_flow_op *ops; /* op_count + 1: the last closes first_out and first_in */
    struct lull_frontier_flow_edge *edges;
    uint32_t *in_edges;
    uint32_t
        *carried_from; /* from first_in on: the places that an operation's carriers come from */
    uint32_t *sources; /* the places that wait for none */
    uint32_t *sinks;   /* the places that none waits for */
    uint32_t source_count;
    uint32_t sink_count;
    uint32_t op_count;
    int64_t time_ns; /* the longest path */
    int64_t value;   /* of the flow */

    struct lull_memory memory; /* of all arrays but the heap */
    int64_t *potential;        /* by node */

    /* The state of the search, by node where nothing else is said. */
    int64_t *distance;
    uint32_t *rank;   /* the order in which the search settled the nodes */
    uint32_t *cursor; /* the first of the arcs into the node that has not been tried in vain */
    struct lull_frontier_flow_key *heap;
    size_t heap_count;
    size_t heap_room; /* kept, because the heap shrinks and grows in every search */
    uint32_t *way;    /* for the blocking flow */
    uint32_t *settled;
    uint32_t settled_count;
    int64_t shift_ns; /* the distance of the sink: by how much the time can fall */
};

/* A state of the network that can be returned to. */
struct lull_frontier_kept {
    int64_t time_ns;
    int64_t value;
    double effective_nj;
    int64_t *numbers; /* every operation's potentials and flow, and every edge's flow */
};

/* frontier.c: the network where a frontier stands. */
const struct lull_frontier_network *lull_frontier_network(const struct lull_frontier *frontier);

/* curve.c. Errors: -ENOMEM; -EINVAL a blocking power is negative or no number. */
int lull_curves_init(struct lull_frontier_curves *curves,
                     const struct lull_pipeline_problem *problem, struct lull_error *err);
void lull_curves_fini(struct lull_frontier_curves *curves);

/* The effective energy of the relaxed optimum for a length, which counts as no shorter than the
 * fastest corner's and no longer than the slowest one's. */
double lull_curve_energy_nj(const struct lull_frontier_curve *curve, double unit_w,
                            int64_t length_ns);

/* flow.c. The network starts without flow, every operation at its slowest corner. Errors: those of
 * lull_curves_init. */
int lull_network_init(struct lull_frontier_network *network,
                      const struct lull_pipeline_problem *problem, struct lull_error *err);
void lull_network_fini(struct lull_frontier_network *network);
void lull_network_reset(struct lull_frontier_network *network);

/* keep copies the state; return goes back to it. The caller sets kept->effective_nj. Error:
 * -ENOMEM. */
int lull_network_keep(const struct lull_frontier_network *network, struct lull_frontier_kept *kept);
void lull_network_return(struct lull_frontier_network *network,
                         const struct lull_frontier_kept *kept);

/* Lists the carriers of all operations, after the flow of many edges has changed. */
void lull_network_list_carriers(struct lull_frontier_network *network);

/* Updates an operation's level and lengths after its flow has changed. */
void lull_network_update(const struct lull_frontier_curve *curve, struct lull_frontier_flow_op *op);

/* Changes an edge's flow. */
void lull_network_carry(struct lull_frontier_network *network, uint32_t edge, int64_t change);

/* search.c. Finds the shortest way to the sink over slacks: shift_ns, and the nodes that it settles
 * on the way. Error: -ENOMEM. */
int lull_network_search(struct lull_frontier_network *network);

/* Shortens the iteration by `by_ns`, at most by what the search found. */
void lull_network_shift(struct lull_frontier_network *network, int64_t by_ns);

/*
 * push.c. Pushes as much flow as goes over the ways without slack that the search found, after a
 * shift by all of shift_ns. Returns false if any amount would flow: the iteration cannot become
 * shorter.
 */
bool lull_network_push(struct lull_frontier_network *network);

/*
 * jump.c. Goes from anywhere to the state that is optimal at time_ns or, where less than
 * min_value flows there, at the shorter time where that much flows. The slow end takes no less
 * than time_ns, the fastest lengths no longer. Errors: -ENOMEM; -EOVERFLOW the times are too long
 * to be scaled. The network then stands at the slow end.
 */
int lull_network_jump(struct lull_frontier_network *network, int64_t time_ns, int64_t min_value);

#endif
