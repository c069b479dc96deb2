/*
 * A trial: iterations at the reference and at a candidate in turn, and the evidence of their times.
 *
 * The ranks of a job run the same iterations. A schedule (pair_schedule.h) says which of them are
 * at the reference and which at the candidate; a pair of blocks gives a rank two mean times, and
 * pairs are the guard's evidence (guard.h, joint_guard.h). All measured iterations of both sides
 * count. A trial
 *   screens  a candidate that has not been judged yet: a few pairs that steer a search,
 *   proves   the result of a search, by the guard's verdict,
 *   checks   an accepted candidate again that looked slow, with at least as many iterations at it
 *            as have made it look so, or
 *   watches  an accepted candidate: long stretches at it between short references, ever rarer.
 * A trial never acts: each call returns a conclusion from its data, and the owner decides what to
 * do. The owner also decides which ranks take part: `present` has a bit for each that does, and may
 * differ from call to call.
 *
 * There is one error budget for the whole run. The probability that the k-th proof or check accepts
 * a point that is slower than tolerated is at most 2 / ((k + 1) (k + 2)) of 1 - confidence; these
 * add up to all of it, however many candidates, restarts and checks there are. Screens prove
 * nothing, so they spend nothing.
 *
 * Pairs with another disturbance, such as heat, are discarded, but not without limit: after some in
 * a row one counts nevertheless. A proof or check that would have to count one gives up instead,
 * because a clock that is limited anyway does not make the job slower, so it would accept any
 * point. Whether it discards a pair depends on the disturbances of the block at the reference
 * alone: the candidate may be the cause of the others.
 *
 * Screens and watches discard pairs with too few changes of clocks as well. In a proof or check
 * every pair counts, and what its pairs may show is as much less than tolerated as changes are
 * missing.
 *
 * There is one loss budget for the whole run, too (loss_budget.h). Once it is spent, the rest of
 * the pair runs at the reference, the pair counts with its iterations so far, and the next pair
 * starts when some budget is left.
 *
 * The controller of sections and the controller of a pipeline's plan use the same trial.
 *
 * Pure; caller's storage; one thread. Times are ms; iterations are counted by the ranks themselves.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SWITCHING_TRIAL_H
#define LULL_CORE_SWITCHING_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/stats/carry_over.h"
#include "core/stats/joint_guard.h"
#include "core/stats/quantile.h"
#include "core/stats/rhythm.h"
#include "core/switching/loss_budget.h"
#include "core/switching/pair_schedule.h"
#include "core/switching/whole_bound.h"

enum lull_trial_kind { LULL_TRIAL_SCREEN, LULL_TRIAL_PROOF, LULL_TRIAL_CHECK, LULL_TRIAL_WATCH };

struct lull_trial_config {
    uint32_t rank_count; /* 1..LULL_JOINT_GUARD_MAX_RANKS */
    double confidence; /* confidence that no point is accepted wrongly in the whole run, (0.5, 1) */
    double tail_tolerance_ratio; /* of the 99 % quantile of iteration times; 0: only means count */
    uint32_t most_set_aside;     /* disturbed pairs in a row, before one counts all the same */
    uint32_t first_stretch;      /* of a watch: accepted blocks per reference block... */
    uint32_t most_stretch;       /* ...which double up to this many; 0: never */
    uint64_t seed;               /* of the coins */
    bool is_aligned; /* other nodes run the same iterations: pairs never begin later than planned */
};

/* The permitted cost of a candidate. */
struct lull_trial_terms {
    double tolerance_ratio;  /* slowdown that is allowed, > 0 */
    double worth_ratio;      /* slowdown above which it does not pay; 0: it always pays */
    double loss_ratio;       /* slowdown that all trials and points together may cost; 0: any */
    uint32_t max_iterations; /* at it, after which it is unproven; 0: as long as it may decide */
    uint32_t min_iterations; /* at it, before a proof may pass; 0: any */
    bool is_idle; /* of a watch: no clock is lowered, so all iterations are at the reference */
};

/* The iterations of one side of a pair that are measured. */
struct lull_trial_side {
    uint32_t count;
    double sum_ms;
    struct lull_upper_tail tail_ms;
};

/* A pair is cut short: from this iteration of the schedule on it runs at the reference. */
struct lull_trial_cut {
    uint32_t pair;
    uint64_t from; /* UINT64_MAX: none is */
};

