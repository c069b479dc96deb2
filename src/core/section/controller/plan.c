/*
 * The plan: which target and which point a section has, what is expected of its next occurrence,
 * and whether switching for it pays.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/minmax.h"
#include "core/section/controller/state.h"
#include "core/section/gaps/gap_choice.h"

/* Share of the tolerance that late raising may cost on average. */
static const double lateness_share = 0.2;
/* A descent of gaps distinguishes this many clocks: see make_gap_target(). */
enum { GAP_CLOCKS = 8 };
/*
 * The share of all GPUs' iterations in which a kernel may begin on a lowered clock. Less is earned
 * than the one in a hundred that is promised. With a full allowance a third more is aimed at, so
 * that a tail that looks longer than it is gets corrected: it settles where both are equal. With
 * much more it swings, and saves less on average. Measured on a recorded job in virtual time, six
 * seeds: 0.67 % of the iterations begin low, and 91 to 99 % of what is possible is saved
 * (bench/bench_latency.py).
 */
static const double late_earned = 0.0075;
static const double late_wanted = 0.01;
/* Largest allowance that a GPU can save up, and the one that it starts with: about the amount that
 * is left if as much is earned as is spent. */
static const double late_saved = 3.0;
static const double late_saved_at_first = 2.0;
/* With an empty allowance nothing is switched; with one just above that the controller is as
 * careful as with this fullness, and no more. */
static const double min_fullness = 0.05;
/* Gaps switched per second, on average: very frequent calls delay NCCL (its issue 1551). This many
 * are what the budget of the device's writer lets through without a pause. */
static const double gaps_per_s = 20.0;
/* With fewer changes of its own a GPU uses the changes of all GPUs of its model: a tail that is
 * known from some dozens of changes is off by a third. */
static const uint32_t own_changes = 1024;

/* ---- points ------------------------------------------------------------------------------ */

uint32_t lull_controller_point_on(const struct lull_controller *controller, uint32_t gpu,
                                  const struct lull_target *target, uint32_t point)
{
    return lull_targets_point_on(&controller->targets, gpu, target, point);
}

uint32_t lull_controller_planned_point(const struct lull_controller *controller,
                                       const struct lull_controlled_gpu *gpu, int32_t target_index,
                                       uint64_t iteration)
{
    const struct lull_targets *targets = &controller->targets;
    const uint32_t index = (uint32_t)(gpu - controller->gpus);
    const bool under_test = target_index == targets->current;
    const struct lull_target *target;
    struct lull_pair_slot slot;
    uint32_t point;

    if (target_index == LULL_CONTROLLER_NO_TARGET || controller->phase == LULL_PHASE_LEARNING)
        return 0;
    if (!lull_trial_slot(&controller->trial, index, iteration, &slot) || !slot.candidate)
        return 0;
    assert((uint32_t)target_index < targets->count);
    target = &targets->list[target_index];
    point = lull_target_point_for(target, index, under_test);
    if (target_index == targets->steady && lull_controller_is_low_slot(target, &slot))
        point++;
    if (!under_test)
        point = lull_controller_agreed_point(controller, target, point, iteration);
    point = lull_targets_point_on(targets, index, target, point);
    if (target_index == targets->steady)
        return point;
    return lull_controller_cut_point(controller, gpu, target, point);
}

bool lull_controller_uses_slack(const struct lull_controller *controller,
                                const struct lull_controlled_gpu *gpu, uint64_t iteration)
{
    const uint32_t index = (uint32_t)(gpu - controller->gpus);
    struct lull_pair_slot slot;

    if (controller->phase == LULL_PHASE_LEARNING ||
        controller->targets.steady == LULL_CONTROLLER_NO_TARGET ||
        lull_targets_is_profile_open(&controller->targets))
        return false;
    return lull_trial_slot(&controller->trial, index, iteration, &slot) && slot.candidate;
}

/* ---- what gaps need ---------------------------------------------------------------------- */

void lull_controller_init_allowance(struct lull_controller *controller)
{
    lull_allowance_init(&controller->late, late_earned, late_saved * controller->gpu_count,
                        late_saved_at_first * controller->gpu_count);
}

/* The share of the track's iterations in which something may be late, at this fullness. */
static double late_share(const struct lull_controlled_gpu *gpu, double fullness)
{
    return late_wanted * fmax(fullness, min_fullness) * gpu->fold;
}

