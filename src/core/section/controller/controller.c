/* SPDX-License-Identifier: Apache-2.0 */
#include "core/section/controller/state.h"

#include <stdlib.h>

/* Validity of a steady point; it is renewed at every iteration. */
static const int64_t steady_valid_ns = INT64_C(5000000000);

void lull_controller_config_default(struct lull_controller_config *config)
{
    *config = (struct lull_controller_config){
        .tolerance_ratio = 0.01,
        .steady_tolerance_ratio = LULL_STEADY_TOLERANCE,
        .confidence = 0.95,
        .strategy = LULL_DESCENT_BISECT,
        .window_ms = 300.0,
        .window_iterations = 5,
    };
}

struct lull_controller *lull_controller_create(const struct lull_controller_config *config,
                                               uint32_t gpu_count, const uint32_t *point_counts)
{
    struct lull_controller *controller = calloc(1, sizeof(*controller));

    if (controller == NULL)
        return NULL;
    controller->config = *config;
    controller->current = LULL_CONTROLLER_NO_TARGET;
    controller->worst_rank = LULL_CONTROLLER_COUPLED;
    controller->settled_stretch = LULL_CONTROLLER_SETTLED_STRETCH;
    controller->check_spacing = LULL_CONTROLLER_CHECK_SPACING;
    for (uint32_t i = 0; i < gpu_count; i++) {
        struct lull_controlled_gpu *gpu = &controller->gpus[i];

        gpu->track = lull_track_create(true);
        if (gpu->track == NULL) {
            lull_controller_destroy(controller);
            return NULL;
        }
        gpu->points = point_counts[i];
        gpu->model = UINT32_MAX;
        gpu->open_section = -1;
        gpu->expected_section = -1;
        lull_feed_forward_init(&gpu->feed);
        lull_switch_calibration_init(&gpu->calibration, i);
        controller->gpu_count++;
    }
    lull_controller_init_gaps(controller);
    return controller;
}

void lull_controller_destroy(struct lull_controller *controller)
{
    if (controller == NULL)
        return;
    for (uint32_t i = 0; i < controller->gpu_count; i++)
        lull_track_destroy(controller->gpus[i].track);
    free(controller);
}

/* ---- commands ---------------------------------------------------------------------------- */

static void post(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                 uint32_t point, int64_t deadline_ns, int64_t valid_until_ns)
{
    if (point != 0 && (gpu->failed || controller->withheld))
        return;
    controller->went_deep |= point > 1;
    gpu->command = (struct lull_command){
        .gpu = (uint32_t)(gpu - controller->gpus),
        .point = point,
        .deadline_ns = deadline_ns,
        .valid_until_ns = valid_until_ns,
    };
    gpu->command_waits = true;
    gpu->raises_as_planned = false;
}

void lull_controller_post_feed(struct lull_controller *controller, struct lull_controlled_gpu *gpu)
{
    post(controller, gpu, gpu->feed.requested, gpu->feed.deadline_ns, gpu->feed.valid_until_ns);
}

void lull_controller_raise_now(struct lull_controller *controller, struct lull_controlled_gpu *gpu)
{
    if (lull_feed_forward_raise(&gpu->feed) || lull_switch_calibration_stop(&gpu->calibration))
        lull_controller_post_feed(controller, gpu);
}

/* ---- calls ------------------------------------------------------------------------------- */

static void section_begins(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                           uint32_t index, int64_t now_ns)
{
    uint32_t count;
    const struct lull_section *section = &lull_track_sections(gpu->track, &count)[index];
    uint32_t point = lull_controller_planned_point(controller, gpu, gpu->target_of[index],
                                                   lull_track_iteration(gpu->track));

    gpu->open_section = (int32_t)index;
    if (section->recent_length.count < LULL_CONTROLLER_MIN_OCCURRENCES)
        point = 0;
    if (gpu->expected_section != (int32_t)index)
        lull_controller_forecast(controller, gpu, section, &gpu->expected);
    if (!lull_feed_forward_begin(&gpu->feed, now_ns, point, &gpu->expected))
        return;
    lull_controller_post_feed(controller, gpu);
    gpu->command.answers_ns = point == 0 ? 0 : now_ns;
}

