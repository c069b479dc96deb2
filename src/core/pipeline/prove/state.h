/*
 * Private to the proof (prove.c, options.c, network.c): the options that are left, and a flow that
 * is optimal for them.
 *
 * Nodes: 2 i is the begin of operation i of the graph, 2 i + 1 its end, then the source and the
 * sink. Arcs: the operations, the graph's edges, one from the source to every operation that waits
 * for none, one to the sink from every one that none waits for, and last the *return*, one from the
 * sink back to the source: what comes out goes in again. Its length is that of the iteration,
 * negative: the deadline where more flows than the devices' blocking power, any shorter where it is
 * just that.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_PROVE_STATE_H
#define LULL_CORE_PIPELINE_PROVE_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/pipeline/certificate.h"
#include "core/pipeline/prove/prove.h"

/* Lengths of an operation as flow grows, the slowest first: corners of the hull of what is left. */
struct stairs {
    uint32_t steps;
    int64_t *length_ns; /* steps + 1, falling */
    int64_t *threshold; /* steps, rising: from this much flow on the next length is worth it */
};

/* The options of the problem, a class for each operation, so that each can lose some. */
struct choices {
    const struct lull_pipeline_problem *asked;
    struct lull_pipeline_problem left; /* over the two below */
    struct lull_pipeline_profile profile;
    struct lull_pipeline_graph graph;     /* the asked one's, but for the classes */
    struct lull_pipeline_option *options; /* memory of all classes: first[i] on */
    uint32_t *name;                       /* of each in memory, its index in the asked class */
    uint32_t *first;                      /* op_count + 1 */
    struct lull_pipeline_option *full;    /* all options worth having, first[i] on */
    uint32_t *full_name;
    bool *gone; /* of each in full */
    uint32_t *full_count;

    uint32_t *trail; /* what has been left out, in order: indices into full */
    uint32_t trail_count;
    uint32_t *op_of; /* of each in full */
};

struct arc {
    uint32_t from;
    uint32_t to;
    int64_t latency_ns; /* of an operation: 0, its stairs say */
};

struct key {
    int64_t distance;
    uint32_t node;
};

struct circulation {
    uint32_t op_count;
    uint32_t node_count;
    uint32_t arc_count;
    struct arc *arcs;
    uint32_t *first; /* node_count + 1: arcs that touch a node are touching[first[n]..[n + 1]]:
                      * those that flow may be pushed over */
    uint32_t *touching;
    struct stairs *stairs; /* of each operation, then of the return */
    int64_t *lengths;      /* their memory */
    int64_t *thresholds;
    double unit_w;

    int64_t *flow;      /* of every arc */
    int64_t *potential; /* of every node, ns */

    int64_t *distance; /* of the last search; INT64_MAX: not reached */
    uint32_t *way;     /* the arc that led to a node */
    bool *settled;
    uint32_t *reached; /* nodes */
    uint32_t reached_count;
    struct key *heap;
    uint32_t heap_count;
};

/* options.c. -ENOMEM. */
int lull_choices_init(struct choices *choices, const struct lull_pipeline_problem *problem);
void lull_choices_fini(struct choices *choices);

/* Leaves out an option of an operation, which has others; to be followed by lull_choices_pack. */
void lull_choices_drop(struct choices *choices, uint32_t full);
void lull_choices_pack(struct choices *choices, uint32_t op);

/* network.c. Takes a flow of the problem left, and the times of its relaxed optimum, whose
 * iteration takes time_ns; to be followed by a repair of the return, if that is less than the
 * deadline. -ENOMEM. */
int lull_circulation_init(struct circulation *net, const struct choices *choices,
                          int64_t deadline_ns, int64_t time_ns, const struct lull_certificate *flow,
                          const int64_t *begin_ns, const int64_t *duration_ns);
/* From now on flow is pushed only over arcs that join two nodes inside (node_count of them), and
 * never over the return; NULL: over all arcs. */
void lull_circulation_confine(struct circulation *net, const bool *is_inside);
void lull_circulation_fini(struct circulation *net);

/* Brings an operation's stairs up to date with what is left of its options. */
void lull_circulation_step(struct circulation *net, const struct choices *choices, uint32_t op);

/* repair.c. Makes flow and potentials optimal again after the stairs of an operation (or the
 * return) have changed; for all other arcs they are. False: there is no such flow, the deadline
 * cannot be held (or it took too long); the flow is conserved all the same. */
bool lull_circulation_repair(struct circulation *net, uint32_t arc);

static inline uint32_t return_arc(const struct circulation *net)
{
    return net->arc_count - 1;
}

#endif
