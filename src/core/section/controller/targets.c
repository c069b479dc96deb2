/* SPDX-License-Identifier: Apache-2.0 */
#include "core/section/controller/targets.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/minmax.h"
#include "core/section/controller/state.h"

/* Power samples on both sides before they may speak against a point. */
enum { MIN_POWER_SAMPLES = 8 };
/* Sections of one class that take less than this share of the GPUs' time save less than a search
 * costs that runs at the reference half of the time, as long as a run is not long. In
 * docs/research/measurements/joint.md the ten classes of gaps of `megatron-3d`, one of eight ranks
 * being slower by a tenth, take 0.8 to 2.7 % each and save 0.5 % together; searching them took 500
 * of 1000 iterations. Those of recorded jobs there take 8 % and more. */
static const double min_share = 0.03;
/* The profile's target has no sections: no class of sections has this signature. */
static const uint64_t profile_signature = UINT64_MAX;

void lull_targets_init(struct lull_targets *targets, const struct lull_controller_config *config,
                       const struct lull_controlled_gpu *gpus, uint32_t gpu_count)
{
    *targets = (struct lull_targets){
        .takes_all = config->only_sections || config->together,
        .config = config,
        .gpus = gpus,
        .gpu_count = gpu_count,
        .steady = LULL_CONTROLLER_NO_TARGET,
        .profile = LULL_CONTROLLER_NO_TARGET,
        .current = LULL_CONTROLLER_NO_TARGET,
    };
}

/* ---- the list ---------------------------------------------------------------------------- */

int32_t lull_targets_find(const struct lull_targets *targets, uint64_t signature)
{
    for (uint32_t i = 0; i < targets->count; i++)
        if (targets->list[i].signature == signature)
            return (int32_t)i;
    return LULL_CONTROLLER_NO_TARGET;
}

int32_t lull_targets_add(struct lull_targets *targets, uint64_t signature,
                         enum lull_descent_strategy strategy)
{
    struct lull_target *target;
    uint32_t points = 1;

    if (targets->count == LULL_CONTROLLER_MAX_TARGETS)
        return LULL_CONTROLLER_NO_TARGET;
    for (uint32_t i = 0; i < targets->gpu_count; i++)
        if (targets->gpus[i].points > points)
            points = targets->gpus[i].points;
    target = &targets->list[targets->count];
    *target = (struct lull_target){
        .signature = signature, .turn = LULL_CONTROLLER_NO_TURN, .refused_point = points};
    lull_descent_init(&target->descent, strategy, points);
    target->settled = lull_descent_done(&target->descent);
    if (target->settled)
        target->reason = LULL_REASON_LOWEST;
    return (int32_t)targets->count++;
}

void lull_targets_add_profile(struct lull_targets *targets)
{
    struct lull_target *profile;

    targets->profile = lull_targets_add(targets, profile_signature, LULL_DESCENT_STEP);
    if (targets->profile == LULL_CONTROLLER_NO_TARGET)
        return;
    profile = &targets->list[targets->profile];
    lull_descent_init(&profile->descent, LULL_DESCENT_STEP, 2);
    profile->refused_point = 2;
    profile->settled = false;
    profile->reason = LULL_REASON_NONE;
    profile->saving = (struct lull_profile_saving){NAN, NAN, NAN};
}

bool lull_targets_is_within(const struct lull_targets *targets, uint32_t index)
{
    return (int32_t)index != targets->steady && (int32_t)index != targets->profile;
}

/* Total time that the sections of a target take per iteration, over all GPUs. */
static double weight_ms(const struct lull_targets *targets, uint32_t target)
{
    double weight = 0.0;

    for (uint32_t i = 0; i < targets->gpu_count; i++) {
        const struct lull_controlled_gpu *gpu = &targets->gpus[i];
        uint32_t count;
        const struct lull_section *sections = lull_track_sections(gpu->track, &count);

        for (uint32_t j = 0; j < count; j++)
            if (gpu->target_of[j] == (int32_t)target)
                weight += sections[j].length_ms.mean;
    }
    return weight;
}