static void section_ends(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                         uint32_t index, int64_t now_ns)
{
    uint32_t count;
    const struct lull_section *sections = lull_track_sections(gpu->track, &count);
    uint32_t next = (index + 1) % count;
    uint64_t iteration = lull_track_iteration(gpu->track) + (next <= index ? 1 : 0);
    uint32_t point =
        lull_controller_planned_point(controller, gpu, gpu->target_of[next], iteration);

    gpu->open_section = -1;
    if (sections[next].recent_length.count < LULL_CONTROLLER_MIN_OCCURRENCES)
        point = 0;
    lull_controller_forecast(controller, gpu, &sections[next], &gpu->expected);
    gpu->expected_section = (int32_t)next;
    if (lull_feed_forward_end(&gpu->feed, now_ns, point, &gpu->expected))
        lull_controller_post_feed(controller, gpu);
}

static void take_section(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                         const struct lull_track_note *note, int64_t now_ns)
{
    if (note->begun_section >= 0)
        section_begins(controller, gpu, (uint32_t)note->begun_section, now_ns);
    if (note->ended_section >= 0)
        section_ends(controller, gpu, (uint32_t)note->ended_section, now_ns);
}

static void take_gap(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                     const struct lull_track_note *note, int64_t now_ns)
{
    if (note->begun_section >= 0)
        lull_controller_gap_begins(controller, gpu, (uint32_t)note->begun_section, now_ns);
    if (note->ended_section >= 0)
        lull_controller_gap_ends(controller, gpu, (uint32_t)note->ended_section, now_ns);
}

static void apply_steady(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                         int64_t now_ns)
{
    uint32_t point =
        lull_controller_planned_point(controller, gpu, 0, lull_track_iteration(gpu->track));

    if (point == gpu->feed.requested && (point == 0 || now_ns < gpu->steady_renew_ns))
        return;
    gpu->feed.requested = point;
    gpu->steady_renew_ns = now_ns + steady_valid_ns / 4;
    post(controller, gpu, point, now_ns + steady_valid_ns, now_ns + steady_valid_ns);
}

void lull_controller_teach_cost(struct lull_controller *controller, uint32_t gpu,
                                const struct lull_switch_cost *cost)
{
    controller->gpus[gpu].cost = *cost;
    controller->gpus[gpu].model_cost = *cost;
    if (cost->total_ms[LULL_DIRECTION_DOWN].count >= LULL_CALIBRATION_PULSES &&
        cost->total_ms[LULL_DIRECTION_UP].count >= LULL_CALIBRATION_PULSES)
        lull_switch_calibration_skip(&controller->gpus[gpu].calibration);
}

void lull_controller_set_model(struct lull_controller *controller, uint32_t gpu, uint32_t model)
{
    controller->gpus[gpu].model = model;
}

static void forget_sections(struct lull_controlled_gpu *gpu)
{
    gpu->open_section = -1;
    gpu->expected_section = -1;
    gpu->low_section = -1;
    gpu->ahead_section = -1;
    gpu->low = (struct lull_low_interval){0};
    gpu->has_gaps = false;
    /* An inner loop may have passed for the iteration: its times say nothing of the next one. */
    gpu->reference_iterations_ms = (struct lull_quantile){0};
    for (uint32_t i = 0; i < LULL_TRACK_MAX_SECTIONS; i++)
        gpu->target_of[i] = LULL_CONTROLLER_NO_TARGET;
}

void lull_controller_take_call(struct lull_controller *controller, uint32_t index,
                               const struct lull_call *call)
{
    struct lull_controlled_gpu *gpu = &controller->gpus[index];
    struct lull_track_note note = lull_track_take(gpu->track, call);

    controller->now_ns = call->time_ns;
    if (note.deviated || note.became_known)
        forget_sections(gpu);
    if (note.deviated) {
        lull_controller_raise_now(controller, gpu);
        lull_controller_reconsider(controller);
    }
    if (note.became_known && gpu->points > 1 && !controller->config.observe_only &&
        !controller->withheld)
        lull_switch_calibration_start(&gpu->calibration, call->time_ns);
    if (note.iteration_ended) {
        lull_allowance_earn(&controller->late, gpu->fold);
        gpu->late_now = 0;
        lull_controller_note_iteration(controller, gpu, note.iteration_ms);
        if (controller->phase == LULL_PHASE_LEARNING)
            lull_controller_reconsider(controller);
    }
    if (controller->steady) {
        if (note.iteration_ended)
            apply_steady(controller, gpu, call->time_ns);
        return;
    }
    if (lull_switch_calibration_runs(&gpu->calibration))
        return;
    gpu->has_gaps = call->place != 0 && !controller->config.reactive;
    if (gpu->has_gaps)
        take_gap(controller, gpu, &note, call->time_ns);
    else
        take_section(controller, gpu, &note, call->time_ns);
}

