/* SPDX-License-Identifier: Apache-2.0 */
#include "core/stats/joint_guard.h"

#include <assert.h>
#include <math.h>

void lull_joint_guard_init(struct lull_joint_guard *joint, const struct lull_guard_config *config,
                           uint32_t rank_count, bool is_screen)
{
    struct lull_guard_config each = *config;

    assert(rank_count >= 1 && rank_count <= LULL_JOINT_GUARD_MAX_RANKS);
    joint->is_screen = is_screen;
    joint->rank_count = rank_count;
    each.refusal_error /= rank_count;
    for (uint32_t i = 0; i < rank_count; i++) {
        joint->ranks[i] = (struct lull_rank_guard){.verdict = LULL_VERDICT_UNDECIDED};
        lull_guard_init(&joint->ranks[i].guard, &each);
    }
}

void lull_joint_guard_add(struct lull_joint_guard *joint, uint32_t rank, double reference,
                          double candidate, bool may_pass)
{
    struct lull_rank_guard *own = &joint->ranks[rank];

    assert(rank < joint->rank_count);
    if (own->verdict != LULL_VERDICT_UNDECIDED)
        return;
    lull_guard_add(&own->guard, reference, candidate);
    own->verdict =
        joint->is_screen ? lull_guard_screen(&own->guard) : lull_guard_verdict(&own->guard);
    if (!may_pass && own->verdict != LULL_VERDICT_DEGRADED)
        own->verdict = LULL_VERDICT_UNDECIDED;
}

void lull_joint_guard_set_untried(struct lull_joint_guard *joint, double untried_ratio)
{
    for (uint32_t i = 0; i < joint->rank_count; i++)
        joint->ranks[i].guard.untried_ratio = untried_ratio;
}

void lull_joint_guard_leave(struct lull_joint_guard *joint, uint32_t rank)
{
    joint->ranks[rank].has_left = true;
}

enum lull_verdict lull_joint_guard_verdict(const struct lull_joint_guard *joint)
{
    bool is_undecided = false;
    bool is_unproven = false;

    for (uint32_t i = 0; i < joint->rank_count; i++) {
        const struct lull_rank_guard *rank = &joint->ranks[i];

        if (rank->has_left)
            continue;
        if (rank->verdict == LULL_VERDICT_DEGRADED)
            return LULL_VERDICT_DEGRADED;
        is_unproven |= rank->verdict == LULL_VERDICT_UNPROVEN;
        is_undecided |= rank->verdict == LULL_VERDICT_UNDECIDED;
    }
    if (is_unproven)
        return LULL_VERDICT_UNPROVEN;
    return is_undecided ? LULL_VERDICT_UNDECIDED : LULL_VERDICT_NOT_DEGRADED;
}

uint32_t lull_joint_guard_worst(const struct lull_joint_guard *joint)
{
    double worst_ratio = -INFINITY;
    uint32_t worst = 0;

    for (uint32_t i = 0; i < joint->rank_count; i++) {
        const struct lull_moments *own = &joint->ranks[i].guard.differences;

        if (joint->ranks[i].has_left || own->count == 0 || own->mean <= worst_ratio)
            continue;
        worst_ratio = own->mean;
        worst = i;
    }
    return worst;
}
