/*
 * Slack: the time that each rank waits for later ranks, and the number of points by which its GPU
 * may therefore be lowered.
 *
 * A collective ends on all ranks at once, and starts on each rank when that rank arrives. So the
 * rank with the shortest time in it arrived last, and the additional time of the others is waiting.
 * The longest wait of a GPU in an iteration counts: if collectives follow computation, all waits of
 * one iteration show the same lag.
 *
 * A GPU that has waited for a while in each of the last iterations is lowered by as many points as
 * this fills, with what a point costs it learnt from the waits themselves: at first a point is
 * taken to cost as much as if all the iteration were computation. A GPU that comes last is raised
 * by a point, by two if that was not enough, and so on; and one for which a less lowered GPU waits
 * is raised at once, because whatever it had waited for is gone. After each such raise it is not
 * lowered again for a longer time than before.
 *
 * If ranks compute nothing beside their collectives (mixture of experts, tensor parallel), the
 * waits are separate, and all of them together count. Which of the two cases applies shows once the
 * GPU is lowered by a few points. It may be lowered further until both the longest wait and their
 * sum are used up, provided that they continue to shrink as they have done so far. If ranks can run
 * ahead by a layer at most, the longest wait does not become shorter at first, and nothing is
 * extrapolated. A GPU also comes last where less lowered ones wait for it for longer, in all, than
 * it does, in many iterations in a row.
 *
 * Ranks are compared by how long they are in the collective of one kind (operation, size class and
 * number of ranks) with the same number. So ranks of groups of the same kind are compared with each
 * other, too, and those of different stages of a pipeline; but sends and receives are left out.
 *
 * Ranks of other nodes are not seen. Other nodes' reports about them (arrival.h) arrive some
 * iterations later. They are compared with the times of this node's ranks in the collectives of
 * that same iteration, as long as their points have not changed since. Only collectives of more
 * ranks than this node has are compared, in iterations in which all ran at the same common point.
 * Slack from other nodes' reports depends on these reports alone: if a less lowered rank of this
 * node waits for a GPU, both may be waiting for another node. It is taken back at once where all
 * ranks at the common point, wherever they are, have waited for the GPU, and where nothing has been
 * reported for LULL_SLACK_STALE words.
 *
 * Pure; caller's storage; one thread. Times: int64_t ns of one monotonic clock for all GPUs.
 * Source: none; the rule is that of the refinement of sections (controller/refine.c).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SECTION_SLACK_H
#define LULL_CORE_SECTION_SLACK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/section/arrival.h"
#include "core/section/call.h"

enum {
    LULL_SLACK_MAX_GPUS = 64,
    LULL_SLACK_KINDS = 32, /* of collectives; those of more kinds than that are left out */
    LULL_SLACK_OPEN = 8,   /* collectives of one kind that are under way at once */
    LULL_SLACK_WINDOW = 6, /* iterations in which a GPU must have waited */
    LULL_SLACK_KEPT = 8,   /* iterations that wait for other nodes' reports */
    LULL_SLACK_STALE = 8, /* reports of this node without an answer, after which nothing is known */
};

/* One collective, and how long each GPU was in it. */
struct lull_slack_collective {
    uint32_t number;  /* of its kind, from 1; 0: none */
    int64_t ended_ns; /* when the first GPU left it */
    uint64_t seen;    /* bits: GPUs that have left it */
    float length_ms[LULL_SLACK_MAX_GPUS];
};

struct lull_slack_kind {
    uint64_t signature; /* 0: it is free */
    uint32_t ranks;     /* that meet in one of them; 0: unknown */
    uint64_t members;   /* bits: GPUs that have been in one of its collectives */
    uint32_t numbers[LULL_SLACK_MAX_GPUS];
    uint32_t depths[LULL_SLACK_MAX_GPUS];
    int64_t begins_ns[LULL_SLACK_MAX_GPUS];
    struct lull_slack_collective open[LULL_SLACK_OPEN];
};

/* Time of a rank in the collectives of one iteration that it shares with other nodes. */
struct lull_slack_collective_time {
    uint64_t iteration;
    bool counts;    /* the GPU has run at its points for the whole iteration... */
    uint32_t era;   /* ...and these were its points then */
    bool is_common; /* it has run at the common point */
    uint32_t depth; /* of that (struct lull_arrival) */
    uint32_t collectives;
    double total_ms;
    double longest_ms[LULL_SLACK_KINDS];
};

/* Time in the collectives of one iteration of this node's ranks that came last. */
struct lull_slack_last {
    uint64_t iteration;
    uint64_t ended; /* bits: GPUs that have ended it */
    double longest_ms[LULL_SLACK_KINDS];
    double common_ms[LULL_SLACK_KINDS]; /* of those at the common point; INFINITY: none was there */
};

/* Waits of the last iterations in a row, of the longest and of all together. */
struct lull_slack_waits {
    uint32_t count;
    double longest_ms[LULL_SLACK_WINDOW];
    double all_ms[LULL_SLACK_WINDOW];
};

/* The results of a GPU's slack so far. */
struct lull_slack_record {
    uint64_t iterations; /* of its rank */
    uint64_t lowered;    /* ...that it has run below the common point */
    uint32_t most;       /* points below it, at most */
    uint32_t recoveries; /* number of times that it was raised at once */
    uint64_t by_nodes;   /* iterations that it has run lower for ranks of other nodes */
};