/* Returns whether a target is left out for now: there is more to save elsewhere. */
static bool is_left_out(const struct lull_targets *targets, uint32_t target)
{
    double iterations_ms = 0.0;

    if (targets->takes_all || !lull_targets_is_within(targets, target))
        return false;
    if (targets->list[target].is_untried)
        return true;
    for (uint32_t i = 0; i < targets->gpu_count; i++)
        if (lull_controller_takes_part(&targets->gpus[i]))
            iterations_ms += lull_track_iteration_ms(targets->gpus[i].track)->mean;
    return weight_ms(targets, target) < min_share * iterations_ms;
}

void lull_targets_explain_left_out(struct lull_targets *targets)
{
    for (uint32_t i = 0; i < targets->count; i++) {
        struct lull_target *target = &targets->list[i];

        if (target->settled || !is_left_out(targets, i))
            continue;
        target->reason = target->is_untried ? LULL_REASON_UNTRIED : LULL_REASON_SHORT;
    }
}

bool lull_targets_take_left_out(struct lull_targets *targets)
{
    targets->takes_all = true;
    return lull_targets_next(targets) != LULL_CONTROLLER_NO_TARGET;
}

int32_t lull_targets_next(const struct lull_targets *targets)
{
    int32_t best = LULL_CONTROLLER_NO_TARGET;
    double best_weight = -1.0;

    if (targets->profile != LULL_CONTROLLER_NO_TARGET && !targets->list[targets->profile].settled)
        return targets->profile;
    for (uint32_t i = 0; i < targets->count; i++) {
        double weight = weight_ms(targets, i);

        if (!targets->list[i].settled && lull_targets_is_within(targets, i) &&
            weight > best_weight && !is_left_out(targets, i)) {
            best = (int32_t)i;
            best_weight = weight;
        }
    }
    if (best == LULL_CONTROLLER_NO_TARGET && targets->steady != LULL_CONTROLLER_NO_TARGET &&
        !targets->list[targets->steady].settled)
        return targets->steady;
    return best;
}

/* ---- points ------------------------------------------------------------------------------ */

/* The point of a clock list of length `from` on one of length `to`. */
static uint32_t scale_point(uint32_t point, uint32_t from, uint32_t to)
{
    if (from == to || from < 2 || to < 2)
        return lull_min_u32(point, to - 1);
    return (uint32_t)lround((double)point * (double)(to - 1) / (double)(from - 1));
}

uint32_t lull_targets_point_on(const struct lull_targets *targets, uint32_t gpu,
                               const struct lull_target *target, uint32_t point)
{
    assert(gpu < targets->gpu_count && target->descent.count >= 1);
    return scale_point(point, target->descent.count, targets->gpus[gpu].points);
}

uint32_t lull_controller_kept_point(const struct lull_controller *controller, uint32_t gpu,
                                    const struct lull_target *target)
{
    const struct lull_target_points *proven = &target->proven;
    const uint32_t point =
        proven->has_own ? proven->own[gpu] : lull_target_common_point(target, gpu, proven->common);

    return lull_targets_point_on(&controller->targets, gpu, target, point);
}

/* ---- verdicts ---------------------------------------------------------------------------- */

static bool saves_nothing(const struct lull_target *target)
{
    return target->power_reference_w.count >= MIN_POWER_SAMPLES &&
           target->power_lowered_w.count >= MIN_POWER_SAMPLES &&
           target->power_lowered_w.mean >= target->power_reference_w.mean;
}

/* The target's search is over. */
static void target_settle(struct lull_target *target)
{
    if (target->descent.good > 0 && saves_nothing(target)) {
        lull_target_drop_own(target);
        lull_descent_init(&target->descent, target->descent.strategy, 1);
        target->proven = (struct lull_target_points){0};
        target->reason = LULL_REASON_SAVES_NOTHING;
    } else if (target->descent.good == target->descent.count - 1) {
        target->reason = LULL_REASON_LOWEST;
    } else {
        target->reason = LULL_REASON_DEGRADES_BELOW;
    }
    target->settled = true;
    assert(target->descent.good < target->descent.count);
}