/* A GPU that had seen a few slow changes of its own would otherwise never be switched again, and
 * never learn that they were an exception. */
static const struct lull_switch_cost *target_plan_cost_of(const struct lull_controlled_gpu *gpu)
{
    if (gpu->changes < own_changes)
        return &gpu->model_cost;
    return &gpu->cost;
}

struct lull_gap_need lull_controller_gap_need(const struct lull_controller *controller,
                                              const struct lull_controlled_gpu *gpu)
{
    const uint32_t sharing = lull_max_u32(gpu->switched_gaps, 1);
    struct lull_gap_need need;

    lull_gap_need_find(target_plan_cost_of(gpu),
                       late_share(gpu, lull_allowance_fullness(&controller->late)) / sharing,
                       &need);
    return need;
}

double lull_controller_stretch_ms(const struct lull_controlled_gpu *gpu,
                                  const struct lull_section *section)
{
    if (gpu->steady == 0)
        return 0.0;
    return section->stretch_ms;
}

static void expect_gap(const struct lull_controller *controller,
                       const struct lull_controlled_gpu *gpu, const struct lull_section *section,
                       struct lull_forecast *out)
{
    const struct lull_gap_need need = lull_controller_gap_need(controller, gpu);

    /* A gap that ends so early, or begins so late, is as rare as a driver so slow: both add up. */
    out->length_ms = lull_quantile_soft_least(&section->recent_length, need.lead_scale_ms);
    out->gap_high_ms = lull_quantile_soft_most(&section->recent_gap, need.ahead_scale_ms) +
                       lull_controller_stretch_ms(gpu, section);
    out->gap_low_ms = out->gap_high_ms;
    out->ahead_ms = need.ahead_ms;
    out->lead_ms = need.lead_ms;
    out->min_ms = need.min_ms;
    out->serve_ms = need.call_ms;
}

static int target_plan_descending(const void *a, const void *b)
{
    const double left = *(const double *)a;
    const double right = *(const double *)b;

    return (left < right) - (left > right);
}

/* Which gaps of a GPU are switched: those of this length or more, as looked at with this scale of
 * what may be late (lull_quantile_soft_least). */
struct gap_choice {
    double scale_ms;
    double min_ms; /* INFINITY: none is */
};

static bool target_plan_is_chosen(const struct gap_choice *choice,
                                  const struct lull_section *section)
{
    return lull_quantile_soft_least(&section->recent_length, choice->scale_ms) >= choice->min_ms;
}

/* Decides which gaps of this GPU are switched. */
static struct gap_choice choose_gaps(struct lull_controlled_gpu *gpu)
{
    const double iteration_ms = lull_track_iteration_ms(gpu->track)->mean;
    const double share = late_share(gpu, late_earned / late_wanted);
    struct lull_gap_need need;
    double lengths_ms[LULL_TRACK_MAX_SECTIONS];
    uint32_t lengths = 0;
    uint32_t count;
    const struct lull_section *sections = lull_track_sections(gpu->track, &count);

    lull_gap_need_find(target_plan_cost_of(gpu), share, &need);
    for (uint32_t i = 0; i < count; i++)
        if (sections[i].place != 0 &&
            sections[i].recent_length.count >= LULL_CONTROLLER_MIN_OCCURRENCES)
            lengths_ms[lengths++] =
                lull_quantile_soft_least(&sections[i].recent_length, need.lead_scale_ms);
    qsort(lengths_ms, lengths, sizeof(lengths_ms[0]), target_plan_descending);
    gpu->switched_gaps =
        lull_gap_choose(lengths_ms, lengths, (uint32_t)(gaps_per_s * iteration_ms * 1e-3) + 1,
                        target_plan_cost_of(gpu), share);
    return (struct gap_choice){
        .scale_ms = need.lead_scale_ms,
        .min_ms = gpu->switched_gaps == 0 ? INFINITY : lengths_ms[gpu->switched_gaps - 1],
    };
}

/* ---- forecasts --------------------------------------------------------------------------- */

/*
 * For a run of calls: computation continues as soon as the rank has been released, so a late
 * raising costs time; on average no more than a share of the tolerance.
 */
