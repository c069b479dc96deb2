/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/minmax.h"
#include "core/section/controller/state.h"

/* Plans assume this quantile of the calls seen, and before any has been seen the median of the
 * lengths known beforehand. docs/research/measurements/latency.md has the savings of a recorded job
 * with them on one to eight GPUs. */
static const double planned_call = 0.75;
static const double planned_prior = 0.5;
/* Time low that a lowering must win for the node to be worth its calls. */
static const int64_t min_gain_ns = INT64_C(1000000);

/* Throttled pairs set aside in a row before one is taken all the same. */
enum { MAX_SET_ASIDE = 3 };
/* Blocks at the accepted points for each at the reference: at first, and at most after doublings.
 */
enum { FIRST_STRETCH = 32, LONGEST_STRETCH = 2048 };
void lull_controller_config_default(struct lull_controller_config *config)
{
    *config = (struct lull_controller_config){
        .tolerance_ratio = 0.01,
        .swing_ratio = 0.05,
        .steady_tolerance_ratio = 1.0,
        .confidence = LULL_GUARD_CONFIDENCE,
        .strategy = LULL_DESCENT_BISECT,
        .window_ms = 300.0,
        .window_iterations = 2,
    };
}

/* Sets up the objects that answer when, whether and where to switch. */
static void init_switching(struct lull_controller *controller)
{
    const struct lull_controller_config *config = &controller->config;
    const struct lull_driver_queue_config queue = {
        .gpu_count = controller->gpu_count,
        .planned_quantile = planned_call,
        .prior_quantile = planned_prior,
        .prior = &controller->gpus[0].cost,
        .min_gain_ns = min_gain_ns,
    };
    struct lull_trial_config trial = {
        .rank_count = controller->gpu_count,
        .confidence = config->confidence,
        .tail_tolerance_ratio = config->tail_tolerance_ratio,
        .seed = config->seed,
        .most_set_aside = MAX_SET_ASIDE,
        .first_stretch = FIRST_STRETCH,
        .most_stretch = LONGEST_STRETCH,
        .is_aligned = config->together,
    };

    /* Peers must continue measuring in the same iterations, and cannot check: see may_check(). */
    if (config->together)
        trial.most_stretch = 0;
    lull_driver_queue_init(&controller->queue, &queue);
    lull_trial_init(&controller->trial, &trial, controller->ranks);
    for (uint32_t i = 0; i < controller->gpu_count; i++)
        controller->ranks[i].losses.rate = config->tolerance_ratio;
    lull_targets_init(&controller->targets, config, controller->gpus, controller->gpu_count);
    lull_controller_init_allowance(controller);
    lull_swing_limit_init(&controller->swings, config->swing_ratio);
}

