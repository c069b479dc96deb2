/*
 * Detours: clocks for a while that no trial asks for, as for a straggler elsewhere.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>

#include "core/pipeline/follow/plan_controller_state.h"

_Static_assert((int)LULL_CONDUCTOR_DETOUR == (int)CONDUCTOR_PLANS, "detours stand behind plans");

/* Whether an iteration that runs, or the one before it, has this plan. */
static bool is_in_use(const struct lull_conductor *conductor, int32_t plan)
{
    for (uint32_t i = 0; i < CONDUCTOR_SLOTS; i++)
        if (conductor->slots[i].plan == plan && conductor->slots[i].number != 0 &&
            conductor->slots[i].number + 1 >= conductor->iteration)
            return true;
    return false;
}

/* The place held another plan before: what was learnt of it is void. */
static void forget_intervals(struct lull_conductor *conductor, int32_t plan)
{
    for (uint32_t i = 0; i < conductor->gpu_count; i++)
        if (conductor->gpus[i].learnt_plan == plan)
            conductor->gpus[i].learnt_plan = CONDUCTOR_HIGHEST;
}

/* What asks for the detour was seen in the latest pair of windows as well, on one side of it. */
static void suspend(struct lull_conductor *conductor)
{
    conductor->suspended = conductor->trial;
    conductor->suspended.guard = conductor->suspended.before[0];
    conductor->suspended.watch = conductor->suspended.before[1];
}

int lull_conductor_detour(struct lull_conductor *conductor,
                          const struct lull_conductor_op *const *ops)
{
    const int32_t place = CONDUCTOR_PLANS + (int32_t)(conductor->detours % CONDUCTOR_DETOURS);
    const uint64_t test = conductor->trial.test;
    struct conductor_plan *plan;

    if (conductor->leader < 0 || conductor->config.observe_only || conductor->driver.is_withheld ||
        conductor->driver.is_disobedient || lull_conductor_plan(conductor) < 0 || is_in_use(conductor, place))
        return -EAGAIN;
    plan = conductor_create_plan(conductor, ops, 0.0);
    if (plan == NULL)
        return -ENOMEM;
    conductor_destroy_plan(conductor->plans[place]);
    conductor->plans[place] = plan;
    conductor->detours++;
    forget_intervals(conductor, place);
    if (!conductor->is_detoured)
        suspend(conductor);
    conductor->is_detoured = true;
    /* Phase and guard are of no use here: nothing is judged while it is held. */
    conductor->trial = (struct conductor_trial){.plan = place, .test = test, .is_held = true};
    conductor_begin_test(conductor, LULL_CONDUCTOR_KEPT, conductor->iteration + 2);
    return place;
}

/* The iteration that runs, and the next one if it is decided already. */
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
    conductor->trial = conductor->suspended;
    conductor->trial.test = test;
    conductor_begin_test(conductor, conductor->trial.phase, conductor->iteration + 2);
    rewrite_slots(conductor);
    conductor->has_news = true;
}

bool lull_conductor_is_detoured(const struct lull_conductor *conductor)
{
    return conductor->is_detoured;
}
