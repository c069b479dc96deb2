/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "governor/plan/online_state.h"

/* ---- creating ---------------------------------------------------------------------------- */

static void plan_online_choose_clocks(struct lull_online *online,
                                      const struct lull_device_info *gpu)
{
    const uint32_t most =
        online->options.clocks > 0 ? online->options.clocks : LULL_ONLINE_MAX_CLOCKS;
    uint32_t usable = 0;
    uint32_t stride;

    while (usable < gpu->sm_clock_count && 2 * gpu->sm_clocks_mhz[usable] >= gpu->sm_clocks_mhz[0])
        usable++;
    stride = (usable + most - 1) / most;
    for (uint32_t point = 0; point < usable; point += stride) {
        online->points[online->clock_count] = point;
        online->mhz[online->clock_count++] = gpu->sm_clocks_mhz[point];
    }
}

/* Builds the order of operations from a profile of the stages alone, which needs no times. */
static int build_order(struct lull_online *online, struct lull_error *err)
{
    const struct lull_pipeline_point any = {.time_ns = 1000000, .sm_mhz = online->mhz[0]};
    struct lull_pipeline_profile stages;
    int result = 0;

    lull_pipeline_profile_init(&stages);
    for (uint32_t i = 0; i < 2 * online->devices && result >= 0; i++)
        result = lull_pipeline_profile_add(
            &stages, 0, i / 2, i % 2 == 0 ? LULL_PIPELINE_FORWARD : LULL_PIPELINE_BACKWARD, 0, &any,
            err);
    if (result >= 0)
        result = lull_online_build_plan(online, &stages, &online->plans[ORDER], err);
    lull_pipeline_profile_fini(&stages);
    return result;
}

int lull_online_create(const struct lull_online_options *options,
                       const struct lull_device_info *gpu, uint32_t gpu_count,
                       struct lull_online **online_out, struct lull_error *err)
{
    struct lull_online *online = calloc(1, sizeof(*online));
    int result;

    if (online == NULL)
        return lull_error_set(err, -ENOMEM, "no memory to profile the pipeline");
    online->options = *options;
    online->devices = options->stages > 0 ? options->stages : gpu_count;
    online->held = -1;
    plan_online_choose_clocks(online, gpu);
    result = online->clock_count == 0 ? lull_error_set(err, LULL_E_UNSUPPORTED,
                                                       "%s: no clocks to choose from", gpu->name)
                                      : build_order(online, err);
    if (result >= 0) {
        online->profiling =
            lull_profiling_create(options->method, online->clock_count, online->devices, EACH);
        result = online->profiling == NULL ? -ENOMEM : 0;
    }
    if (result < 0) {
        lull_online_destroy(online);
        return result;
    }
    *online_out = online;
    return 0;
}

void lull_online_destroy(struct lull_online *online)
{
    if (online == NULL)
        return;
    for (int i = 0; i < PLANS; i++)
        lull_plan_file_fini(&online->plans[i]);
    lull_profiling_destroy(online->profiling);
    free(online);
}

const struct lull_plan_file *lull_online_plans(const struct lull_online *online)
{
    return online->plans;
}

uint32_t lull_online_iterations(const struct lull_online *online, bool *is_done_out)
{
    *is_done_out = online->is_done;
    return lull_profiling_iterations(online->profiling);
}

/* ---- measuring --------------------------------------------------------------------------- */

/* LATER: the energy counters have not been read since the iteration ended. */
enum { LATER, USELESS, TAKEN };

static int plan_online_take_iteration(struct lull_online *online,
                                      const struct lull_control *control,
                                      const struct lull_plan_runner *runner,
                                      const struct lull_plan_controller_iteration *iteration)
{
    struct lull_profiling_sample *samples = calloc(online->devices, sizeof(samples[0]));
    const int32_t point = lull_plan_runner_held_point(runner, iteration);
    uint32_t clock = 0;
    int result = samples == NULL ? USELESS : TAKEN;

    while (clock < online->clock_count && (int32_t)online->points[clock] != point)
        clock++;
    if (clock == online->clock_count || !iteration->is_measured || !iteration->is_whole ||
        iteration->is_disturbed)
        result = USELESS;
    for (uint32_t i = 0; i < lull_control_gpu_count(control) && result == TAKEN; i++) {
        const int32_t device = lull_plan_runner_device(runner, i);
        double energy_j;
        double forward_ms;
        double backward_ms;

        if (device < 0)
            continue;
        if (!lull_run_log_energy_between(lull_control_log(control, i), iteration->begin_ns,
                                         iteration->end_ns, &energy_j))
            result = LATER;
        else if (!lull_plan_runner_lengths(runner, i, iteration->number, &forward_ms, &backward_ms))
            result = USELESS;
        else
            samples[device] = (struct lull_profiling_sample){samples[device].energy_j + energy_j,
                                                             forward_ms, backward_ms};
    }
    if (result == TAKEN) {
        lull_profiling_take(online->profiling, clock, samples);
        online->iteration_ms[clock] = (double)(iteration->end_ns - iteration->begin_ns) * 1e-6;
    }
    free(samples);
    return result;
}

