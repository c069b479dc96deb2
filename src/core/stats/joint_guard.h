/*
 * The guard over several ranks of one job: "not degraded" only if none of them is.
 *
 * Ranks that wait for each other in every iteration have the same iteration times, and and their
 * tests see the same data. Among ranks that do not wait, a mean would hide that one is slowed more.
 * So each rank has its own test, and the worst decides. The test need not know which of the two
 * cases holds:
 *   - "not degraded" when every rank's test has returned it. That none is degraded is the
 * intersection of claims each tested at level alpha, so the chance of passing wrongly is at most
 * alpha however many ranks there are (intersection-union test, Berger 1982).
 *   - "degraded" when any rank's test has returned it. That is a union: each test's probability of
 * a wrong result is divided by the number of ranks (Bonferroni).
 *   - "unproven" when any rank's test has returned it, and none "degraded".
 * A rank's test ends at its first verdict.
 *
 * Pure; caller's storage; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_STATS_JOINT_GUARD_H
#define LULL_CORE_STATS_JOINT_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/stats/guard.h"

enum { LULL_JOINT_GUARD_MAX_RANKS = 64 };

struct lull_rank_guard {
    struct lull_guard guard;
    enum lull_verdict verdict; /* the first that decided */
    bool has_left;
};

struct lull_joint_guard {
    bool is_screen; /* calls lull_guard_screen() instead of lull_guard_verdict() */
    uint32_t rank_count;
    struct lull_rank_guard ranks[LULL_JOINT_GUARD_MAX_RANKS];
};

/* rank_count 1..LULL_JOINT_GUARD_MAX_RANKS; config->refusal_error holds for all ranks together. */
void lull_joint_guard_init(struct lull_joint_guard *joint, const struct lull_guard_config *config,
                           uint32_t rank_count, bool is_screen);

/* A pair of one rank's own mean iteration times, as in lull_guard_add. may_pass: whether its test
 * may end with this pair in any other way than "degraded". */
void lull_joint_guard_add(struct lull_joint_guard *joint, uint32_t rank, double reference,
                          double candidate, bool may_pass);

/* This share of the candidate's clock changes was not made, in all pairs so far. */
void lull_joint_guard_set_untried(struct lull_joint_guard *joint, double untried_ratio);

/* The rank has ended, or never took part: the guard does not wait for its test. */
void lull_joint_guard_leave(struct lull_joint_guard *joint, uint32_t rank);

enum lull_verdict lull_joint_guard_verdict(const struct lull_joint_guard *joint);

/* The rank that is slowed most by its own estimate; 0 if none has a pair. */
uint32_t lull_joint_guard_worst(const struct lull_joint_guard *joint);

#endif
