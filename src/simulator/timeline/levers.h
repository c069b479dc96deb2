/*
 * Possible savings on a recorded job of operations, lever by lever, each at no slowdown and at the
 * tolerance:
 *
 * gaps: a low clock while a rank computes nothing within its step, switched with perfect foresight
 * by a driver that needs one latency in each gap. steady: one clock of all ranks for their forwards
 * and backwards. rank: a clock of its own for each rank, the same in all steps, so that ranks that
 * wait fill their slack; and gaps on top of it. operation: a clock for each forward and backward:
 * the exact frontier of each step, rounded to real clocks, with the bound that proves how much is
 * left.
 *
 * Assumed: operations other than forwards and backwards keep the highest clock and take as long as
 * recorded; a rank that waits between its operations draws its waiting power at the highest clock
 * (operation) or at its own (steady, rank); changing clocks costs nothing but the latency of gaps.
 * Not proven: one clock per rank is found greedily, most joules per nanosecond first.
 *
 * Deterministic. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_SIMULATOR_TIMELINE_LEVERS_H
#define LULL_SIMULATOR_TIMELINE_LEVERS_H

#include "simulator/timeline/parts.h"

/* One clock of the GPUs. */
struct lull_timeline_point {
    double mhz;
    double speed_ratio; /* of computing, 1 at the highest clock */
    double compute_w;
    double wait_w;
};

struct lull_timeline_power {
    const struct lull_timeline_point *points; /* the highest clock first */
    uint32_t point_count;                     /* >= 1 */
    double low_w;                             /* when a gap is lowered */
};

enum lull_timeline_lever_kind {
    LULL_LEVER_GAPS,
    LULL_LEVER_STEADY,
    LULL_LEVER_RANK,
    LULL_LEVER_RANK_GAPS,
    LULL_LEVER_OPERATION,
};

struct lull_timeline_lever {
    enum lull_timeline_lever_kind kind;
    double latency_ms;      /* of gaps; else 0 */
    double tolerance_ratio; /* permitted slowdown */
    double saving_ratio;
    double slowdown_ratio;
};

enum { LULL_TIMELINE_LATENCIES = 5, LULL_TIMELINE_LEVERS = LULL_TIMELINE_LATENCIES + 8 };

struct lull_timeline_question {
    const struct lull_timeline_job *job;
    struct lull_timeline_power power;
    double driver_ms;       /* the latency of the GPU's own driver */
    double tolerance_ratio; /* >= 0 */
    bool only_gaps;         /* clocks of ranks and operations are not searched */
};

struct lull_timeline_answer {
    struct lull_timeline_lever levers[LULL_TIMELINE_LEVERS];
    uint32_t lever_count;
    double replay_ratio;       /* the time of the replay over the recorded one; near 1 if the
                                * dependencies are modelled correctly */
    double compute_ratio;      /* share of the recorded time in which ranks compute */
    double frontier_gap_ratio; /* distance of the more expensive plan of operations from its bound;
                                * NaN: there is none */
    double driver_ms;
};

/* Answers. Clocks of operations are missing where a step has more than 100 s ahead of, in or behind
 * an operation. Errors: -ENOMEM. */
int lull_timeline_ask(const struct lull_timeline_question *question,
                      struct lull_timeline_answer *answer_out, struct lull_error *err);

/* ---- within the levers ---- */

/*
 * Clocks of ranks: point_out gets an index into the points for each rank, and all steps together
 * take at most 1 + tolerance_ratio of the recorded. Every rank begins at one point, which must be
 * within the tolerance. Errors: -ENOMEM.
 */
int lull_timeline_choose_ranks(const struct lull_timeline_parts *parts,
                               const struct lull_timeline_power *power, double tolerance_ratio,
                               uint32_t begin, uint32_t *point_out);

struct lull_timeline_plan_sum {
    double energy_j;
    double bound_j;
    double time_ns; /* of all steps */
};

/* Plans the clocks of operations for the recorded time of each step, and for one that is longer by
 * the tolerance. Errors: -EINVAL more than 100 s, as above; -ENOMEM. */
int lull_timeline_plan(const struct lull_timeline_parts *parts,
                       const struct lull_timeline_power *power, double tolerance_ratio,
                       struct lull_timeline_plan_sum *exact_out,
                       struct lull_timeline_plan_sum *slower_out, struct lull_error *err);

#endif
