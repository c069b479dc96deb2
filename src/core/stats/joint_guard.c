/* SPDX-License-Identifier: Apache-2.0 */
#include "core/stats/joint_guard.h"

#include <assert.h>
#include <math.h>

/* Coupled ranks agree to this share of the tolerance, or of the worth. Chosen, not measured. */
static const double coupled_share = 0.25;

void lull_joint_guard_init(struct lull_joint_guard *joint, const struct lull_guard_config *config,
                           uint32_t rank_count)
{
    struct lull_guard_config each = *config;

    assert(rank_count >= 1 && rank_count <= LULL_JOINT_GUARD_MAX_RANKS);
    lull_guard_init(&joint->mean, config);
    joint->has_parted = false;
    joint->rank_count = rank_count;
    each.union_tests = rank_count;
    for (uint32_t i = 0; i < rank_count; i++) {
        joint->ranks[i] = (struct lull_rank_guard){.verdict = LULL_VERDICT_UNDECIDED};
        lull_guard_init(&joint->ranks[i].guard, &each);
    }
}

void lull_joint_guard_add(struct lull_joint_guard *joint, uint32_t rank, double reference,
                          double candidate)
{
    struct lull_rank_guard *own = &joint->ranks[rank];

    lull_moments_add(&own->reference, reference);
    lull_moments_add(&own->candidate, candidate);
    if (own->verdict != LULL_VERDICT_UNDECIDED)
        return;
    lull_guard_add(&own->guard, reference, candidate);
    own->verdict = lull_guard_verdict(&own->guard);
}

void lull_joint_guard_add_mean(struct lull_joint_guard *joint, double reference, double candidate)
{
    lull_guard_add(&joint->mean, reference, candidate);
}

/* Whether the ranks' means of one side lie close together. */
static bool agree(const struct lull_joint_guard *joint, bool candidate)
{
    const struct lull_guard_config *config = &joint->mean.config;
    const double margin = coupled_share * lull_guard_worth(config);
    double lowest = INFINITY;
    double highest = 0.0;
    double sum = 0.0;
    uint32_t count = 0;

    for (uint32_t i = 0; i < joint->rank_count; i++) {
        const struct lull_rank_guard *rank = &joint->ranks[i];
        double mean = rank->reference.mean;

        if (rank->has_left || rank->reference.count == 0)
            continue;
        if (candidate)
            mean = rank->candidate.mean;
        lowest = fmin(lowest, mean);
        highest = fmax(highest, mean);
        sum += mean;
        count++;
    }
    return count < 2 ||
           (lowest >= sum / count * (1.0 - margin) && highest <= sum / count * (1.0 + margin));
}

void lull_joint_guard_leave(struct lull_joint_guard *joint, uint32_t rank)
{
    joint->ranks[rank].has_left = true;
}

void lull_joint_guard_part(struct lull_joint_guard *joint)
{
    joint->has_parted = true;
}

bool lull_joint_guard_is_coupled(const struct lull_joint_guard *joint)
{
    return !joint->has_parted && agree(joint, false) && agree(joint, true);
}

static enum lull_verdict worst_verdict(const struct lull_joint_guard *joint)
{
    enum lull_verdict worst = LULL_VERDICT_NOT_DEGRADED;

    for (uint32_t i = 0; i < joint->rank_count; i++) {
        const struct lull_rank_guard *rank = &joint->ranks[i];

        if (rank->has_left)
            continue;
        if (rank->verdict == LULL_VERDICT_DEGRADED)
            return LULL_VERDICT_DEGRADED;
        if (rank->verdict == LULL_VERDICT_UNDECIDED)
            worst = LULL_VERDICT_UNDECIDED;
    }
    return worst;
}

enum lull_verdict lull_joint_guard_verdict(const struct lull_joint_guard *joint)
{
    if (lull_joint_guard_is_coupled(joint))
        return lull_guard_verdict(&joint->mean);
    return worst_verdict(joint);
}

const struct lull_guard *lull_joint_guard_worst(const struct lull_joint_guard *joint)
{
    const struct lull_guard *worst = &joint->mean;

    if (lull_joint_guard_is_coupled(joint))
        return worst;
    for (uint32_t i = 0; i < joint->rank_count; i++) {
        const struct lull_rank_guard *rank = &joint->ranks[i];

        if (!rank->has_left && rank->reference.count > 0 &&
            (worst == &joint->mean || rank->guard.log_ratios.mean > worst->log_ratios.mean))
            worst = &rank->guard;
    }
    return worst;
}
