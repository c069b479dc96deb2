/*
 * A trial: iterations at the reference and at a candidate in turn, and what their times say.
 *
 * The ranks of a job run the same iterations. A schedule (window_schedule.h) says which of them are
 * at the reference and which at the candidate; the iterations of a window give one time, two
 * windows side by side a pair, and pairs are the guard's evidence (guard.h, joint_guard.h). A trial
 *   tests    a candidate that nobody has judged yet, or
 *   checks   once more what has been kept, because it looked slow, or
 *   watches  what has been kept: long stretches at it between short references, ever rarer.
 * It never acts: whatever has been learnt is the result of the call that brought it, and the owner
 * decides what follows from that. The owner also decides which ranks take part: `present` has a
 * bit for each that does, and may differ from call to call.
 *
 * The controller of sections and the controller of a pipeline's plan use the same trial; where they
 * differ, the difference is in the configuration.
 *
 * Pure; caller's storage; one thread. Times are ms; iterations are counted by the ranks themselves.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SWITCHING_TRIAL_H
#define LULL_CORE_SWITCHING_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/stats/joint_guard.h"
#include "core/stats/quantile.h"
#include "core/switching/window_schedule.h"

enum {
    LULL_TRIAL_WINDOWS_KEPT = 2, /* a pair's: of the reference, of the candidate */
    LULL_TRIAL_PAIRS_KEPT = 64,  /* a rank may be ahead of the slowest one by this many */
    LULL_TRIAL_COUPLED = -1,     /* instead of a rank: all ranks wait for each other */
};

enum lull_trial_kind { LULL_TRIAL_TEST, LULL_TRIAL_CHECK, LULL_TRIAL_WATCH };

/* When a watch takes what has been kept for slow. */
enum lull_watch_rule {
    LULL_WATCH_PAIRS,    /* any slow pair is told, which is a reason to check */
    LULL_WATCH_VERDICTS, /* the guard's verdicts on the watched pairs, one after the other, decide
                          */
    LULL_WATCH_BOUND,    /* the lower bound over all pairs of what has been kept decides */
};

struct lull_trial_config {
    uint32_t rank_count;         /* 1..LULL_JOINT_GUARD_MAX_RANKS */
    double confidence;           /* of a verdict, (0.5, 1) */
    uint32_t min_pairs;          /* before any verdict, >= 2 */
    uint32_t max_pairs;          /* at which there is a verdict in any case */
    uint32_t kept_pairs;         /* the same for the estimate of what has been kept */
    double tail_tolerance_ratio; /* of the 99 % quantile of iteration times; 0: only means count */
    uint32_t most_set_aside;     /* disturbed pairs in a row, before one counts all the same */
    uint32_t first_stretch;      /* windows at what is kept between two references of a watch... */
    uint32_t most_stretch;       /* ...which double up to this many; 0: never */
    uint32_t block_iterations;   /* watched ones of rank 0 that are compared with the reference even
                                  * before their window ends; 0: none are */
    uint32_t abort_iterations;   /* clearly slow ones in a row on all ranks that end a test without
                                  * waiting for pairs; 0: none do */
    bool uses_plain_mean;        /* a window's time is the mean, else that of its faster half */
    bool spans_lost_iterations;  /* iterations that were never told leave their pair open: the next
                                  * window of each side completes it. Else the pair is left out */
    bool estimates_tests;        /* the estimate of what is kept covers the tests before */
    enum lull_watch_rule watch_rule;
};

/* What a candidate may cost. */
struct lull_trial_terms {
    double tolerance_ratio; /* slowdown that is allowed, > 0 */
    double worth_ratio;     /* slowdown from which it does not pay; 0: it always does */
    double abort_ratio;     /* a pair, or an iteration, slower than this is clearly slow, > 0 */
};

struct lull_trial_window {
    uint32_t number;
    bool is_complete;
    uint32_t count; /* of measured iterations */
    double sum_ms;
    struct lull_quantile iterations_ms; /* of a long window the last ones */
    struct lull_upper_tail tail_ms;     /* of all */
};

struct lull_trial_times {
    double mean_ms;
    double p99_ms;
};

/* Two windows next to each other, of one rank. */
struct lull_trial_pair {
    bool is_complete;
    uint32_t number;
    struct lull_trial_times reference;
    struct lull_trial_times candidate;
};

struct lull_trial_rank {
    uint64_t base;            /* the rank's iteration with which the schedule begins */
    double reference_ms;      /* of its last reference window */
    uint32_t slow_iterations; /* in a row, at the candidate */
    struct lull_trial_window windows[LULL_TRIAL_WINDOWS_KEPT]; /* by lull_window_slot.candidate */
    struct lull_trial_pair pairs[LULL_TRIAL_PAIRS_KEPT];       /* by number */
};