void lull_controller_take_fold(struct lull_controller *controller, uint32_t index, uint32_t fold)
{
    controller->gpus[index].fold = fold;
}

void lull_controller_take_exit(struct lull_controller *controller, uint32_t index)
{
    struct lull_controlled_gpu *gpu = &controller->gpus[index];

    if (gpu->exited)
        return;
    lull_controller_raise_now(controller, gpu);
    gpu->exited = true;
    if (controller->phase == LULL_PHASE_LEARNING)
        return;
    lull_joint_guard_leave(&controller->guard, index);
    lull_joint_guard_leave(&controller->tail_guard, index);
    lull_controller_look_for_pair(controller);
}

void lull_controller_hold(struct lull_controller *controller, bool held)
{
    if (held == controller->held)
        return;
    controller->held = held;
    for (uint32_t i = 0; held && i < controller->gpu_count; i++)
        lull_controller_raise_now(controller, &controller->gpus[i]);
    lull_controller_reconsider(controller);
}

bool lull_controller_take_start(struct lull_controller *controller, uint32_t index)
{
    struct lull_controlled_gpu *gpu = &controller->gpus[index];
    struct lull_track *track = lull_track_create(true);

    if (track == NULL)
        return false;
    lull_track_destroy(gpu->track);
    gpu->track = track;
    gpu->exited = false;
    forget_sections(gpu);
    return true;
}

/*
 * What waited in the driver's queue against the plan says nothing of what can be planned; what
 * waited there at all, nothing of other GPUs.
 */
static void learn_cost(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                       const struct lull_switch_outcome *outcome)
{
    const enum lull_direction direction =
        outcome->point == 0 ? LULL_DIRECTION_UP : LULL_DIRECTION_DOWN;
    const bool is_plain = gpu->has_gaps && !(outcome->point == 0 && gpu->raises_as_planned);

    gpu->changes++;
    lull_switch_cost_add_outcome(&gpu->cost, direction,
                                 is_plain ? outcome->driver_ms : outcome->call_ms, outcome);
    for (uint32_t i = 0; i < controller->gpu_count; i++)
        if (&controller->gpus[i] == gpu ||
            (gpu->model != UINT32_MAX && controller->gpus[i].model == gpu->model))
            lull_switch_cost_add_outcome(&controller->gpus[i].model_cost, direction,
                                         outcome->driver_ms, outcome);
}

void lull_controller_take_switch(struct lull_controller *controller, uint32_t index,
                                 const struct lull_switch_outcome *outcome)
{
    struct lull_controlled_gpu *gpu = &controller->gpus[index];

    if (outcome->failed) {
        gpu->failed = true;
        lull_controller_reconsider(controller);
        return;
    }
    lull_switch_calibration_take_call(&gpu->calibration, controller->now_ns);
    if (!lull_switch_calibration_runs(&gpu->calibration))
        lull_controller_note_clock(controller, gpu, outcome);
    /* What a breach took says nothing of the driver once it has proven itself anew. */
    if (controller->withheld)
        return;
    lull_controller_learn_driver(controller, outcome->driver_ms);
    learn_cost(controller, gpu, outcome);
}

void lull_controller_take_throttle(struct lull_controller *controller, uint32_t index)
{
    if (lull_controller_is_active(&controller->gpus[index]))
        controller->tainted = true;
}

void lull_controller_take_power(struct lull_controller *controller, uint32_t index, double power_w)
{
    struct lull_controlled_gpu *gpu = &controller->gpus[index];
    int32_t target = controller->steady ? 0 : LULL_CONTROLLER_NO_TARGET;

    if (controller->phase == LULL_PHASE_LEARNING)
        return;
    if (gpu->open_section >= 0)
        target = gpu->target_of[gpu->open_section];
    if (target == LULL_CONTROLLER_NO_TARGET)
        return;
    if (gpu->feed.requested == 0)
        lull_moments_add(&controller->targets[target].power_reference_w, power_w);
    else
        lull_moments_add(&controller->targets[target].power_lowered_w, power_w);
}

