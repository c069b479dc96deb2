/*
 * Detours: clocks that hold for a while although no trial requests them, as while a straggler
 * elsewhere holds the job up.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>
#include <errno.h>

#include "core/pipeline/follow/plan_controller_state.h"

_Static_assert((int)LULL_PLAN_CONTROLLER_DETOUR == (int)LULL_PLAN_CONTROLLER_PLANS,
               "detours stand behind plans");

/* Returns whether this plan holds in the iteration that runs, in the one before, or in a later one.
 */
static bool is_in_use(const struct lull_plan_controller *plan_controller, int32_t plan)
{
    for (uint32_t i = 0; i < LULL_PLAN_CONTROLLER_SLOTS; i++)
        if (plan_controller->slots[i].plan == plan && plan_controller->slots[i].number != 0 &&
            plan_controller->slots[i].number + 1 >= plan_controller->iteration)
            return true;
    return false;
}

/* The place held another plan before, so the intervals that were learnt of it no longer hold. */
static void forget_intervals(struct lull_plan_controller *plan_controller, int32_t plan)
{
    for (uint32_t i = 0; i < plan_controller->gpu_count; i++)
        if (plan_controller->gpus[i].learnt_plan == plan)
            plan_controller->gpus[i].learnt_plan = LULL_PLAN_CONTROLLER_HIGHEST;
}

/* The cause of the detour, such as a straggler, also affected one side of the latest pair, so that
 * pair is forgotten. */
static void rest_trial(struct lull_plan_controller *plan_controller)
{
    assert(!plan_controller->is_detoured);
    plan_controller->resting = plan_controller->trial;
    lull_trial_forget_last_pair(&plan_controller->evidence);
}

/* A detour needs a plan that holds or is tried, and a driver that is trusted and obeyed. */
static bool may_detour(const struct lull_plan_controller *plan_controller, int32_t place)
{
    if (plan_controller->leader < 0 || plan_controller->config.observe_only ||
        plan_controller->queue.suspended || plan_controller->is_disobedient)
        return false;
    return lull_plan_controller_trial_of_plan(plan_controller)->plan >= 0 &&
           !is_in_use(plan_controller, place);
}

/* Two places take turns, so that the iteration that still runs at the detour before keeps its
 * clocks. */
int lull_plan_controller_detour(struct lull_plan_controller *plan_controller,
                                const struct lull_plan_controller_op *const *ops)
{
    const int32_t place = LULL_PLAN_CONTROLLER_PLANS +
                          (int32_t)(plan_controller->detours % LULL_PLAN_CONTROLLER_DETOURS);
    const uint64_t test = plan_controller->trial.test;
    struct lull_plan_controller_plan *plan;

    if (!may_detour(plan_controller, place))
        return -EAGAIN;
    plan = lull_plan_controller_create_plan(plan_controller, ops, 0.0);
    if (plan == NULL)
        return -ENOMEM;
    lull_plan_controller_destroy_plan(plan_controller->plans[place]);
    plan_controller->plans[place] = plan;
    plan_controller->detours++;
    forget_intervals(plan_controller, place);
    if (!plan_controller->is_detoured)
        rest_trial(plan_controller);
    plan_controller->is_detoured = true;
    /* The trial has no evidence, because nothing is judged while its plan is held. */
    plan_controller->trial =
        (struct lull_plan_controller_trial){.plan = place, .test = test, .is_held = true};
    lull_plan_controller_begin_test(plan_controller, LULL_PLAN_CONTROLLER_KEPT,
                                    plan_controller->iteration + 2);
    return place;
}

/* Gives the plan back to the iteration that runs, and to the next one if it is decided already. */
static void rewrite_slots(struct lull_plan_controller *plan_controller)
{
    for (uint32_t i = 0; i < LULL_PLAN_CONTROLLER_SLOTS; i++) {
        struct lull_plan_controller_slot *slot = &plan_controller->slots[i];

        if (slot->number < plan_controller->iteration || slot->plan < LULL_PLAN_CONTROLLER_PLANS)
            continue;
        *slot = (struct lull_plan_controller_slot){
            .number = slot->number, .plan = plan_controller->trial.plan, .is_mixed = true};
    }
}

void lull_plan_controller_end_detour(struct lull_plan_controller *plan_controller)
{
    const uint64_t test = plan_controller->trial.test;

    if (!plan_controller->is_detoured)
        return;
    plan_controller->is_detoured = false;
    plan_controller->trial = plan_controller->resting;
    plan_controller->trial.test = test;
    lull_plan_controller_begin_test(plan_controller, plan_controller->trial.phase,
                                    plan_controller->iteration + 2);
    rewrite_slots(plan_controller);
    plan_controller->has_update = true;
}
