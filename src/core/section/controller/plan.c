/*
 * The plan: sections with their targets, and what they are expected to do.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/section/controller/state.h"

#include <math.h>

/* Share of the tolerance that late raising may cost on average. */
static const double lateness_share = 0.2;
/* A descent of gaps tells apart so many clocks. */
enum { GAP_CLOCKS = 8 };

bool lull_controller_is_active(const struct lull_controlled_gpu *gpu)
{
    struct lull_track_totals totals;

    lull_track_totals(gpu->track, &totals);
    return !gpu->exited && !gpu->failed && totals.calls > 0;
}

bool lull_controller_is_known(const struct lull_controlled_gpu *gpu)
{
    return lull_track_phase(gpu->track) == LULL_TRACK_KNOWN;
}

static uint32_t scale_point(uint32_t point, uint32_t from, uint32_t to)
{
    if (from == to || from < 2 || to < 2)
        return point < to ? point : to - 1;
    return (uint32_t)lround((double)point * (double)(to - 1) / (double)(from - 1));
}

uint32_t lull_controller_point_on(const struct lull_controller *controller, uint32_t gpu,
                                  const struct lull_target *target, uint32_t point)
{
    return scale_point(point, target->descent.count, controller->gpus[gpu].points);
}

uint32_t lull_controller_planned_point(const struct lull_controller *controller,
                                       const struct lull_controlled_gpu *gpu, int32_t target_index,
                                       uint64_t iteration)
{
    const struct lull_target *target;
    uint32_t point;

    if (target_index == LULL_CONTROLLER_NO_TARGET || controller->phase == LULL_PHASE_LEARNING)
        return 0;
    if (iteration < gpu->base ||
        !lull_window_slot(&controller->schedule, iteration - gpu->base).candidate)
        return 0;
    target = &controller->targets[target_index];
    point = lull_controller_point_for((uint32_t)(gpu - controller->gpus), target,
                                      target_index == controller->current);
    if (target_index != controller->current)
        point = lull_controller_agreed_point(controller, target, point, iteration);
    return scale_point(point, target->descent.count, gpu->points);
}

uint32_t lull_controller_kept_point(const struct lull_controller *controller, uint32_t gpu,
                                    const struct lull_target *target)
{
    return lull_controller_point_on(controller, gpu, target,
                                    lull_controller_point_for(gpu, target, false));
}

/*
 * A run of calls: computation follows when the rank has been let go; being late on average costs
 * no more than a share of the tolerance.
 */
static void expect_calls(const struct lull_controller *controller,
                         const struct lull_controlled_gpu *gpu, struct lull_forecast *out)
{
    const double iteration_ms = lull_track_iteration_ms(gpu->track)->mean;
    const double allowed_ms = controller->config.tolerance_ratio * lateness_share * iteration_ms /
                              (double)controller->gpu_count;

    out->ahead_ms = lull_switch_cost_call_ms(&gpu->cost, LULL_DIRECTION_DOWN, 0.1);
    out->lead_ms = lull_switch_cost_lead_ms(&gpu->cost, allowed_ms);
    out->least_ms = lull_forecast_break_even_ms(out->down_ms, out->lead_ms);
}

/* What the design calls reactive: the clock follows the section, late on both sides. */
static void expect_no_forecast(const struct lull_controlled_gpu *gpu, struct lull_forecast *out)
{
    const double up_ms = lull_switch_cost_total_ms(&gpu->cost, LULL_DIRECTION_UP, 0.5);

    out->least_ms = lull_forecast_break_even_ms(out->down_ms, up_ms);
}

void lull_controller_forecast(const struct lull_controller *controller,
                              const struct lull_controlled_gpu *gpu,
                              const struct lull_section *section, struct lull_forecast *out)
{
    const uint32_t index = (uint32_t)(gpu - controller->gpus);

    *out = (struct lull_forecast){
        .length_ms = lull_quantile_get(&section->recent_length, 0.1),
        .gap_low_ms = lull_quantile_get(&section->recent_gap, 0.05),
        .gap_high_ms = lull_quantile_get(&section->recent_gap, 0.95),
        .down_ms = lull_switch_cost_total_ms(&gpu->cost, LULL_DIRECTION_DOWN, 0.5),
    };
    if (controller->config.reactive) {
        expect_no_forecast(gpu, out);
        return;
    }
    if (section->place != 0) {
        lull_controller_expect_gap(controller, gpu, section, out);
        return;
    }
    expect_calls(controller, gpu, out);
    /* The GPUs of a node queue in the driver: each starts one call before the next. */
    out->lead_ms += index * lull_switch_cost_call_ms(&gpu->cost, LULL_DIRECTION_UP, 0.5);
}

