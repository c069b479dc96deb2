/*
 * What the trial's files share, and no other process. Calls go down this list only:
 *   trial.c         which iterations run where, and what the pairs say
 *   trial_kept.c    the accepted candidate: the evidence for and against it
 *   trial_job.c     what is learnt of the job: rhythms, and what carries over
 *   trial_budget.c  what trials and kept points may cost: pairs that are cut and put off
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SWITCHING_TRIAL_STATE_H
#define LULL_CORE_SWITCHING_TRIAL_STATE_H

#include "core/switching/trial.h"

/* No proof or check requests more iterations, whatever has called for it. */
enum { LULL_TRIAL_MIN_MEASURED_MAX = 1024 };
/* Iterations in a row at the accepted candidate that are compared with the reference at a time. */
enum { LULL_TRIAL_WATCHED_BLOCK = 16 };

static inline bool lull_trial_takes_part(uint64_t present, uint32_t rank)
{
    return (present & (UINT64_C(1) << rank)) != 0;
}

/* ---- trial_kept.c ---- */

/* What has been proven hurts after all, as a check has found that so many iterations had called
 * for: the next proof takes twice as many. */
void lull_trial_learn_from_harm(struct lull_trial *trial, uint32_t rank);

/* A long stretch of what has been kept and its short reference; true: it hurts. */
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

/* What the last pair of a watch says. */
enum lull_trial_result lull_trial_find_watched(struct lull_trial *trial, uint64_t present);

/* ---- trial_job.c ---- */

/* The rank's block at the reference, which a coin has placed behind the candidate or not. */
void lull_trial_add_to_carry(const struct lull_trial *trial, struct lull_trial_rank *rank);

/* Returns whether this trial may begin again for what it learns. Nodes that act alike without a
 * message cannot change the schedule each for itself. */
bool lull_trial_follows_job(const struct lull_trial *trial);

/* A proof or check must not pass before the rank's carry-over has been tested. */
bool lull_trial_lacks_carry_test(const struct lull_trial *trial,
                                 const struct lull_trial_rank *rank);

/* A rhythm of any rank is known now that was not when the trial began. */
bool lull_trial_has_new_rhythm(const struct lull_trial *trial);

/* Returns whether something carries over on any rank. If so, the pairs so far are charged with it,
 * and later schedules leave out more iterations after a change. */
bool lull_trial_find_carry(struct lull_trial *trial);

/* Iterations at the reference until a rhythm that makes them uneven would have been found. */
uint64_t lull_trial_rhythm_wait(const struct lull_trial *trial);

/* ---- trial_budget.c ---- */

bool lull_trial_is_spent(const struct lull_trial *trial, uint32_t rank);

/* Iterations until the budget allows the first one at the candidate: the same number for ranks that
 * wait for each other, and the same time for others. */
uint64_t lull_trial_wait_iterations(const struct lull_trial *trial, uint32_t rank);

/* The next pair begins once the budget allows it, in a new order. */
void lull_trial_put_off_next_pair(struct lull_trial *trial);

/* The rest of the pair runs at the reference; it counts with what it has. Ranks that wait for each
 * other are in the same pair; of others, each has to keep to its own cut. */
void lull_trial_cut_pair(struct lull_trial *trial, struct lull_trial_rank *rank,
                         const struct lull_pair_slot *slot);

#endif
