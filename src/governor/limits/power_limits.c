/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/limits/power_limits.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "governor/limits/power_limits_state.h"
#include "governor/limits/stored_limits.h"

/* FIRST_ITERATIONS: seen before profiling begins. REFERENCE_ITERATIONS: run at the present limit
 * before a given limit is held; the slowdown is relative to them. */
enum { FIRST_ITERATIONS = 3, REFERENCE_ITERATIONS = 10 };

/* A given limit waits no longer than this for these iterations, which a job may never have. */
static const int64_t reference_wait_ns = 10 * LULL_NS_PER_S;

void lull_limits_options_default(struct lull_limits_options *options)
{
    *options = (struct lull_limits_options){.search = lull_limit_search_defaults, .step_w = 25.0};
}

struct lull_limits *lull_limits_create(const struct lull_limits_options *options,
                                       char *const *command, struct lull_devices *devices)
{
    struct lull_limits *limits = calloc(1, sizeof(*limits));

    if (limits == NULL)
        return NULL;
    limits->options = options;
    limits->devices = devices;
    lull_limit_program(command, limits->profile.program);
    return limits;
}

void lull_limits_destroy(struct lull_limits *limits)
{
    if (limits == NULL)
        return;
    lull_limit_search_destroy(limits->search);
    free(limits);
}

/* ---- the job ----------------------------------------------------------------------------- */

static size_t power_limits_iterations_of(struct lull_control *control, uint32_t gpu)
{
    size_t count;

    lull_control_lock(control);
    count = lull_control_log(control, gpu)->boundaries.count;
    lull_control_unlock(control);
    return count;
}

/* Returns whether the limits that the job's GPUs have now are known, or do not matter. */
static bool are_limits_known(const struct lull_limits *limits)
{
    bool are_known = true;

    for (uint32_t i = 0; i < limits->gpu_count; i++)
        are_known = are_known && limits->is_present_known[limits->gpus[i].index];
    return are_known || limits->options->fixed_w > 0.0;
}

/* Finds the GPUs that ranks use. False: the job does not iterate yet. */
static bool power_limits_find_job(struct lull_limits *limits, struct lull_control *control)
{
    limits->gpu_count = 0;
    for (uint32_t i = 0; i < lull_control_gpu_count(control); i++)
        if (lull_control_gpu(control, i)->process >= 0)
            limits->gpus[limits->gpu_count++] =
                (struct lull_limited_gpu){.index = i, .temperature_c = NAN};
    if (limits->gpu_count == 0)
        return false;
    if (limits->bound_ns == 0)
        limits->bound_ns = lull_now_ns();
    if (limits->options->fixed_w > 0.0)
        return power_limits_iterations_of(control, limits->gpus[0].index) > REFERENCE_ITERATIONS ||
               lull_now_ns() - limits->bound_ns > reference_wait_ns;
    return power_limits_iterations_of(control, limits->gpus[0].index) > FIRST_ITERATIONS;
}

static int power_limits_check_job(struct lull_limits *limits, struct lull_control *control,
                                  struct lull_error *err)
{
    const struct lull_device_info *first = lull_limits_info(limits, control, 0);

    for (uint32_t i = 0; i < limits->gpu_count; i++) {
        const struct lull_control_gpu *gpu = lull_control_gpu(control, limits->gpus[i].index);
        const struct lull_device_info *info = lull_limits_info(limits, control, i);

        if (!gpu->leased)
            return lull_error_set(err, -EPERM, "power limits are not set: GPU %u: %.150s",
                                  gpu->device, gpu->refusal.text);
        if (strcmp(info->name, first->name) != 0)
            return lull_error_set(err, LULL_E_UNSUPPORTED,
                                  "power limits are not set: the job's GPUs differ (%s, %s)",
                                  first->name, info->name);
        if (limits->options->fixed_w == 0.0 &&
            (info->capabilities & LULL_CAPABILITY_ENERGY_COUNTER) == 0)
            return lull_error_set(err, LULL_E_UNSUPPORTED,
                                  "power limits are not set: GPU %u has no energy counter; give "
                                  "one with --power-limit W",
                                  gpu->device);
    }
    return 0;
}

/* Returns the lowest of the limits that the GPUs have now, W. Nothing was requested yet, so they
 * are the administrator's. */
static double present_limit_w(struct lull_limits *limits, struct lull_control *control)
{
    double lowest_w = lull_limits_info(limits, control, 0)->power_limit_max_mw * 1e-3;

    for (uint32_t i = 0; i < limits->gpu_count; i++)
        lowest_w = fmin(lowest_w, limits->present_w[limits->gpus[i].index]);
    return lowest_w;
}

/* Returns whether all GPUs of the job are warm at their present limit. A GPU without a temperature
 * reading counts as warm. */
static bool are_warm(const struct lull_limits *limits)
{
    bool are_all = true;

    for (uint32_t i = 0; i < limits->gpu_count; i++)
        are_all = are_all && limits->gpus[i].is_warm;
    return are_all;
}

/* Begins once the job iterates: with a stored profile, a fixed limit, or a search. */
static void power_limits_begin(struct lull_limits *limits, struct lull_control *control,
                               struct lull_error *note_out)
{
    const double highest_w = present_limit_w(limits, control);