/* ---- targets ----------------------------------------------------------------------------- */

static int32_t find_target(const struct lull_controller *controller, uint64_t signature)
{
    for (uint32_t i = 0; i < controller->target_count; i++)
        if (controller->targets[i].signature == signature)
            return (int32_t)i;
    return LULL_CONTROLLER_NO_TARGET;
}

int32_t lull_controller_add_target(struct lull_controller *controller, uint64_t signature,
                                   enum lull_descent_strategy strategy)
{
    struct lull_target *target;
    uint32_t points = 1;

    if (controller->target_count == LULL_CONTROLLER_MAX_TARGETS)
        return LULL_CONTROLLER_NO_TARGET;
    for (uint32_t i = 0; i < controller->gpu_count; i++)
        if (controller->gpus[i].points > points)
            points = controller->gpus[i].points;
    target = &controller->targets[controller->target_count];
    *target = (struct lull_target){
        .signature = signature, .turn = LULL_CONTROLLER_NO_TURN, .refused_point = points};
    lull_descent_init(&target->descent, strategy, points);
    target->settled = lull_descent_done(&target->descent);
    return (int32_t)controller->target_count++;
}

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
 * A section's target. Those of one class share it; but of gaps, which come in all lengths, only
 * those that pay take part.
 */
static void map_section(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                        const struct lull_section *section, double least_gap_ms, int32_t *target)
{
    const bool is_forecast = section->recent_length.count >= LULL_CONTROLLER_MIN_OCCURRENCES;
    struct lull_forecast expected;
    bool pays = false;

    if (is_forecast) {
        lull_controller_forecast(controller, gpu, section, &expected);
        pays = lull_forecast_pays(&expected);
    }
    if (section->place != 0 && !controller->config.reactive)
        pays = is_forecast && expected.length_ms >= least_gap_ms;
    *target = find_target(controller, section->class);
    if (*target == LULL_CONTROLLER_NO_TARGET && pays) {
        *target = lull_controller_add_target(controller, section->class,
                                             section->is_cautious ? LULL_DESCENT_GALLOP
                                                                  : controller->config.strategy);
        if (*target != LULL_CONTROLLER_NO_TARGET && section->place != 0)
            make_gap_target(&controller->targets[*target]);
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
    const double least_gap_ms = lull_controller_choose_gaps(gpu);

    for (uint32_t i = 0; i < count; i++)
        map_section(controller, gpu, &sections[i], least_gap_ms, &gpu->target_of[i]);
}

/* Total time that the sections of a target take per iteration, over all GPUs. */
static double weight_ms(const struct lull_controller *controller, uint32_t target)
{
    double weight = 0.0;

    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        const struct lull_controlled_gpu *gpu = &controller->gpus[i];
        uint32_t count;
        const struct lull_section *sections = lull_track_sections(gpu->track, &count);

        for (uint32_t j = 0; j < count; j++)
            if (gpu->target_of[j] == (int32_t)target)
                weight += sections[j].length_ms.mean;
    }
    return weight;
}

int32_t lull_controller_next_target(const struct lull_controller *controller)
{
    int32_t best = LULL_CONTROLLER_NO_TARGET;
    double best_weight = -1.0;

    for (uint32_t i = 0; i < controller->target_count; i++) {
        double weight = weight_ms(controller, i);

        if (!controller->targets[i].settled && weight > best_weight) {
            best = (int32_t)i;
            best_weight = weight;
        }
    }
    return best;
}

/* The job has changed under a steady point: has it sections worth switching now? */
bool lull_controller_any_section_pays(const struct lull_controller *controller)
{
    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        const struct lull_controlled_gpu *gpu = &controller->gpus[i];
        uint32_t count;
        const struct lull_section *sections = lull_track_sections(gpu->track, &count);

        for (uint32_t j = 0;
             lull_controller_is_active(gpu) && lull_controller_is_known(gpu) && j < count; j++) {
            struct lull_forecast expected;

            lull_controller_forecast(controller, gpu, &sections[j], &expected);
            if (sections[j].recent_length.count >= LULL_CONTROLLER_MIN_OCCURRENCES &&
                lull_forecast_pays(&expected))
                return true;
        }
    }
    return false;
}