struct lull_controller *lull_controller_create(const struct lull_controller_config *config,
                                               uint32_t gpu_count, const uint32_t *point_counts)
{
    struct lull_controller *controller = calloc(1, sizeof(*controller));

    assert(gpu_count >= 1 && gpu_count <= LULL_CONTROLLER_MAX_GPUS);
    if (controller == NULL)
        return NULL;
    controller->config = *config;
    controller->lead = UINT32_MAX;
    lull_controller_init_decisions(controller);
    for (uint32_t i = 0; i < gpu_count; i++) {
        struct lull_controlled_gpu *gpu = &controller->gpus[i];

        gpu->track = lull_track_create(true);
        if (gpu->track == NULL) {
            lull_controller_destroy(controller);
            return NULL;
        }
        gpu->points = point_counts[i];
        gpu->model = UINT32_MAX;
        gpu->fold = 1;
        gpu->open_section = -1;
        gpu->expected_section = -1;
        gpu->low_section = -1;
        gpu->ahead_section = -1;
        lull_feed_forward_init(&gpu->feed);
        lull_switch_calibration_init(&gpu->calibration, i);
        controller->gpu_count++;
    }
    init_switching(controller);
    lull_slack_init(&controller->slack, gpu_count, point_counts);
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
    uint64_t iteration = lull_track_iteration(gpu->track) + (next <= index);
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

static void controller_take_section(struct lull_controller *controller,
                                    struct lull_controlled_gpu *gpu,
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

/* Applies the steady point of the iteration that begins, and what the GPU's slack adds to it. */
static void apply_steady(struct lull_controller *controller, struct lull_controlled_gpu *gpu)
{
    const uint32_t index = (uint32_t)(gpu - controller->gpus);
    const uint64_t iteration = lull_track_iteration(gpu->track);
    const bool uses_slack = lull_controller_uses_slack(controller, gpu, iteration);
    uint32_t point =
        lull_controller_planned_point(controller, gpu, controller->targets.steady, iteration);

    if (uses_slack)
        point = lull_min_u32(point + lull_slack_points(&controller->slack, index), gpu->points - 1);
    lull_slack_begin_iteration(&controller->slack, index, point, uses_slack);
    lull_controller_set_steady(controller, gpu, point);
    gpu->uses_profile = lull_controller_plans_profile(controller, gpu, iteration);
}

/* These GPUs are raised in the middle of an iteration. */
static void controller_raise_waited_for(struct lull_controller *controller, uint64_t raised,
                                        int64_t now_ns)
{
    if (raised == 0)
        return;
    controller->now_ns = now_ns;
    for (uint32_t i = 0; i < controller->gpu_count; i++)
        if ((raised & (UINT64_C(1) << i)) != 0 &&
            !lull_switch_calibration_runs(&controller->gpus[i].calibration))
            apply_steady(controller, &controller->gpus[i]);
}

void lull_controller_take_collective(struct lull_controller *controller, uint32_t index,
                                     const struct lull_call *edge)
{
    controller_raise_waited_for(controller, lull_slack_take(&controller->slack, index, edge),
                                edge->time_ns);
}

bool lull_controller_report(struct lull_controller *controller, struct lull_arrival *arrival_out)
{
    return lull_slack_report(&controller->slack, arrival_out);
}

void lull_controller_receive(struct lull_controller *controller, const struct lull_arrival *latest,
                             int64_t now_ns)
{
    controller_raise_waited_for(controller, lull_slack_receive(&controller->slack, latest), now_ns);
}

void lull_controller_take_call(struct lull_controller *controller, uint32_t index,
                               const struct lull_call *call)
{
    struct lull_controlled_gpu *gpu = &controller->gpus[index];
    struct lull_track_note note = lull_track_take(gpu->track, call);

    controller->now_ns = call->time_ns;
    if (note.deviated || note.became_known)
        lull_controller_forget_sections(gpu);
    if (note.deviated) {
        lull_slack_forget(&controller->slack, index);
        lull_trial_forget_level(&controller->trial, index);
        lull_controller_raise_now(controller, gpu);
        lull_controller_reconsider(controller);
    }
    if (note.became_known && gpu->points > 1 && !controller->config.observe_only &&
        !controller->queue.suspended)
        lull_switch_calibration_start(&gpu->calibration, call->time_ns);
    if (note.iteration_ended) {
        lull_allowance_earn(&controller->late, gpu->fold);
        gpu->late_now = 0;
        lull_controller_take_iteration(controller, gpu, note.iteration_ms);
        if (controller->phase == LULL_PHASE_LEARNING)
            lull_controller_reconsider(controller);
    }
    if (lull_switch_calibration_runs(&gpu->calibration))
        return;
    if (note.iteration_ended)
        apply_steady(controller, gpu);
    if (!lull_targets_have_sections(&controller->targets))
        return;
    gpu->has_gaps = call->place != 0 && !controller->config.reactive;
    if (gpu->has_gaps)
        take_gap(controller, gpu, &note, call->time_ns);
    else
        controller_take_section(controller, gpu, &note, call->time_ns);
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
    lull_slack_forget(&controller->slack, index);
    gpu->exited = true;
    if (controller->phase == LULL_PHASE_LEARNING)
        return;
    lull_controller_choose_lead(controller);
    lull_controller_act_on(controller, lull_trial_leave(&controller->trial, index,
                                                        lull_controller_judged(controller)));
}

void lull_controller_hold(struct lull_controller *controller, bool held)
{
    if (held == controller->held)
        return;
    controller->held = held;
    if (held)
        lull_controller_raise_all(controller);
    lull_controller_reconsider(controller);
}

bool lull_controller_take_start(struct lull_controller *controller, uint32_t index)
{
    struct lull_controlled_gpu *gpu = &controller->gpus[index];
    struct lull_track *track = lull_track_create(true);
    const uint64_t iteration = lull_controller_iteration(controller);

    if (track == NULL)
        return false;
    lull_track_destroy(gpu->track);
    gpu->track = track;
    lull_controller_count_on(controller, iteration);
    gpu->exited = false;
    lull_controller_forget_sections(gpu);
    /* The proof was of the rank that has left; this one may react to lower clocks otherwise. */
    lull_controller_forget_proof(controller);
    return true;
}

void lull_controller_take_disturbance(struct lull_controller *controller, uint32_t index)
{
    const struct lull_controlled_gpu *gpu = &controller->gpus[index];
    struct lull_pair_slot slot = {0};

    if (!lull_controller_is_active(gpu) || controller->phase == LULL_PHASE_LEARNING)
        return;
    if (lull_trial_slot(&controller->trial, index, lull_track_iteration(gpu->track), &slot))
        lull_trial_disturb(&controller->trial, &slot);
    else
        lull_trial_disturb(&controller->trial, NULL);
}

void lull_controller_take_power(struct lull_controller *controller, uint32_t index, double power_w)
{
    struct lull_controlled_gpu *gpu = &controller->gpus[index];
    int32_t target = controller->targets.steady;
    bool is_lowered = gpu->steady != 0;

    if (controller->phase == LULL_PHASE_LEARNING ||
        lull_targets_is_profile_open(&controller->targets))
        return;
    if (gpu->open_section >= 0 && gpu->target_of[gpu->open_section] != LULL_CONTROLLER_NO_TARGET) {
        target = gpu->target_of[gpu->open_section];
        is_lowered = gpu->feed.requested != 0;
    }
    if (target == LULL_CONTROLLER_NO_TARGET)
        return;
    if (is_lowered)
        lull_moments_add(&controller->targets.list[target].power_lowered_w, power_w);
    else
        lull_moments_add(&controller->targets.list[target].power_reference_w, power_w);
}

/* ---- time -------------------------------------------------------------------------------- */

static void controller_advance(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                               int64_t now_ns)
{
    uint32_t point;

    if (lull_switch_calibration_poll(&gpu->calibration, now_ns, controller->queue.waiting_ms > 0.0,
                                     &point))
        lull_controller_post(controller, gpu, point, now_ns + lull_switch_calibration_pulse_ns,
                             now_ns + 2 * lull_switch_calibration_pulse_ns);
    if (!gpu->has_gaps && lull_feed_forward_poll(&gpu->feed, now_ns))
        lull_controller_post_feed(controller, gpu);
}

uint32_t lull_controller_poll(struct lull_controller *controller, int64_t now_ns,
                              struct lull_command *commands_out, uint32_t max)
{
    uint32_t count = 0;

    controller->now_ns = now_ns;
    lull_controller_act_on_driver(controller,
                                  lull_driver_queue_update_trust(&controller->queue, now_ns));
    for (uint32_t i = 0; i < controller->gpu_count; i++)
        controller_advance(controller, &controller->gpus[i], now_ns);
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
    const int64_t trust_ns = lull_driver_queue_wake_ns(&controller->queue);
    int64_t wake_ns = lull_earlier_ns(gaps_ns, trust_ns);

    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        const struct lull_controlled_gpu *gpu = &controller->gpus[i];
        int64_t feed_ns = gpu->has_gaps ? INT64_MAX : lull_feed_forward_wake_ns(&gpu->feed);
        int64_t calibration_ns = lull_switch_calibration_wake_ns(&gpu->calibration);

        if (gpu->command_waits)
            return 0;
        wake_ns = lull_earlier_ns(feed_ns, wake_ns);
        wake_ns = lull_earlier_ns(calibration_ns, wake_ns);
    }
    return wake_ns;
}