void lull_targets_conclude(const struct lull_targets *targets, struct lull_target *target,
                           enum lull_verdict verdict)
{
    assert(!target->settled);
    lull_target_take_verdict(target, verdict);
    if (!lull_target_goes_on(targets, target))
        target_settle(target);
}

/* ---- what is proven ---------------------------------------------------------------------- */

struct lull_duty lull_target_duty(const struct lull_target *target)
{
    if (!target->settled || target->duty.point != target->descent.good)
        return (struct lull_duty){0};
    return target->duty;
}

static struct lull_target_points found_points(const struct lull_target *target)
{
    struct lull_target_points points = {
        .common = target->descent.good,
        .duty = lull_target_duty(target),
        .has_own = target->has_own,
    };

    if (target->has_own)
        memcpy(points.own, target->own_point, sizeof(points.own));
    return points;
}

static bool is_proven(const struct lull_target *target)
{
    const struct lull_target_points *proven = &target->proven;

    if (target->has_own != proven->has_own || lull_target_duty(target).low != proven->duty.low)
        return false;
    if (target->has_own)
        return memcmp(target->own_point, proven->own, sizeof(proven->own)) == 0;
    return target->descent.good == proven->common;
}

void lull_targets_prove(struct lull_targets *targets)
{
    for (uint32_t i = 0; i < targets->count; i++)
        if (targets->list[i].settled) { /* others were not in force */
            targets->list[i].proven = found_points(&targets->list[i]);
            targets->list[i].duty = targets->list[i].proven.duty;
        }
}

void lull_targets_disprove(struct lull_targets *targets)
{
    for (uint32_t i = 0; i < targets->count; i++)
        targets->list[i].proven = (struct lull_target_points){0};
}

bool lull_targets_is_profile_open(const struct lull_targets *targets)
{
    const struct lull_target *profile = lull_targets_profile(targets);

    return profile != NULL && (!profile->settled || !is_proven(profile));
}

bool lull_targets_has_profile(const struct lull_targets *targets)
{
    const struct lull_target *profile = lull_targets_profile(targets);

    return profile != NULL && (!profile->settled || profile->descent.good > 0);
}

void lull_targets_drop_profile(struct lull_targets *targets, enum lull_settle_reason reason)
{
    struct lull_target *profile;

    if (targets->profile == LULL_CONTROLLER_NO_TARGET)
        return;
    profile = &targets->list[targets->profile];
    profile->proven = (struct lull_target_points){0};
    lull_descent_back_off(&profile->descent, 0, profile->descent.count);
    profile->settled = true;
    profile->reason = reason;
    assert(lull_descent_done(&profile->descent) && is_proven(profile));
}

bool lull_targets_want_proof_first(const struct lull_targets *targets)
{
    const struct lull_target *profile = lull_targets_profile(targets);

    if (profile != NULL && profile->settled && !is_proven(profile))
        return true;
    if (targets->steady == LULL_CONTROLLER_NO_TARGET ||
        lull_targets_next(targets) != targets->steady ||
        targets->list[targets->steady].proven.common > 0)
        return false;
    for (uint32_t i = 0; i < targets->count; i++)
        if ((int32_t)i != targets->steady && !is_proven(&targets->list[i]))
            return true;
    return false;
}

bool lull_targets_are_proven(const struct lull_targets *targets)
{
    for (uint32_t i = 0; i < targets->count; i++)
        if (!is_proven(&targets->list[i]))
            return false;
    return true;
}

double lull_target_below_ratio(const struct lull_target *target)
{
    return (double)target->proven.duty.low / LULL_DUTY_SLOTS;
}

