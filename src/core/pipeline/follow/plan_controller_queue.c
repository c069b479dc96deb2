/*
 * Requests of GPUs to the node's one driver, and their times: raisings one after the other, each
 * early enough for those after it (core/switching/driver_queue.h), and a lowering if there is room
 * for it (driver_queue.h). SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>

#include "base/clock.h"
#include "core/pipeline/follow/plan_controller_state.h"

static const int64_t ms_ns = 1000000;
/* A lowered clock is requested again after renewal_ns; the device's writer undoes it after
 * validity_ns without a renewal, and overdue_ns after a raising that was not requested in time. All
 * three are defaults; two renewals fit into the validity. */
static const int64_t renewal_ns = 1500 * ms_ns;
static const int64_t validity_ns = 4000 * ms_ns;
static const int64_t overdue_ns = 250 * ms_ns;
/* A lowering that the driver has not begun after this is left out, unless there is more time. */
static const int64_t min_patience_ns = 2 * ms_ns;

/* ---- requests of clocks ------------------------------------------------------------------- */

/* One round of requests: what the GPUs want, and the driver's plan for it. */
struct round {
    struct lull_plan_controller *plan_controller;
    int64_t now_ns;
    struct lull_plan_controller_decision
        wanted[LULL_PLAN_CONTROLLER_MAX_GPUS]; /* lowerings included */
    struct lull_driver_plan plan;              /* of raisings, as the clocks are now */
    int64_t begins_ns[LULL_DRIVER_PLAN_GPUS];
    struct lull_plan_controller_command *commands;
    uint32_t count;
    uint32_t max;
};

/* Collects every GPU's request while nothing is decided yet, so that raisings can be packed before
 * a lowering is admitted. */
static void plan_queue_survey(struct round *round)
{
    struct lull_plan_controller *plan_controller = round->plan_controller;

    lull_driver_queue_init_plan(&plan_controller->queue, &round->plan);
    for (uint32_t i = 0; i < plan_controller->gpu_count; i++) {
        const struct lull_plan_controller_gpu *gpu = &plan_controller->gpus[i];
        const int64_t now_ns = round->now_ns;
        struct lull_plan_controller_decision kept;

        round->wanted[i] =
            lull_plan_controller_decide_clock(plan_controller, gpu, now_ns, now_ns, UINT32_MAX);
        kept = round->wanted[i];
        if (kept.point > gpu->requested)
            kept = lull_plan_controller_decide_clock(plan_controller, gpu, now_ns, now_ns,
                                                     gpu->requested);
        round->plan.raise_by_ns[i] = kept.raise_ns;
    }
    lull_driver_plan_begins(&round->plan, round->begins_ns);
}

/* Writes a command. deadline_ns: when a lowering must have been begun; raise_ns: when the raising
 * that undoes it is due. */
static void plan_queue_post(struct round *round, uint32_t index, uint32_t point,
                            int64_t deadline_ns, int64_t raise_ns)
{
    struct lull_plan_controller_gpu *gpu = &round->plan_controller->gpus[index];
    const int64_t valid_until_ns =
        lull_earlier_ns(raise_ns, round->now_ns + validity_ns - overdue_ns) + overdue_ns;

    assert(round->count < round->max);
    round->commands[round->count++] = (struct lull_plan_controller_command){
        .gpu = index,
        .point = point,
        .deadline_ns = deadline_ns,
        .valid_until_ns = valid_until_ns,
    };
    if (point < gpu->requested) {
        gpu->raised_ns = round->now_ns;
        gpu->needed_ns = 0;
    }
    if (point != gpu->requested)
        lull_driver_queue_keep_busy(&round->plan_controller->queue, round->now_ns);
    gpu->requested = point;
    gpu->requested_ns = round->now_ns;
}

/* Posts the raisings that must be requested by now, so that none of those after them is late. */
static void post_raisings(struct round *round)
{
    struct lull_plan_controller *plan_controller = round->plan_controller;

    for (uint32_t i = 0; i < plan_controller->gpu_count && round->count < round->max; i++) {
        struct lull_plan_controller_gpu *gpu = &plan_controller->gpus[i];
        struct lull_plan_controller_decision *wanted = &round->wanted[i];

        if (round->begins_ns[i] <= round->now_ns)
            *wanted = lull_plan_controller_decide_clock(plan_controller, gpu, round->now_ns,
                                                        round->plan.raise_by_ns[i], gpu->requested);
        if (wanted->point >= gpu->requested)
            continue;
        plan_queue_post(round, i, wanted->point, INT64_MAX, wanted->raise_ns);
        round->plan.raise_by_ns[i] = wanted->raise_ns;
    }
    lull_driver_plan_begins(&round->plan, round->begins_ns);
}

static int64_t next_begin_ns(const struct round *round)
{
    return lull_driver_plan_next_ns(round->begins_ns, round->plan.count, INT64_MIN);
}