struct lull_trial_rank {
    uint64_t base;                   /* the rank's iteration with which the schedule begins */
    uint32_t pair;                   /* the one under way, or the last one... */
    struct lull_trial_side sides[2]; /* ...by lull_pair_slot.candidate */
    struct lull_trial_side begun;    /* its iterations at the candidate that are not measured */
    uint32_t done;                   /* pairs that are over */
    bool is_slow;                    /* the last one of a watch was */
    uint32_t run;                    /* iterations at the candidate in a row */
    uint32_t lowered;                /* ...since the last block at the reference */
    double level_ms;                 /* of the reference before these */
    uint32_t measured;               /* ones of this trial */
    struct lull_moments excess_ms;   /* of all ones of this trial over the reference... */
    double slowest_ms;               /* ...and of the slowest of them */
    struct lull_moments block_ms;    /* of a watch: the last accepted iterations... */
    double block_max_ms;             /* ...and the slowest of them */
    struct lull_guard kept;          /* all pairs of what has been kept... */
    struct lull_guard kept_before;   /* ...and without the last one */
    struct lull_guard watched;       /* of these, the pairs since the last verdict on them */
    uint64_t kept_iterations;        /* measured at what has been kept, since it was first tried */
    struct lull_loss_budget losses;
    struct lull_whole_bound whole;
    struct lull_rhythm_memory memory;
    struct lull_rhythm rhythm; /* of the job at the reference, as known when the trial began */
    struct lull_carry_over carry;
    uint32_t since_low; /* iterations at the reference since the last one that was not... */
    uint32_t
        reference_since; /* ...when the pair's block at the reference began to be measured... */
    double reference_level_ms; /* ...and the level then */
    struct lull_trial_cut cut;
};

struct lull_trial {
    struct lull_trial_config config;
    struct lull_trial_terms terms;
    struct lull_trial_rank *ranks; /* the caller's, config.rank_count of them */
    enum lull_trial_kind kind;
    struct lull_pair_schedule schedule;
    struct lull_joint_guard guard;
    struct lull_joint_guard tail_guard; /* of the 99 % quantile, where that counts */
    uint32_t proofs;                    /* and checks, begun in this run */
    uint64_t begun;                     /* trials */
    uint32_t stretch;
    uint32_t washout;          /* of the schedules of this run: see pair_schedule.h */
    uint32_t restarts;         /* trials of this run that were begun again */
    uint32_t first_pair;       /* number of the first one after `base` */
    uint32_t next_pair;        /* that all ranks are to complete */
    uint32_t joined_pair;      /* the first one that counts */
    uint32_t min_measured;     /* iterations at the candidate before a proof or check may pass... */
    uint32_t min_proof;        /* ...of a proof */
    struct lull_trial_cut cut; /* the last one, of any rank */
    bool is_disturbed[2];      /* sides of the present pair, by lull_pair_slot.candidate */
    uint32_t set_aside;        /* disturbed pairs in a row */
    uint32_t wanted_changes; /* of clocks in this pair; most of them must be made for it to count */
    uint32_t made_changes;
    uint64_t wanted_before; /* in the pairs of this trial before it */
    uint64_t made_before;
    uint32_t untried_pairs; /* of this trial, set aside because too few were made */
};

enum lull_trial_result {
    LULL_TRIAL_GOES_ON,      /* there is nothing to do */
    LULL_TRIAL_SET_ASIDE,    /* a pair has ended and does not count */
    LULL_TRIAL_NOT_DEGRADED, /* screen, proof or check: the verdict */
    LULL_TRIAL_DEGRADED,
    LULL_TRIAL_UNPROVEN, /* proof or check: no verdict is possible */
    LULL_TRIAL_GIVES_UP, /* proof or check: it is disturbed all the time, its clocks are hardly
                            lowered, or more carries over than its schedule can leave out */
    LULL_TRIAL_RESTARTS, /* something was learnt about the job that its pairs did not
                            take into account: begin again, as the same kind */
    LULL_TRIAL_UNTRIED, /* screen: too few clocks were changed in some of its pairs; it continues */
    LULL_TRIAL_HOLDS,   /* watch: the pair gives no reason to check; begin the next stretch */
    LULL_TRIAL_SLOW_PAIR,  /* watch: the pair that has ended is a reason to check */
    LULL_TRIAL_SLOW_BLOCK, /* watch: a block of iterations is; the present pair continues */
    LULL_TRIAL_SPENT,      /* watch: has spent the loss budget; to be checked */
    LULL_TRIAL_HURTS,      /* watch: proven slower than is tolerated */
};

/* Initialises a trial without an accepted point. ranks must live as long as the trial;
 * zero-initialised. */
void lull_trial_init(struct lull_trial *trial, const struct lull_trial_config *config,
                     struct lull_trial_rank *ranks);