/* ---- time -------------------------------------------------------------------------------- */

static void advance(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                    int64_t now_ns)
{
    uint32_t point;

    if (lull_switch_calibration_poll(&gpu->calibration, now_ns, controller->waiting_ms > 0.0,
                                     &point))
        post(controller, gpu, point, now_ns + lull_switch_calibration_pulse_ns,
             now_ns + 2 * lull_switch_calibration_pulse_ns);
    if (!gpu->has_gaps && lull_feed_forward_poll(&gpu->feed, now_ns))
        lull_controller_post_feed(controller, gpu);
}

uint32_t lull_controller_poll(struct lull_controller *controller, int64_t now_ns,
                              struct lull_command *commands_out, uint32_t max)
{
    uint32_t count = 0;

    controller->now_ns = now_ns;
    lull_controller_heed_trust(controller);
    for (uint32_t i = 0; i < controller->gpu_count; i++)
        advance(controller, &controller->gpus[i], now_ns);
    lull_controller_poll_gaps(controller, now_ns);
    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        struct lull_controlled_gpu *gpu = &controller->gpus[i];

        if (gpu->command_waits && count < max) {
            commands_out[count++] = gpu->command;
            gpu->command_waits = false;
        }
    }
    return count;
}

int64_t lull_controller_wake_ns(const struct lull_controller *controller)
{
    const int64_t gaps_ns = lull_controller_gaps_wake_ns(controller);
    const int64_t trust_ns = lull_call_trust_wake_ns(&controller->trust);
    int64_t wake_ns = gaps_ns < trust_ns ? gaps_ns : trust_ns;

    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        const struct lull_controlled_gpu *gpu = &controller->gpus[i];
        int64_t feed_ns = gpu->has_gaps ? INT64_MAX : lull_feed_forward_wake_ns(&gpu->feed);
        int64_t calibration_ns = lull_switch_calibration_wake_ns(&gpu->calibration);

        if (gpu->command_waits)
            return 0;
        wake_ns = feed_ns < wake_ns ? feed_ns : wake_ns;
        wake_ns = calibration_ns < wake_ns ? calibration_ns : wake_ns;
    }
    return wake_ns;
}

/* ---- looking ----------------------------------------------------------------------------- */

enum lull_controller_phase lull_controller_phase(const struct lull_controller *controller)
{
    return controller->phase;
}

const struct lull_track *lull_controller_track(const struct lull_controller *controller,
                                               uint32_t gpu)
{
    return controller->gpus[gpu].track;
}

const struct lull_target *lull_controller_targets(const struct lull_controller *controller,
                                                  uint32_t *count_out)
{
    *count_out = controller->target_count;
    return controller->targets;
}

const struct lull_target *lull_controller_target_of(const struct lull_controller *controller,
                                                    uint32_t gpu, uint32_t section)
{
    int32_t target =
        controller->steady ? LULL_CONTROLLER_NO_TARGET : controller->gpus[gpu].target_of[section];

    return target == LULL_CONTROLLER_NO_TARGET ? NULL : &controller->targets[target];
}

bool lull_controller_is_steady(const struct lull_controller *controller)
{
    return controller->steady;
}

const struct lull_target *lull_controller_descending(const struct lull_controller *controller)
{
    return controller->current == LULL_CONTROLLER_NO_TARGET
               ? NULL
               : &controller->targets[controller->current];
}

void lull_controller_slowdown(const struct lull_controller *controller,
                              struct lull_guard_estimate *estimate_out)
{
    lull_guard_estimate(&controller->settled_guard, estimate_out);
}

bool lull_controller_has_settled(const struct lull_controller *controller)
{
    return controller->settled_after > 0 &&
           lull_controller_next_target(controller) == LULL_CONTROLLER_NO_TARGET;
}

uint64_t lull_controller_settled_after(const struct lull_controller *controller)
{
    return controller->settled_after;
}

const struct lull_switch_cost *lull_controller_switch_cost(const struct lull_controller *controller,
                                                           uint32_t gpu)
{
    return &controller->gpus[gpu].cost;
}
