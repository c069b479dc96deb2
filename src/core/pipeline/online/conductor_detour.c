/*
 * Detours: clocks that hold for a while although no trial asks for them, as while a straggler
 * elsewhere holds the job up.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>
#include <errno.h>

#include "core/pipeline/online/conductor_state.h"

_Static_assert((int)LULL_CONDUCTOR_DETOUR == (int)CONDUCTOR_PLANS, "detours stand behind plans");

/* Whether this plan holds in the iteration that runs, in the one before, or in a later one. */
static bool is_in_use(const struct lull_conductor *conductor, int32_t plan)
{
    for (uint32_t i = 0; i < CONDUCTOR_SLOTS; i++)
        if (conductor->slots[i].plan == plan && conductor->slots[i].number != 0 &&
            conductor->slots[i].number + 1 >= conductor->iteration)
            return true;
    return false;
}

/* The place held another plan before, so the intervals that were learnt of it no longer hold. */
static void forget_intervals(struct lull_conductor *conductor, int32_t plan)
{
    for (uint32_t i = 0; i < conductor->gpu_count; i++)
        if (conductor->gpus[i].learnt_plan == plan)
            conductor->gpus[i].learnt_plan = CONDUCTOR_HIGHEST;
}

/* What asks for the detour was seen in the latest pair of windows as well, on one side of it. */
static void rest_trial(struct lull_conductor *conductor)
{
    assert(!conductor->is_detoured);
    conductor->resting = conductor->trial;
    lull_trial_forget_last_pair(&conductor->resting.evidence);
}

/* A detour needs a plan that holds or is tried, and a driver that is trusted and obeyed. */
static bool may_detour(const struct lull_conductor *conductor, int32_t place)
{
    if (conductor->leader < 0 || conductor->config.observe_only || conductor->queue.suspended ||
        conductor->is_disobedient)
        return false;
    return conductor_trial_of_plan(conductor)->plan >= 0 && !is_in_use(conductor, place);
}

int lull_conductor_detour(struct lull_conductor *conductor,
                          const struct lull_conductor_op *const *ops)
{
    const int32_t place = CONDUCTOR_PLANS + (int32_t)(conductor->detours % CONDUCTOR_DETOURS);
    const uint64_t test = conductor->trial.test;
    struct conductor_plan *plan;

    if (!may_detour(conductor, place))
        return -EAGAIN;
    plan = conductor_create_plan(conductor, ops, 0.0);
    if (plan == NULL)
        return -ENOMEM;
    conductor_destroy_plan(conductor->plans[place]);
    conductor->plans[place] = plan;
    conductor->detours++;
    forget_intervals(conductor, place);
    if (!conductor->is_detoured)
        rest_trial(conductor);
    conductor->is_detoured = true;
    /* The trial has no evidence: nothing is judged while its plan is held. */
    conductor->trial = (struct conductor_trial){.plan = place, .test = test, .is_held = true};
    conductor_begin_test(conductor, LULL_CONDUCTOR_KEPT, conductor->iteration + 2);
    return place;
}

/* Gives the plan back to the iteration that runs, and to the next one if it is decided already. */
static void rewrite_slots(struct lull_conductor *conductor)
{
    for (uint32_t i = 0; i < CONDUCTOR_SLOTS; i++) {
        struct conductor_slot *slot = &conductor->slots[i];

        if (slot->number < conductor->iteration || slot->plan < CONDUCTOR_PLANS)
            continue;
        *slot = (struct conductor_slot){
            .number = slot->number, .plan = conductor->trial.plan, .is_mixed = true};
    }
}

void lull_conductor_end_detour(struct lull_conductor *conductor)
{
    const uint64_t test = conductor->trial.test;

    if (!conductor->is_detoured)
        return;
    conductor->is_detoured = false;
    conductor->trial = conductor->resting;
    conductor->trial.test = test;
    conductor_begin_test(conductor, conductor->trial.phase, conductor->iteration + 2);
    rewrite_slots(conductor);
    conductor->has_news = true;
}

bool lull_conductor_is_detoured(const struct lull_conductor *conductor)
{
    return conductor->is_detoured;
}