static void expect_calls(const struct lull_controller *controller,
                         const struct lull_controlled_gpu *gpu, struct lull_forecast *out)
{
    const double iteration_ms = lull_track_iteration_ms(gpu->track)->mean;
    const double allowed_ms = controller->config.tolerance_ratio * lateness_share * iteration_ms /
                              fmax(lull_controller_active_before(controller, UINT32_MAX), 1.0);

    out->ahead_ms = lull_switch_cost_call_ms(&gpu->cost, LULL_DIRECTION_DOWN, 0.1);
    out->lead_ms = lull_switch_cost_lead_ms(&gpu->cost, allowed_ms);
    out->min_ms = lull_forecast_break_even_ms(out->down_ms, out->lead_ms);
}

/* Reactive switching, for comparison: the clock follows the section, late on both sides. */
static void expect_no_forecast(const struct lull_controlled_gpu *gpu, struct lull_forecast *out)
{
    const double up_ms = lull_switch_cost_total_ms(&gpu->cost, LULL_DIRECTION_UP, 0.5);

    out->min_ms = lull_forecast_break_even_ms(out->down_ms, up_ms);
}

void lull_controller_forecast(const struct lull_controller *controller,
                              const struct lull_controlled_gpu *gpu,
                              const struct lull_section *section, struct lull_forecast *out)
{
    const uint32_t index = (uint32_t)(gpu - controller->gpus);
    const double stretch_ms = lull_controller_stretch_ms(gpu, section);

    assert(index < controller->gpu_count);
    *out = (struct lull_forecast){
        .length_ms = lull_quantile_get(&section->recent_length, 0.1),
        .gap_low_ms = lull_quantile_get(&section->recent_gap, 0.05) + stretch_ms,
        .gap_high_ms = lull_quantile_get(&section->recent_gap, 0.95) + stretch_ms,
        .down_ms = lull_switch_cost_total_ms(&gpu->cost, LULL_DIRECTION_DOWN, 0.5),
    };
    if (controller->config.reactive) {
        expect_no_forecast(gpu, out);
        return;
    }
    if (section->place != 0) {
        expect_gap(controller, gpu, section, out);
        return;
    }
    expect_calls(controller, gpu, out);
    /* The GPUs of a node queue in the driver, so each raising waits for those of the GPUs before.
     */
    out->lead_ms += lull_controller_active_before(controller, index) *
                    lull_switch_cost_call_ms(&gpu->cost, LULL_DIRECTION_UP, 0.5);
}

/* ---- targets ----------------------------------------------------------------------------- */

/*
 * Most of a gap's saving comes from the first steps down; the last ones slow communication, and the
 * longer iteration costs more energy than they save. So the search need not be fine.
 */
static void make_gap_target(struct lull_target *target)
{
    target->of_gaps = true;
    lull_descent_coarsen(&target->descent, target->descent.count / GAP_CLOCKS);
}

/*
 * Finds the target of a section. Sections of one class share it; but of gaps, which come in all
 * lengths, only those that pay take part.
 */
static void map_section(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                        const struct lull_section *section, const struct gap_choice *choice,
                        int32_t *target)
{
    const bool is_forecast = section->recent_length.count >= LULL_CONTROLLER_MIN_OCCURRENCES;
    struct lull_forecast expected;
    bool pays = false;

    if (is_forecast) {
        lull_controller_forecast(controller, gpu, section, &expected);
        pays = lull_forecast_pays(&expected);
    }
    if (section->place != 0 && !controller->config.reactive)
        pays = is_forecast && target_plan_is_chosen(choice, section);
    *target = lull_targets_find(&controller->targets, section->class);
    if (*target == LULL_CONTROLLER_NO_TARGET && pays) {
        *target = lull_targets_add(&controller->targets, section->class,
                                   section->is_cautious ? LULL_DESCENT_GALLOP
                                                        : controller->config.strategy);
        if (*target != LULL_CONTROLLER_NO_TARGET && section->place != 0)
            make_gap_target(&controller->targets.list[*target]);
    }
    if (section->place != 0 && is_forecast && !pays)
        *target = LULL_CONTROLLER_NO_TARGET;
}

/* Finds which sections of this GPU are worth switching, and the target of each. */
void lull_controller_map_sections(struct lull_controller *controller,
                                  struct lull_controlled_gpu *gpu)
{
    uint32_t count;
    const struct lull_section *sections = lull_track_sections(gpu->track, &count);
    const struct gap_choice choice = choose_gaps(gpu);

    for (uint32_t i = 0; i < count; i++)
        map_section(controller, gpu, &sections[i], &choice, &gpu->target_of[i]);
}