bool lull_target_is_kept_low(const struct lull_target *target)
{
    return target->proven.common > 0 || target->proven.has_own || target->proven.duty.low > 0;
}

bool lull_targets_any_is_proven(const struct lull_targets *targets)
{
    for (uint32_t i = 0; i < targets->count; i++)
        if (lull_target_is_kept_low(&targets->list[i]))
            return true;
    return false;
}

bool lull_targets_are_lowered(const struct lull_targets *targets)
{
    for (uint32_t i = 0; i < targets->count; i++)
        if (targets->list[i].descent.good > 0 || targets->list[i].has_own ||
            lull_target_duty(&targets->list[i]).low > 0)
            return true;
    return false;
}

/* Gives up a duty that is not proven, before anything else; true: that may be enough. A search for
 * one continues with half of it. */
static bool back_off_duty(struct lull_target *target, uint32_t points)
{
    struct lull_duty *duty = &target->duty;

    if (lull_target_duty(target).low == 0)
        return false;
    duty->low = target->proven.common == target->descent.good ? duty->low / 2 : 0;
    if (points >= target->descent.count || duty->low <= target->proven.duty.low)
        *duty = target->proven.duty;
    return points < target->descent.count || is_proven(target);
}

/* Points of single GPUs are given up together: those that were proven come back. */
static void target_back_off(struct lull_target *target, uint32_t points)
{
    if (back_off_duty(target, points))
        return;
    lull_target_drop_own(target);
    if (target->proven.has_own) {
        target->has_own = true;
        memcpy(target->own_point, target->proven.own, sizeof(target->own_point));
        target->settled = true;
        return;
    }
    lull_descent_back_off(&target->descent, target->proven.common, points);
    target->settled = lull_descent_done(&target->descent);
    target->reason = target->settled ? LULL_REASON_DEGRADES_BELOW : LULL_REASON_NONE;
}

void lull_targets_back_off(struct lull_targets *targets, uint32_t points)
{
    bool any = false;

    for (uint32_t i = 0; i < targets->count; i++) {
        if ((int32_t)i == targets->profile || is_proven(&targets->list[i]))
            continue;
        target_back_off(&targets->list[i], points);
        any = true;
    }
    if (!any && lull_targets_is_profile_open(targets))
        target_back_off(&targets->list[targets->profile], points);
}

void lull_targets_give_up(struct lull_targets *targets)
{
    for (uint32_t i = 0; i < targets->count; i++) {
        struct lull_target *target = &targets->list[i];

        if (is_proven(target))
            continue;
        target_back_off(target, target->descent.count);
        target->reason = LULL_REASON_DEGRADES_BELOW;
        assert(target->settled && is_proven(target));
    }
}

bool lull_targets_reopen(struct lull_targets *targets)
{
    bool any = false;

    for (uint32_t i = 0; i < targets->count; i++) {
        struct lull_target *target = &targets->list[i];

        if (target->reason != LULL_REASON_DEGRADES_BELOW || (int32_t)i == targets->profile)
            continue; /* a profile is tested once in a run */
        lull_target_reopen(targets, target);
        any |= !target->settled;
    }
    return any;
}

bool lull_targets_have_sections(const struct lull_targets *targets)
{
    uint32_t others = targets->steady != LULL_CONTROLLER_NO_TARGET;

    others += targets->profile != LULL_CONTROLLER_NO_TARGET;
    return targets->count > others;
}

const struct lull_target *lull_targets_steady(const struct lull_targets *targets)
{
    return targets->steady == LULL_CONTROLLER_NO_TARGET ? NULL : &targets->list[targets->steady];
}

const struct lull_target *lull_targets_profile(const struct lull_targets *targets)
{
    return targets->profile == LULL_CONTROLLER_NO_TARGET ? NULL : &targets->list[targets->profile];
}

const struct lull_target *lull_targets_descending(const struct lull_targets *targets)
{
    return targets->current == LULL_CONTROLLER_NO_TARGET ? NULL : &targets->list[targets->current];
}