struct lull_slack_gpu {
    struct lull_slack_record record;
    uint32_t points;      /* below the common point that the slack pays for */
    uint32_t most;        /* points that it may be lowered by */
    double point_ratio;   /* of its iteration: what a point costs at most */
    uint32_t joined;      /* collectives since the last iteration ended */
    double wait_ms;       /* the longest wait since then... */
    double all_ms;        /* ...and all of them together */
    double waited_for_ms; /* time that less lowered GPUs have waited for it since then... */
    double late_ms;       /* ...in collectives of ranks that are all one group */
    double typical_ms;    /* length of an iteration, the last one */
    uint32_t point;       /* at which it runs, the common point included */
    uint32_t set;         /* the point that its clock has followed to last */
    bool is_reached;      /* it has been at `point` since that is wanted */
    bool is_in_force;     /* it has run at its points for the whole present iteration */
    bool rests_on_nodes;  /* its points rest on other nodes' reports */
    uint32_t tried_most;  /* points that may be tried at once if no single wait covers one */
    uint32_t era;         /* number of changes of its points */
    bool is_answered;     /* other nodes have reported an iteration at these points */
    uint64_t iteration;   /* of its rank, the present one */
    uint64_t answered;    /* the last iteration that other nodes have reported */
    struct lull_slack_collective_time collective_time; /* in the present iteration... */
    struct lull_slack_collective_time
        collective_times[LULL_SLACK_KEPT]; /* ...and in those that nodes report */
    struct lull_slack_waits own;           /* for ranks of its own node... */
    struct lull_slack_waits job;           /* ...and for the latest rank of the job */
    double point_ms;                       /* cost of a point; 0: unknown */
    double had_waited_ms;  /* when it was lowered from the common point, at least... */
    double had_longest_ms; /* ...the same, on average... */
    double had_all_ms;     /* ...and all waits of an iteration together, on average */
    double before_ms;      /* least wait before it was lowered last... */
    uint32_t before;       /* ...and its points then */
    bool was_by_job;       /* it was lowered last for the latest rank of the job */
    uint32_t late;         /* iterations in a row in which it came last */
    uint32_t overdue;      /* ...in which others have waited for it for longer than it did */
    uint32_t hold;         /* iterations that it is not lowered for... */
    uint32_t next_hold;    /* ...and next time */
};

struct lull_slack {
    uint32_t gpu_count;
    uint32_t descents; /* number of times that a GPU has been lowered by more than a point */
    uint64_t stride;   /* every so many iterations one is reported to other nodes */
    bool has_reported;
    uint64_t reported; /* the last iteration that this node has reported */
    struct lull_slack_gpu gpus[LULL_SLACK_MAX_GPUS];
    struct lull_slack_kind kinds[LULL_SLACK_KINDS];
    struct lull_slack_last lasts[LULL_SLACK_KEPT]; /* of the iterations that nodes report */
};

/* No GPU has any slack yet. gpu_count 1..LULL_SLACK_MAX_GPUS; point_counts[i]: length of the clock
 * list of GPU i. */
void lull_slack_init(struct lull_slack *slack, uint32_t gpu_count, const uint32_t *point_counts);

/* The rank of this GPU enters or leaves a collective. The edges of one GPU come in the order of
 * their times, those of different GPUs in any. Returns bits: GPUs that are to be raised at once. */
uint64_t lull_slack_take(struct lull_slack *slack, uint32_t gpu, const struct lull_call *edge);

/* The GPU's iteration of this number has ended. Its points may change. iteration_ms > 0. */
void lull_slack_end_iteration(struct lull_slack *slack, uint32_t gpu, uint64_t iteration,
                              double iteration_ms);

/* The GPU's next iteration begins, in which it is to run at this point, of its own clock list; that
 * is lower by its slack than it would be otherwise, or not. */
void lull_slack_begin_iteration(struct lull_slack *slack, uint32_t gpu, uint32_t point,
                                bool is_applied);

/* The GPU's clock has followed to this point. */
void lull_slack_take_switch(struct lull_slack *slack, uint32_t gpu, uint32_t point);

/* The GPU has another rank, or none, or its calls are being learnt again: it has no slack, and its
 * history is discarded. */
void lull_slack_forget(struct lull_slack *slack, uint32_t gpu);

/* Finds the newest iteration that all ranks of this node have ended, if it is due to be reported to
 * the others and has not been yet. Iterations of less than 100 ms are reported only where a power
 * of two divides their numbers, so that words are about that far apart. Returns whether there is
 * one. */
bool lull_slack_report(struct lull_slack *slack, struct lull_arrival *arrival_out);

/* Takes an iteration that all nodes have reported: the latest of all. Points may change. Returns
 * bits: GPUs that are to be raised at once. */
uint64_t lull_slack_receive(struct lull_slack *slack, const struct lull_arrival *latest);

/* Returns how many points below the common one the GPU may run. */
uint32_t lull_slack_points(const struct lull_slack *slack, uint32_t gpu);

/* Returns whether any GPU uses slack. */
bool lull_slack_is_used(const struct lull_slack *slack);

/* The results of the GPU's slack; valid as long as the slack lives. */
const struct lull_slack_record *lull_slack_record(const struct lull_slack *slack, uint32_t gpu);

/* The lowered clocks, including slack, were not accepted: all GPUs are raised by this many points,
 * and are not lowered again for increasing times. */
void lull_slack_back_off(struct lull_slack *slack, uint32_t points);

#endif
