/*
 * Declarations shared by the files of rounding (rounding.c, state.c, reclaim.c, local_search.c,
 * cut.c, beam*.c): the problem as they work on it.
 *
 * Operations are numbered by their place in the topological order, so that every pass over the
 * graph walks through memory. A *ladder* holds the operating points that a planner may choose for
 * an operation, fastest first, cheaper step by step; a plan is a step for every operation.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_ROUNDING_STATE_H
#define LULL_CORE_PIPELINE_ROUNDING_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"
#include "core/pipeline/rounding/rounding.h"

struct lull_rounding_ladder_step {
    int64_t time_ns;
    int64_t cost; /* effective energy in units of the rounding (see below) */
    uint32_t point;
};

struct lull_rounding_ladder {
    struct lull_rounding_ladder_step *steps;
    uint32_t count;
    uint32_t first; /* the place of its first step among the steps of all ladders */
    uint32_t class_index;
    double blocking_w;
    double span_nj; /* cost of its first step less that of its last */
};

/* The widths that each step of a ladder gives rise to: the distances to REACH steps on either side.
 * Commit 2e0c524 measured it. */
enum { REACH = 2, WIDTHS_OF_A_STEP = 2 * REACH };

struct lull_rounding_width {
    int64_t ns;
    uint32_t users; /* number of operations that would exactly reach another step by it */
};

struct lull_rounding_link {
    uint32_t op; /* the other end */
    int64_t latency_ns;
};

/*
 * A minimum cut (cut.c). Nodes: the start of operation i is 2 i, its end 2 i + 1. Arcs: 2 i from
 * begin to end of operation i, then one for each edge in the order of `out`, from the end of one
 * operation to the start of the other; arc a and a ^ 1 are the two directions of one.
 */
struct lull_rounding_cut {
    uint32_t node_count;
    uint32_t arc_count;
    uint32_t source_count;
    uint32_t *first_arc; /* node_count + 1: arcs that leave a node */
    uint32_t *arcs;
    uint32_t *head;  /* node that an arc leads to */
    int64_t *room;   /* remaining capacity of an arc */
    int64_t *excess; /* > 0: what moving the node gains, < 0: what it costs */
    uint32_t *level; /* after solving: UINT32_MAX unless the node moves */
    uint32_t *current;
    uint32_t *queue;
    uint32_t *path;
};

struct lull_pipeline_rounding {
    const struct lull_pipeline_problem *problem;
    uint32_t count;            /* operations */
    struct lull_memory memory; /* of all arrays, the cut's included */
    const uint32_t *place;     /* operation of the graph at each place */

    struct lull_rounding_ladder *ladders;
    uint32_t ladder_count;
    struct lull_rounding_ladder_step *steps; /* of all ladders */
    uint32_t step_count;
    uint32_t *ladder_of; /* of each operation */

    uint32_t *first_in; /* count + 1 */
    struct lull_rounding_link *in;
    uint32_t *first_out;
    struct lull_rounding_link *out;

    /* Memory to work in, one of each per operation. */
    int64_t *end_ns;          /* earliest */
    int64_t *latest_begin_ns; /* for the present deadline */
    int64_t *duration_ns;
    uint32_t *step;
    uint32_t *trial;
    uint32_t *shorter;
    uint32_t *point; /* of the graph's operations */
    struct lull_rounding_cut cut;
    int64_t *gain;
    double *op_flow; /* the last cut's flow, in costs per nanosecond */
    double *edge_flow;
    struct lull_rounding_width *widths; /* the widths of moves (local_search.c) */
    uint32_t *users;                    /* number of operations at each step of all ladders */
};

/* Costs are scaled so that all operations' ladders together span less than this; a move that must
 * (or must not) happen weighs twice as much. */
#define COST_LIMIT (INT64_C(1) << 36)

/* Prepares for moves; every search calls it first. Their memory is allocated by the first call,
 * since frontiers never need it. Error: -ENOMEM. */
int lull_round_prepare_moves(struct lull_pipeline_rounding *rounding);

/* cut.c. create lays out the cut of rounding->cut. Error: -ENOMEM. Before the caller calls solve,
 * it sets room and excess; solve returns whether anything is worth moving. */
int lull_cut_create(struct lull_pipeline_rounding *rounding);
bool lull_cut_solve(struct lull_rounding_cut *cut);

/* rounding.c. Translate between steps and operating points of the graph's operations. */
void lull_round_to_points(const struct lull_pipeline_rounding *rounding, const uint32_t *step,
                          uint32_t *point_out);
void lull_round_from_points(const struct lull_pipeline_rounding *rounding, const uint32_t *point,
                            uint32_t *step_out);

/* reclaim.c. The slowest step that takes at most time_ns, or UINT32_MAX if none does. */
uint32_t lull_ladder_fit(const struct lull_rounding_ladder *ladder, int64_t time_ns);

/* longest and earliest find the earliest ends, of durations or of a plan, in end_ns, and return the
 * makespan. latest finds the latest begins in latest_begin_ns, and returns whether none is below 0.
 * cost adds up the plan's cost in units of the rounding. */
int64_t lull_round_longest(struct lull_pipeline_rounding *rounding, const int64_t *duration_ns);
int64_t lull_round_earliest(struct lull_pipeline_rounding *rounding, const uint32_t *step);
bool lull_round_latest(struct lull_pipeline_rounding *rounding, const uint32_t *step,
                       int64_t deadline_ns);
int64_t lull_round_cost(const struct lull_pipeline_rounding *rounding, const uint32_t *step);

/* Finds steps that fit relaxed durations and pass their unused time on. Returns whether the
 * deadline holds, which it does if it holds for the relaxed durations. Latest begins are then of
 * this plan. step_inout: before, any plan; the search is faster where it is like the plan that is
 * found. */
bool lull_round_down(struct lull_pipeline_rounding *rounding, const int64_t *relaxed_ns,
                     int64_t deadline_ns, uint32_t *step_inout);

/* Spends slack in one pass from the first operation on, where a nanosecond of it saves at least
 * `least`. Latest begins must be those of this plan. */
void lull_round_sweep(struct lull_pipeline_rounding *rounding, double least, uint32_t *step);

/* Spends slack until nothing fits, first where a second of it saves most. levels: how finely it
 * distinguishes larger savings from smaller ones. */
void lull_round_reclaim(struct lull_pipeline_rounding *rounding, int64_t deadline_ns,
                        unsigned levels, uint32_t *step);

/* local_search.c. shorten makes a plan hold the deadline, at little cost; it returns false if it
 * finds no way. moves makes cheaper plans by moves until none helps or cuts_limit cuts are made; it
 * returns how many moves it made. */
bool lull_round_shorten(struct lull_pipeline_rounding *rounding, int64_t deadline_ns,
                        uint32_t *step);
uint64_t lull_round_moves(struct lull_pipeline_rounding *rounding, int64_t deadline_ns,
                          uint64_t cuts_limit, uint32_t *step);

static inline const struct lull_rounding_ladder *
ladder_at(const struct lull_pipeline_rounding *rounding, uint32_t op)
{
    return &rounding->ladders[rounding->ladder_of[op]];
}

static inline const struct lull_rounding_ladder_step *
step_at(const struct lull_pipeline_rounding *rounding, uint32_t op, uint32_t step)
{
    return &ladder_at(rounding, op)->steps[step];
}
#endif
