/*
 * Declarations that only the trial's files share. Calls go down this list only:
 *   trial.c         which iterations run where, and what the pairs say
 *   trial_kept.c    the accepted candidate: the evidence for and against it
 *   trial_job.c     properties of the job: rhythms, and what carries over
 *   trial_budget.c  budget of trials and kept points: pairs that are cut and put off
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SWITCHING_TRIAL_STATE_H
#define LULL_CORE_SWITCHING_TRIAL_STATE_H

#include "core/switching/trial.h"

/* The most iterations that a proof or check requires. */
enum { LULL_TRIAL_MIN_MEASURED_MAX = 1024 };
/* Iterations in a row at the accepted candidate that are compared with the reference at a time. */
enum { LULL_TRIAL_WATCHED_BLOCK = 16 };

static inline bool lull_trial_takes_part(uint64_t present, uint32_t rank)
{
    return (present & (UINT64_C(1) << rank)) != 0;
}

/* ---- trial_kept.c ---- */

/* An accepted candidate turned out to be slower. The next proof
 * takes twice the iterations that revealed it. */
void lull_trial_learn_from_harm(struct lull_trial *trial, uint32_t rank);

/* Takes a long stretch at the accepted candidate and its short reference. Returns true if the
 * candidate is proven slower than tolerated. */
bool lull_trial_watch_pair(struct lull_trial *trial, struct lull_trial_rank *rank,
                           double reference_ms, double candidate_ms);

/* Returns whether a block at the accepted candidate is slower than the reference even without its
 * slowest iteration, which the host may have caused. Needed because the next pair may be far away.
 */
bool lull_trial_is_slow_block(const struct lull_trial *trial, struct lull_trial_rank *rank,
                              double iteration_ms);

/* Returns whether all iterations seen at the accepted candidate together are slower by more than is
 * tolerated. */
bool lull_trial_pooled_hurts(struct lull_trial *trial, uint64_t present);

/* Judges the last pair of a watch. */
enum lull_trial_result lull_trial_find_watched(struct lull_trial *trial, uint64_t present);

/* ---- trial_job.c ---- */

/* Records the rank's block at the reference, which a coin has placed after the candidate's block or
 * before it. */
void lull_trial_add_to_carry(const struct lull_trial *trial, struct lull_trial_rank *rank);

/* Returns whether this trial may begin again when it learns about the job. Nodes
 * that keep in step without messages cannot change the schedule individually. */
bool lull_trial_follows_job(const struct lull_trial *trial);

/* A proof or check must not pass before the rank's carry-over has been tested, nor where it looks
 * as if there were one. */
bool lull_trial_lacks_carry_test(const struct lull_trial *trial,
                                 const struct lull_trial_rank *rank);

/* Returns whether a rank's rhythm is known now that was not known when the trial began. */
bool lull_trial_has_new_rhythm(const struct lull_trial *trial);

enum lull_trial_carry {
    LULL_TRIAL_CARRY_NONE,
    LULL_TRIAL_CARRY_FOUND, /* later schedules leave out more iterations after a change */
    LULL_TRIAL_CARRY_HIDES, /* no schedule may leave out more */
};

/* Returns whether something carries over on any rank. If so, the pairs so far are charged with it.
 * may_lengthen: whether the trial may begin again with another schedule. */
enum lull_trial_carry lull_trial_find_carry(struct lull_trial *trial, bool may_lengthen);

/* Iterations at the reference until a rhythm that makes them uneven would have been found. */
uint64_t lull_trial_rhythm_wait(const struct lull_trial *trial);

/* ---- trial_budget.c ---- */

bool lull_trial_is_spent(const struct lull_trial *trial, uint32_t rank);

/* Iterations until the budget allows the first one at the candidate: the same number for ranks that
 * wait for each other, and the same time for others. */
uint64_t lull_trial_wait_iterations(const struct lull_trial *trial, uint32_t rank);

/* The next pair begins once the budget allows it, in a new order. */
void lull_trial_put_off_next_pair(struct lull_trial *trial);

/* Runs the rest of the pair at the reference; the pair counts with the iterations so far.
 * Ranks that wait for each other are in the same pair; each other rank keeps its own cut. */
void lull_trial_cut_pair(struct lull_trial *trial, struct lull_trial_rank *rank,
                         const struct lull_pair_slot *slot);

#endif
