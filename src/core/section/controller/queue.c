/*
 * What GPUs with gaps ask of the node's driver, and when: raisings one after the other, a lowering
 * where there is room for it (driver_plan.h).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/section/controller/state.h"

#include "core/switching/driver_plan.h"

/* What a call takes, for the plan of the node's driver: a quantile of those seen. */
static const double usual_call = 0.75;
/* Time low that a lowering must win to be worth its calls. */
static const double least_gain_ms = 1.0;

void lull_controller_learn_driver(struct lull_controller *controller, double driver_ms)
{
    lull_quantile_add(&controller->driver_ms, driver_ms);
    controller->usual_driver_ms = lull_quantile_get(&controller->driver_ms, usual_call);
}

static double call_ms(const struct lull_controller *controller)
{
    return controller->driver_ms.count == 0
               ? lull_switch_cost_call_ms(&controller->gpus[0].cost, LULL_DIRECTION_UP, 0.5)
               : controller->usual_driver_ms;
}

static bool has_gaps(const struct lull_controller *controller)
{
    for (uint32_t i = 0; i < controller->gpu_count; i++)
        if (controller->gpus[i].has_gaps)
            return true;
    return false;
}

/* Of the plan's places only `count` are set: this runs at every poll. */
static void make_plan(const struct lull_controller *controller, struct lull_driver_plan *plan_out)
{
    plan_out->count = controller->gpu_count;
    plan_out->call_ns = (int64_t)(call_ms(controller) * 1e6);
    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        const struct lull_controlled_gpu *gpu = &controller->gpus[i];
        const bool is_low = gpu->has_gaps && gpu->feed.requested != 0;

        plan_out->raise_by_ns[i] = is_low ? gpu->feed.raise_by_ns : INT64_MAX;
    }
}

static int64_t sooner_ns(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void keep_driver_busy(struct lull_controller *controller, int64_t now_ns, int64_t call_ns)
{
    if (controller->driver_free_ns < now_ns)
        controller->driver_free_ns = now_ns;
    controller->driver_free_ns += call_ns;
}

static void raise_due(struct lull_controller *controller, struct lull_driver_plan *plan,
                      int64_t now_ns)
{
    int64_t begins_ns[LULL_DRIVER_PLAN_GPUS];

    lull_driver_plan_begins(plan, begins_ns);
    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        struct lull_controlled_gpu *gpu = &controller->gpus[i];

        if (!gpu->has_gaps || sooner_ns(begins_ns[i], gpu->feed.raise_at_ns) > now_ns)
            continue;
        plan->raise_by_ns[i] = INT64_MAX;
        if (!lull_feed_forward_raise(&gpu->feed))
            continue;
        lull_controller_post_feed(controller, gpu);
        gpu->raises_as_planned = true;
        keep_driver_busy(controller, now_ns, plan->call_ns);
    }
}

/* Not now: again when the next raising is over. Without one there is nothing to wait for. */
static void put_off(struct lull_controlled_gpu *gpu, const struct lull_driver_plan *plan,
                    int64_t now_ns)
{
    int64_t begins_ns[LULL_DRIVER_PLAN_GPUS];
    int64_t next_ns = INT64_MAX;

    lull_driver_plan_begins(plan, begins_ns);
    for (uint32_t i = 0; i < plan->count; i++)
        if (begins_ns[i] > now_ns)
            next_ns = sooner_ns(next_ns, begins_ns[i]);
    gpu->feed.lower_at_ns = next_ns == INT64_MAX ? INT64_MAX : next_ns + plan->call_ns;
}

/* Of the lowerings that are due, the one that wins most; NULL: none wins anything. */
static struct lull_controlled_gpu *find_lowering(struct lull_controller *controller,
                                                 const struct lull_driver_plan *plan,
                                                 int64_t now_ns)
{
    struct lull_controlled_gpu *best = NULL;
    int64_t best_ns = (int64_t)(least_gain_ms * 1e6);

    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        struct lull_controlled_gpu *gpu = &controller->gpus[i];
        int64_t gain_ns;

        if (!gpu->has_gaps || gpu->feed.lower_at_ns > now_ns)
            continue;
        gain_ns = lull_driver_plan_gain_ns(plan, i, now_ns, gpu->feed.raise_by_ns);
        if (gain_ns <= (int64_t)(least_gain_ms * 1e6))
            put_off(gpu, plan, now_ns);
        if (gain_ns <= best_ns)
            continue;
        best_ns = gain_ns;
        best = gpu;
    }
    return best;
}

void lull_controller_poll_gaps(struct lull_controller *controller, int64_t now_ns)
{
    struct lull_driver_plan plan;
    struct lull_controlled_gpu *lowered;

    if (!has_gaps(controller))
        return;
    make_plan(controller, &plan);
    for (uint32_t i = 0; i < controller->gpu_count; i++)
        if (controller->gpus[i].command_waits)
            keep_driver_busy(controller, now_ns, plan.call_ns);
    raise_due(controller, &plan, now_ns);
    if (controller->withheld || controller->driver_free_ns > now_ns)
        return;
    lowered = find_lowering(controller, &plan, now_ns);
    if (lowered == NULL)
        return;
    lull_controller_note_lowering(controller, lowered);
    lull_feed_forward_lower(&lowered->feed);
    lull_controller_post_feed(controller, lowered);
    keep_driver_busy(controller, now_ns, plan.call_ns);
}

int64_t lull_controller_gaps_wake_ns(const struct lull_controller *controller)
{
    int64_t begins_ns[LULL_DRIVER_PLAN_GPUS];
    int64_t wake_ns = INT64_MAX;
    struct lull_driver_plan plan;

    if (!has_gaps(controller))
        return INT64_MAX;
    make_plan(controller, &plan);
    lull_driver_plan_begins(&plan, begins_ns);
    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        const struct lull_controlled_gpu *gpu = &controller->gpus[i];

        if (!gpu->has_gaps)
            continue;
        wake_ns = sooner_ns(wake_ns, sooner_ns(begins_ns[i], gpu->feed.raise_at_ns));
        if (gpu->feed.lower_at_ns > controller->driver_free_ns)
            wake_ns = sooner_ns(wake_ns, gpu->feed.lower_at_ns);
        else if (controller->driver_free_ns > 0)
            wake_ns = sooner_ns(wake_ns, controller->driver_free_ns);
    }
    return wake_ns;
}