    snprintf(limits->profile.gpu_name, sizeof(limits->profile.gpu_name), "%s",
             lull_limits_info(limits, control, 0)->name);
    limits->profile.gpu_count = limits->gpu_count;
    /* NOLINTNEXTLINE(bugprone-branch-clone): each condition acts, so their order counts. */
    if (power_limits_check_job(limits, control, note_out) < 0) {
        lull_limits_abandon(limits, control);
    } else if (limits->options->fixed_w > 0.0) {
        lull_limits_request(limits, control,
                            &(struct lull_limit_point){.limit_w = limits->options->fixed_w});
        limits->stage = LULL_LIMITS_HELD;
        lull_control_set_phase(control, LULL_PHASE_SETTLED);
    } else if (!limits->options->afresh && lull_stored_limits_recall(&limits->profile, highest_w)) {
        limits->is_stored = true;
        lull_limits_hold_choice(limits, control, note_out);
    } else if (lull_limits_begin_search(limits, control, highest_w, note_out) < 0) {
        lull_limits_abandon(limits, control);
    } else {
        limits->stage = LULL_LIMITS_WARMING;
        lull_control_set_phase(control, LULL_PHASE_DESCENDING);
    }
}

void lull_limits_tick(struct lull_limits *limits, struct lull_control *control,
                      struct lull_error *note_out)
{
    const struct lull_limit_point *wanted;

    if (limits->stage == LULL_LIMITS_WAITING && power_limits_find_job(limits, control) &&
        are_limits_known(limits))
        power_limits_begin(limits, control, note_out);
    if (limits->stage == LULL_LIMITS_WARMING && are_warm(limits)) {
        limits->seen = power_limits_iterations_of(control, limits->gpus[0].index);
        limits->stage = LULL_LIMITS_PROFILING;
    }
    if (limits->stage == LULL_LIMITS_PROFILING) {
        wanted = lull_limit_search_now(limits->search);
        if (wanted->limit_w != limits->asked.limit_w || wanted->sm_mhz != limits->asked.sm_mhz)
            lull_limits_request(limits, control, wanted);
    }
    if (limits->stage != LULL_LIMITS_PROFILING && limits->stage != LULL_LIMITS_HELD)
        return;
    lull_limits_hold_clock(limits, control, lull_now_ns());
    switch (lull_limits_poll_requests(limits, control, note_out)) {
    case 0:
        /* A piece that began at the operating point before does not count. */
        if (limits->stage == LULL_LIMITS_PROFILING)
            limits->seen = power_limits_iterations_of(control, limits->gpus[0].index);
        break;
    case 1:
        if (limits->stage == LULL_LIMITS_PROFILING)
            lull_limits_profile(limits, control, note_out);
        break;
    default:
        lull_limits_abandon(limits, control);
    }
}

void lull_limits_resume(struct lull_limits *limits, struct lull_control *control)
{
    const struct lull_limit_point asked = limits->asked;

    if (limits->stage != LULL_LIMITS_PROFILING && limits->stage != LULL_LIMITS_HELD)
        return;
    lull_limits_request(limits, control, &asked);
    limits->seen = power_limits_iterations_of(control, limits->gpus[0].index);
}

void lull_limits_go_blind(struct lull_limits *limits, struct lull_control *control,
                          struct lull_error *note_out)
{
    if (limits->stage == LULL_LIMITS_HELD || limits->stage == LULL_LIMITS_GIVEN_UP)
        return;
    lull_limits_abandon(limits, control);
    lull_error_set(note_out, -ETIMEDOUT,
                   "power limits are not set: there are no readings of the GPUs");
}

void lull_limits_end(const struct lull_limits *limits, struct lull_error *note_out)
{
    if (limits->stage == LULL_LIMITS_WAITING)
        lull_error_set(
            note_out, -ENOENT,
            "power limits were not set: no iteration was found in the job's communication; see the "
            "other notes, or mark its steps with lull_step() of lull.h");
    if (limits->stage == LULL_LIMITS_WARMING)
        lull_error_set(
            note_out, -EAGAIN,
            "the job ended before its GPUs had come to their temperature, which takes 5 to 60 s: "
            "power limits were not set. Use a longer job; profiling takes up to %.0f s more",
            limits->options->search.budget_s);
    if (limits->stage == LULL_LIMITS_PROFILING)
        lull_error_set(
            note_out, -EAGAIN,
            "the job ended while its power limits were being profiled (%.0f s of at most %.0f s): "
            "none was chosen, and nothing is stored. Give a job that runs %.0f s longer, or a "
            "shorter --slice-s or wider --limit-step-w",
            limits->spent_s, limits->options->search.budget_s,
            fmax(1.0, limits->options->search.budget_s - limits->spent_s));
}

/* ---- results ----------------------------------------------------------------------------- */

static const char *const stage_names[] = {
    [LULL_LIMITS_WAITING] = "waiting",     [LULL_LIMITS_WARMING] = "warming up",
    [LULL_LIMITS_PROFILING] = "profiling", [LULL_LIMITS_HELD] = "held",
    [LULL_LIMITS_GIVEN_UP] = "given up",
};

void lull_limits_summary(const struct lull_limits *limits, struct lull_limits_summary *summary_out)
{
    uint32_t measured;
    uint32_t count;

    *summary_out = (struct lull_limits_summary){
        .state = stage_names[limits->stage],
        .is_held = limits->stage == LULL_LIMITS_HELD,
        .held_w = limits->asked.limit_w,
        .read_w = limits->is_set && limits->read_w > 0.0 ? limits->read_w : NAN,
        .is_given = limits->options->fixed_w > 0.0,
        .is_stored = limits->is_stored,
        .profiling_s = limits->spent_s,
        .profile = limits->profile.count > 0 ? &limits->profile : NULL,
    };
    if (limits->search == NULL)
        return;
    lull_limit_search_measures(limits->search, &measured, &count);
    summary_out->pruned = count - measured;
    summary_out->skips = lull_limit_search_skips(limits->search, &summary_out->skip_count);
}