/* Begins a trial of a candidate with these terms, in blocks of so many iterations; then each rank
 * must be placed. No verdict waits for ranks that are not present. */
void lull_trial_begin(struct lull_trial *trial, enum lull_trial_kind kind,
                      const struct lull_trial_terms *terms, uint32_t block_iterations,
                      uint64_t present);

/* Notes that another point is tried or accepted from now on. */
void lull_trial_change_point(struct lull_trial *trial);

/* Notes that the length of the rank's iterations has changed because its job has changed. */
void lull_trial_forget_level(struct lull_trial *trial, uint32_t rank);

/* The schedule begins with this iteration of the rank. */
void lull_trial_place(struct lull_trial *trial, uint32_t rank, uint64_t base);

/* The first iterations of the schedule are over already: what is left of the pair they end in runs
 * at the reference and is not judged. */
void lull_trial_join(struct lull_trial *trial, uint64_t iterations);

/* Finds the slot of an iteration of the rank; false: it lies before the schedule, or between two
 * schedules. */
bool lull_trial_slot(const struct lull_trial *trial, uint32_t rank, uint64_t iteration,
                     struct lull_pair_slot *slot_out);

/* An iteration for which there is no slot has taken the rank iteration_ms, all of it at the
 * reference or not. */
void lull_trial_take_unplaced(struct lull_trial *trial, uint32_t rank, uint64_t iteration,
                              double iteration_ms, bool is_reference);

/* An iteration of the rank has taken iteration_ms. Ranks may be reported in any order. */
enum lull_trial_result lull_trial_add(struct lull_trial *trial, uint32_t rank,
                                      const struct lull_pair_slot *slot, double iteration_ms,
                                      uint64_t present);

/* The rank, no more among those present, has ended: the others' pairs may be complete now. */
enum lull_trial_result lull_trial_leave(struct lull_trial *trial, uint32_t rank, uint64_t present);

/* Notes that a cause other than the clocks, such as heat, slows the present pair, while the rank is
 * in this slot; null: in none. */
void lull_trial_disturb(struct lull_trial *trial, const struct lull_pair_slot *slot);

/* A clock was to be changed for the candidate in the present pair; it has been requested. */
void lull_trial_want_change(struct lull_trial *trial);
void lull_trial_make_change(struct lull_trial *trial);

/* From now on a proof takes at least so many iterations at the candidate, 1024 at most. */
void lull_trial_demand(struct lull_trial *trial, uint64_t iterations);

/* Accepts the candidate that has passed a proof or a check: its
 * pairs become those of the accepted candidate. */
void lull_trial_keep(struct lull_trial *trial);

/* Clears the accepted point. */
void lull_trial_drop_kept(struct lull_trial *trial);

/* References become half as frequent from the next watch on. */
void lull_trial_lengthen(struct lull_trial *trial);

/* Removes the last pair of the accepted point. */
void lull_trial_forget_last_pair(struct lull_trial *trial);

/* Slowdown of the accepted point, on the rank that was slowed most. */
void lull_trial_estimate(const struct lull_trial *trial, struct lull_guard_estimate *estimate_out);

/* The same for the point under test; before the first pair, from its iterations over the reference.
 */
void lull_trial_estimate_test(const struct lull_trial *trial,
                              struct lull_guard_estimate *estimate_out);

/* The whole run so far, of the rank that was slowed most, with this trial's confidence. */
struct lull_whole_slowdown lull_trial_whole(const struct lull_trial *trial);

/* Returns what the rank with the least left may still lose; NAN before any has earned something. */
struct lull_loss_left lull_trial_loss_left(const struct lull_trial *trial);

/* Returns N such that slowdowns in one of N iterations at the accepted candidate, or more often,
 * are excluded with the confidence of this trial. Rarer ones are not excluded. 1: nothing is
 * excluded. */
double lull_trial_rarest_excluded(const struct lull_trial *trial);

/* By how much the mean of a rank's last iterations at the reference exceeds their median, relative
 * to it, where no rhythm explains that; 0: a rhythm does, or too few iterations were measured to
 * find one. If it is well beyond the tolerance, blocks differ widely and a test needs many of them.
 * O(lull_rhythm_find). */
double lull_trial_unevenness(const struct lull_trial *trial, uint32_t rank);

/* Returns whether the accepted candidate, which has spent the loss budget, can be checked before
 * long; otherwise it has cost too much. */
bool lull_trial_affords_check(const struct lull_trial *trial);

/* Returns the block length of a check that can detect its cause: if a rank slows down only after
 * some consecutive iterations at the candidate, twice as many; 0: no sign of that. */
uint32_t lull_trial_min_check_block(const struct lull_trial *trial);

#endif