static void plan_online_take_iterations(struct lull_online *online,
                                        const struct lull_control *control,
                                        struct lull_plan_runner *runner)
{
    size_t count;
    const struct lull_plan_controller_iteration *iterations =
        lull_plan_runner_recorded(runner, &count);

    while (online->seen < count) {
        const struct lull_plan_controller_iteration *iteration = &iterations[online->seen];
        const int result = plan_online_take_iteration(online, control, runner, iteration);

        if (result == LATER)
            return;
        online->useless = result == USELESS ? online->useless + 1 : 0;
        online->is_disturbed = iteration->is_disturbed;
        online->seen++;
    }
}

/* ---- all together ------------------------------------------------------------------------ */

static void plan_online_abandon(struct lull_online *online, struct lull_plan_runner *runner,
                                const char *why, struct lull_error *note_out)
{
    online->is_done = true;
    /* Point 0 is the highest clock: the job is then as fast as without Lull. */
    lull_plan_runner_hold_point(runner, 0);
    lull_error_set(note_out, -ENODATA, "the pipeline is not planned: %s", why);
}

static const char *why_useless(const struct lull_online *online)
{
    if (online->is_disturbed)
        return "heat or errors of the driver disturb its iterations (see lull gpus and dmesg)";
    return "the program does not mark where forward and backward begin and end (liblull)";
}

/* Continues with the next clock. True: all clocks are profiled and planning can begin. */
static bool plan_online_continue(struct lull_online *online, struct lull_plan_runner *runner)
{
    uint32_t clock;

    if (!lull_profiling_next(online->profiling, &clock))
        return true;
    if ((int32_t)clock != online->held &&
        lull_plan_runner_hold_point(runner, online->points[clock]) == 0)
        online->held = (int32_t)clock;
    return false;
}

/* Planning takes up to some seconds. Meanwhile the job runs at its highest clocks, and its events
 * are handled. */
static void plan_online_compute(struct lull_online *online, struct lull_control *control,
                                struct lull_plan_runner *runner, struct lull_error *note_out)
{
    struct lull_pipeline_switching switching = {0};
    struct lull_error err = {0};
    int result;

    lull_plan_runner_hold_point(runner, 0);
    lull_plan_runner_switching(runner, &switching);
    lull_control_unlock(control);
    result = lull_online_make_plan(online, &switching, &err);
    lull_control_lock(control);
    online->is_done = true;
    if (result == 0)
        result = lull_plan_runner_try_next(runner);
    if (result < 0)
        plan_online_abandon(online, runner, err.code != 0 ? err.text : "no memory", note_out);
}

void lull_online_tick(struct lull_online *online, struct lull_control *control,
                      struct lull_plan_runner *runner, struct lull_error *note_out)
{
    note_out->code = 0;
    if (online->is_done)
        return;
    lull_control_lock(control);
    plan_online_take_iterations(online, control, runner);
    if (online->useless > PATIENCE)
        plan_online_abandon(online, runner, why_useless(online), note_out);
    else if (plan_online_continue(online, runner))
        plan_online_compute(online, control, runner, note_out);
    lull_control_unlock(control);
}

/* ---- the profile ------------------------------------------------------------------------- */

static int plan_online_write_rows(const void *context, FILE *file)
{
    const struct lull_pipeline_profile *profile = context;

    fprintf(file, "stage,instruction,frequency,time,energy\n");
    for (size_t c = 0; c < profile->class_count; c++)
        for (size_t i = 0; i < profile->classes[c].point_count; i++) {
            const struct lull_pipeline_point *option = &profile->classes[c].points[i];

            fprintf(file, "%u,%s,%u,%.9f,%.9f\n", profile->classes[c].stage,
                    lull_pipeline_kind_name(profile->classes[c].kind), option->sm_mhz,
                    (double)option->time_ns * 1e-9, (double)option->energy_nj * 1e-9);
        }
    return 0;
}

int lull_online_write_profile(const struct lull_online *online, const char *directory,
                              struct lull_error *err)
{
    const struct lull_pipeline_profile *profile = &online->plans[PLAN].profile;
    char path[PATH_MAX];

    if (profile->class_count == 0)
        return 0;
    if ((size_t)snprintf(path, sizeof(path), "%s/profile.csv", directory) >= sizeof(path))
        return lull_error_set(err, -ENAMETOOLONG, "%s: the path is too long", directory);
    return lull_file_write_with(path, plan_online_write_rows, profile, err);
}