/* Finds the lowering that gains most low time. Returns false if none gains any. */
static bool plan_queue_find_lowering(const struct round *round, struct lull_lowering *lowering_out)
{
    const struct lull_plan_controller *plan_controller = round->plan_controller;
    struct lull_lowering wanted[LULL_PLAN_CONTROLLER_MAX_GPUS];
    const struct lull_lowering *best;
    uint32_t count = 0;

    for (uint32_t i = 0; i < plan_controller->gpu_count; i++)
        if (round->wanted[i].point > plan_controller->gpus[i].requested)
            wanted[count++] = (struct lull_lowering){.gpu = i,
                                                     .raise_by_ns = round->wanted[i].raise_ns,
                                                     .cost_ns = plan_controller->gpus[i].down_ns};
    best = lull_driver_queue_choose(&plan_controller->queue, &round->plan, round->now_ns, wanted,
                                    count);
    if (best != NULL)
        *lowering_out = *best;
    return best != NULL;
}

/* Time at which lowerings that have to wait may be looked at again. */
static int64_t lowering_wake_ns(const struct round *round)
{
    const struct lull_plan_controller *plan_controller = round->plan_controller;
    const int64_t next_ns = next_begin_ns(round);
    bool is_waiting = false;

    for (uint32_t i = 0; i < plan_controller->gpu_count; i++)
        is_waiting |= round->wanted[i].point > plan_controller->gpus[i].requested;
    if (!is_waiting)
        return INT64_MAX;
    if (plan_controller->queue.free_ns > round->now_ns)
        return plan_controller->queue.free_ns;
    if (next_ns == INT64_MAX)
        return INT64_MAX;
    return next_ns + round->plan.call_ns;
}

/* The time until which a lowering is worth beginning: the next raising must not wait for it. */
static int64_t lowering_deadline_ns(const struct round *round)
{
    const int64_t next_ns = next_begin_ns(round);
    const int64_t min_ns = round->now_ns + min_patience_ns;
    int64_t deadline_ns = round->now_ns + renewal_ns;

    if (next_ns != INT64_MAX)
        deadline_ns = next_ns - round->plan.call_ns;
    return lull_later_ns(deadline_ns, min_ns);
}

/* At most one lowering is posted per round, because each of them moves the raisings that the next
 * one must be weighed against. */
static void post_lowering(struct round *round)
{
    struct lull_lowering lowering;

    if (round->count == round->max ||
        !lull_driver_queue_may_lower(&round->plan_controller->queue, round->now_ns) ||
        !plan_queue_find_lowering(round, &lowering))
        return;
    round->plan.raise_by_ns[lowering.gpu] = lowering.raise_by_ns;
    lull_driver_plan_begins(&round->plan, round->begins_ns);
    plan_queue_post(round, lowering.gpu, round->wanted[lowering.gpu].point,
                    lowering_deadline_ns(round), lowering.raise_by_ns);
}

/* A lowered clock is undone by the device writer unless it is renewed, so that no GPU stays low
 * when this process dies. */
static void plan_queue_renew(struct round *round)
{
    struct lull_plan_controller *plan_controller = round->plan_controller;

    for (uint32_t i = 0; i < plan_controller->gpu_count && round->count < round->max; i++) {
        struct lull_plan_controller_gpu *gpu = &plan_controller->gpus[i];

        if (gpu->requested != 0 && round->now_ns >= gpu->requested_ns + renewal_ns)
            plan_queue_post(round, i, gpu->requested, round->now_ns + renewal_ns,
                            round->plan.raise_by_ns[i]);
    }
}

static int64_t plan_queue_wake_ns(const struct round *round)
{
    const struct lull_plan_controller *plan_controller = round->plan_controller;
    int64_t due_ns = lull_earlier_ns(lowering_wake_ns(round), next_begin_ns(round));

    for (uint32_t i = 0; i < plan_controller->gpu_count; i++) {
        const struct lull_plan_controller_gpu *gpu = &plan_controller->gpus[i];

        due_ns = lull_earlier_ns(due_ns, round->wanted[i].wake_ns);
        if (gpu->requested != 0)
            due_ns = lull_earlier_ns(due_ns, gpu->requested_ns + renewal_ns);
    }
    return due_ns;
}

uint32_t lull_plan_controller_ask_driver(struct lull_plan_controller *plan_controller,
                                         int64_t now_ns,
                                         struct lull_plan_controller_command *commands_out,
                                         uint32_t max)
{
    struct round round = {
        .plan_controller = plan_controller, .now_ns = now_ns, .commands = commands_out, .max = max};

    plan_queue_survey(&round);
    post_raisings(&round);
    post_lowering(&round);
    plan_queue_renew(&round);
    plan_controller->wake_ns = plan_queue_wake_ns(&round);
    return round.count;
}