struct lull_trial {
    struct lull_trial_config config;
    struct lull_trial_rank *ranks; /* the caller's, config.rank_count of them */
    enum lull_trial_kind kind;
    struct lull_window_schedule schedule;
    struct lull_joint_guard guard;
    struct lull_joint_guard tail_guard; /* of the 99 % quantile, where that counts */
    struct lull_guard kept;             /* all pairs of what has been kept */
    struct lull_guard watched;          /* of these, the pairs since the last verdict on them */
    struct lull_guard before_guard;     /* guard.mean and kept as they were before the last pair */
    struct lull_guard before_kept;
    uint32_t stretch;
    struct lull_quantile block;
    int32_t worst_rank;      /* as the last test found it; LULL_TRIAL_COUPLED */
    uint32_t next_pair;      /* that all ranks are to complete */
    bool is_disturbed;       /* the present pair */
    uint32_t set_aside;      /* disturbed pairs in a row */
    uint32_t wanted_changes; /* of clocks in this pair; most of them must be made for it to count */
    uint32_t made_changes;
    uint32_t untried_pairs; /* of this test, set aside because too few were made */
};

enum lull_trial_result {
    LULL_TRIAL_GOES_ON,      /* there is nothing to do */
    LULL_TRIAL_SET_ASIDE,    /* a pair has ended and does not count */
    LULL_TRIAL_NOT_DEGRADED, /* test or check: the verdict */
    LULL_TRIAL_DEGRADED,
    LULL_TRIAL_HOLDS,      /* watch: one more pair is no reason for doubt; begin the next stretch */
    LULL_TRIAL_SLOW_PAIR,  /* watch: one more pair is slower than is tolerated */
    LULL_TRIAL_SLOW_BLOCK, /* watch: a block of iterations is; the present pair goes on */
    LULL_TRIAL_HURTS,      /* watch: proven slower than is tolerated */
};

/* Nothing has been kept yet. ranks: borrowed as long as the trial lives; zero-initialised. */
void lull_trial_init(struct lull_trial *trial, const struct lull_trial_config *config,
                     struct lull_trial_rank *ranks);

/* Fresh guards for a candidate with these terms; no verdict waits for ranks that are absent. */
void lull_trial_set_terms(struct lull_trial *trial, const struct lull_trial_terms *terms,
                          uint64_t present);

/* Begins windows of this many iterations; then each rank must be placed. */
void lull_trial_begin(struct lull_trial *trial, enum lull_trial_kind kind,
                      uint32_t window_iterations);

/* The schedule begins with this iteration of the rank. */
void lull_trial_place(struct lull_trial *trial, uint32_t rank, uint64_t base);

/* The first iterations of the schedule are over already: the pair they end in is not judged. */
void lull_trial_join(struct lull_trial *trial, uint64_t iterations);

/* Where an iteration of the rank stands; false: before the schedule begins. */
bool lull_trial_slot(const struct lull_trial *trial, uint32_t rank, uint64_t iteration,
                     struct lull_window_slot *slot_out);

/* An iteration of the rank has taken iteration_ms. Ranks may be told of in any order. */
enum lull_trial_result lull_trial_add(struct lull_trial *trial, uint32_t rank,
                                      const struct lull_window_slot *slot, double iteration_ms,
                                      uint64_t present);

/* The rank, no more among those present, has ended: the others' pairs may be complete now. */
enum lull_trial_result lull_trial_leave(struct lull_trial *trial, uint32_t rank, uint64_t present);

/* Something else than the candidate makes the present pair slow, such as heat. */
void lull_trial_disturb(struct lull_trial *trial);

/* The present pair says nothing of the candidate, unless it is watched: that must see everything.
 */
void lull_trial_discard_pair(struct lull_trial *trial);

/* A clock was to be changed for the candidate in the present pair; it has been asked for. */
void lull_trial_want_change(struct lull_trial *trial);
void lull_trial_make_change(struct lull_trial *trial);

/* What has been tested, or checked, is kept: its pairs so far are those of what is kept. */
void lull_trial_keep(struct lull_trial *trial);

/* Nothing is kept any more. */
void lull_trial_drop_kept(struct lull_trial *trial);

/* References become half as frequent from the next watch on. */
void lull_trial_lengthen(struct lull_trial *trial);

/* Takes the last pair back. Only of a trial of a single rank. */
void lull_trial_forget_last_pair(struct lull_trial *trial);

/* Slowdown of what has been kept; of the rank that was slowed most where ranks are not coupled. */
void lull_trial_estimate(const struct lull_trial *trial, struct lull_guard_estimate *estimate_out);

/* The same of what is being tested. */
void lull_trial_estimate_test(const struct lull_trial *trial,
                              struct lull_guard_estimate *estimate_out);

#endif
