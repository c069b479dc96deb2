/*
 * Beats: the steady point by turns with the next lower one (core/section/duty.h). Which duty is
 * likely to come nearer to the tolerance is reported by what the steady point's own trials have
 * cost; whether it does is for a proof to say.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>
#include <math.h>

#include "base/minmax.h"
#include "core/section/controller/state.h"

/* A duty that lowers the clock by less than this share of what the steady point does is not worth
 * its proof, which runs at the reference half of the time. */
static const double min_gain = 1.0 / 16.0;

/* So many GPUs may share the driver: a change within an iteration then waits for one call of a beat
 * at most. In virtual time the duty of sampled_rank-0 and -1, two GPUs, brings 1 % of energy more,
 * and that of megatron-3d, eight, is not proven within a thousand iterations. */
enum { MAX_SHARING = 2 };

bool lull_controller_is_low_slot(const struct lull_target *steady,
                                 const struct lull_pair_slot *slot)
{
    const struct lull_duty duty = lull_target_duty(steady);

    return slot->candidate && lull_duty_is_low(&duty, slot->lowered);
}

/* ---- whether ------------------------------------------------------------------------------ */

/* Many GPUs share the driver with the changes within their iterations, whose plan must not wait for
 * a beat's. */
static bool shares_driver(const struct lull_controller *controller)
{
    const struct lull_targets *targets = &controller->targets;
    const uint64_t present = lull_controller_present(controller);
    const bool has_many = __builtin_popcountll(present) > MAX_SHARING;

    for (uint32_t i = 0; i < targets->count && has_many; i++)
        if (lull_targets_is_within(targets, i) && lull_target_is_kept_low(&targets->list[i]))
            return true;
    return false;
}

/* Ranks that wait count on one steady point; other nodes would have to refine at the same time; and
 * with a tail that counts the lower point decides alone. */
static bool dither_may_refine(const struct lull_controller *controller,
                              const struct lull_target *steady)
{
    return steady->settled && steady->reason == LULL_REASON_DEGRADES_BELOW &&
           steady->descent.good + 1 < steady->descent.count &&
           steady->proven.common == steady->descent.good && steady->proven.duty.low == 0 &&
           !controller->config.together && !(controller->config.tail_tolerance_ratio > 0.0) &&
           !lull_slack_is_used(&controller->slack) && !shares_driver(controller);
}

/* The time that changing the clocks of all GPUs takes, one call after the other. */
static double change_ms(const struct lull_controller *controller)
{
    double calls_ms = 0.0;
    double settle_ms = 0.0;

    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        const struct lull_controlled_gpu *gpu = &controller->gpus[i];
        const double call_ms = lull_switch_cost_call_ms(&gpu->cost, LULL_DIRECTION_DOWN, 0.5);

        if (!lull_controller_takes_part(gpu))
            continue;
        calls_ms += call_ms;
        settle_ms = fmax(settle_ms,
                         lull_switch_cost_total_ms(&gpu->cost, LULL_DIRECTION_DOWN, 0.5) - call_ms);
    }
    return calls_ms + settle_ms;
}

/* ---- which -------------------------------------------------------------------------------- */

struct lull_duty lull_controller_find_duty(const struct lull_controller *controller)
{
    const struct lull_target *steady = lull_targets_steady(&controller->targets);
    struct lull_duty duty = {0};
    double slope;

    if (steady == NULL || !dither_may_refine(controller, steady))
        return duty;
    duty.point = steady->descent.good;
    duty.slot_iterations = lull_duty_slot_iterations(
        lull_quantile_get(
            &controller->gpus[lull_controller_lead(controller)].reference_iterations_ms, 0.5),
        change_ms(controller));
    slope = lull_controller_slope(controller, steady);
    if (duty.slot_iterations == 0 || !(slope > 0.0))
        return (struct lull_duty){0};
    for (duty.low = LULL_DUTY_SLOTS - 1; duty.low > 0; duty.low--) {
        const double point = duty.point + (double)duty.low / LULL_DUTY_SLOTS;

        if (slope * point <= lull_controller_wanted_ratio(controller) &&
            duty.low >= min_gain * LULL_DUTY_SLOTS * duty.point)
            return duty;
    }
    return (struct lull_duty){0};
}
