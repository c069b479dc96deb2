/*
 * The guard over several ranks of one job: "not degraded" only if none of them is.
 *
 * Ranks that wait for each other in every iteration are coupled: they have the same iteration times
 * at the reference and at the candidate, whatever each computes. A verdict on their mean is then a
 * verdict on each, with the least noise. Coupled are ranks whose mean times over the pairs so far
 * all lie within a quarter of the tolerance of the mean over ranks, on both sides, and none of
 * which has been seen to run ahead of the others.
 *
 * Among ranks that are not coupled a mean hides that one is slowed more. There each rank has a test
 * of its own, and the worst decides:
 *   - "not degraded" when every rank's test has said so. That none is degraded is the intersection
 *     of claims each tested at level alpha, so the chance of passing wrongly is at most alpha
 *     however many ranks there are (intersection-union test, Berger 1982).
 *   - "degraded" when any rank's test has said so. That is a union: each test's chance of saying it
 *     wrongly is divided by the number of ranks (Bonferroni; guard.h: union_tests).
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
    struct lull_moments reference;
    struct lull_moments candidate;
    bool has_left;
};

struct lull_joint_guard {
    struct lull_guard mean; /* of the ranks' mean times */
    bool has_parted;        /* a rank has run ahead */
    uint32_t rank_count;
    struct lull_rank_guard ranks[LULL_JOINT_GUARD_MAX_RANKS];
};

/* rank_count 1..LULL_JOINT_GUARD_MAX_RANKS. */
void lull_joint_guard_init(struct lull_joint_guard *joint, const struct lull_guard_config *config,
                           uint32_t rank_count);

/* A pair of one rank's own mean iteration times, as in lull_guard_add. */
void lull_joint_guard_add(struct lull_joint_guard *joint, uint32_t rank, double reference,
                          double candidate);

/* The means over all ranks of a pair, once each has added its own. */
void lull_joint_guard_add_mean(struct lull_joint_guard *joint, double reference, double candidate);

/* The rank has ended, or never took part: its test is not waited for. */
void lull_joint_guard_leave(struct lull_joint_guard *joint, uint32_t rank);

/* A rank has gone on by more iterations than one that waits for the others can. */
void lull_joint_guard_part(struct lull_joint_guard *joint);

bool lull_joint_guard_is_coupled(const struct lull_joint_guard *joint);

enum lull_verdict lull_joint_guard_verdict(const struct lull_joint_guard *joint);

/* The test that stands for all: of the mean, or of the rank that is slowed most. */
const struct lull_guard *lull_joint_guard_worst(const struct lull_joint_guard *joint);

#endif
