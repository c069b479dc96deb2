/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/pipeline/online.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "core/pipeline/envpipe.h"
#include "core/pipeline/frontier/frontier.h"
#include "core/pipeline/round/round.h"
#include "core/pipeline/schedule/schedule.h"

enum { MOST_CLOCKS = 48, EACH = 6, PATIENCE = 40, ORDER = 0, PLAN = 1, PLANS };

struct lull_online {
    struct lull_online_options options;
    uint32_t devices;
    uint32_t clock_count;
    uint32_t points[MOST_CLOCKS]; /* of the GPU's clock list */
    uint32_t mhz[MOST_CLOCKS];
    struct lull_profiling *profiling;
    double iteration_ms[MOST_CLOCKS]; /* latest, at each clock */
    int32_t held;                     /* clock, -1: none yet */
    size_t seen;                      /* recorded iterations that were looked at */
    uint32_t useless;                 /* of them, without sections, in a row */
    bool is_done;
    struct lull_plan_file plans[PLANS];
};

/* ---- creating ---------------------------------------------------------------------------- */

static void choose_clocks(struct lull_online *online, const struct lull_device_info *gpu)
{
    uint32_t usable = 0;
    uint32_t stride;

    while (usable < gpu->sm_clock_count && 2 * gpu->sm_clocks_mhz[usable] >= gpu->sm_clocks_mhz[0])
        usable++;
    stride = (usable + MOST_CLOCKS - 1) / MOST_CLOCKS;
    for (uint32_t point = 0; point < usable; point += stride) {
        online->points[online->clock_count] = point;
        online->mhz[online->clock_count++] = gpu->sm_clocks_mhz[point];
    }
}

/* A profile of nothing but the stages: an order needs no more. */
static int build_order(struct lull_online *online, struct lull_error *err)
{
    struct lull_plan_file *plan = &online->plans[ORDER];
    const struct lull_pipeline_option any = {.time_ns = 1000000, .sm_mhz = online->mhz[0]};
    const struct lull_pipeline_shape shape = {
        .devices = online->devices,
        .microbatches = online->options.microbatches,
        .replicas = {.count = 1},
    };
    struct lull_pipeline_schedule *schedule = calloc(1, sizeof(*schedule));
    struct lull_pipeline_profile stages;
    int result = schedule == NULL ? -ENOMEM : 0;

    lull_pipeline_profile_init(&stages);
    for (uint32_t i = 0; i < 2 * online->devices && result >= 0; i++)
        result = lull_pipeline_profile_add(
            &stages, i / 2, i % 2 == 0 ? LULL_PIPELINE_FORWARD : LULL_PIPELINE_BACKWARD, 0, &any,
            err);
    if (result >= 0)
        result = lull_pipeline_schedule_parse(online->options.schedule, schedule, err);
    if (result >= 0)
        result = lull_pipeline_schedule_build(schedule, &shape, &stages, &plan->profile,
                                              &plan->graph, err);
    lull_pipeline_profile_fini(&stages);
    free(schedule);
    return result;
}

static int finish_plan(struct lull_plan_file *plan, double blocking_w)
{
    plan->blocking_w = calloc(plan->graph.device_count, sizeof(plan->blocking_w[0]));
    plan->option = calloc(plan->graph.op_count, sizeof(plan->option[0]));
    for (uint32_t i = 0; plan->blocking_w != NULL && i < plan->graph.device_count; i++)
        plan->blocking_w[i] = blocking_w;
    return plan->blocking_w == NULL || plan->option == NULL ? -ENOMEM : 0;
}

int lull_online_create(const struct lull_online_options *options,
                       const struct lull_device_info *gpu, uint32_t gpu_count,
                       struct lull_online **online_out, struct lull_error *err)
{
    struct lull_online *online = calloc(1, sizeof(*online));
    int result;

    if (online == NULL)
        return lull_error_set(err, -ENOMEM, "no memory to profile");
    online->options = *options;
    online->devices = options->stages > 0 ? options->stages : gpu_count;
    online->held = -1;
    choose_clocks(online, gpu);
    result = online->clock_count == 0 ? lull_error_set(err, LULL_E_UNSUPPORTED,
                                                       "%s: no clocks to choose from", gpu->name)
                                      : build_order(online, err);
    if (result >= 0)
        result = finish_plan(&online->plans[ORDER], options->blocking_w);
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

/* False: the energy counters have not been read since. */
static bool find_energy(const struct lull_control *control, uint32_t gpu, int64_t begin_ns,
                        int64_t end_ns, double *energy_out)
{
    const struct lull_journey *journey = lull_control_journey(control, gpu);
    double begin_j;
    double end_j;

    if (!lull_journey_energy_j(journey, begin_ns, &begin_j) ||
        !lull_journey_energy_j(journey, end_ns, &end_j))
        return false;
    *energy_out = end_j - begin_j;
    return true;
}

enum { LATER, USELESS, TAKEN };

static int take_iteration(struct lull_online *online, const struct lull_control *control,
                          const struct lull_pilot *pilot,
                          const struct lull_conductor_iteration *iteration)
{
    struct lull_profiling_sample *samples = calloc(online->devices, sizeof(samples[0]));
    const int32_t point = lull_pilot_held_point(pilot, iteration);
    uint32_t clock = 0;
    int result = samples == NULL ? USELESS : TAKEN;

    while (clock < online->clock_count && (int32_t)online->points[clock] != point)
        clock++;
    if (clock == online->clock_count || !iteration->is_measured || !iteration->is_whole)
        result = USELESS;
    for (uint32_t i = 0; i < lull_control_gpu_count(control) && result == TAKEN; i++) {
        const int32_t device = lull_pilot_device(pilot, i);
        double energy_j;
        double forward_ms;
        double backward_ms;

        if (device < 0)
            continue;
        if (!find_energy(control, i, iteration->begin_ns, iteration->end_ns, &energy_j))
            result = LATER;
        else if (!lull_pilot_lengths(pilot, i, iteration->number, &forward_ms, &backward_ms))
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

static void take_iterations(struct lull_online *online, const struct lull_control *control,
                            const struct lull_pilot *pilot)
{
    size_t count;
    const struct lull_conductor_iteration *iterations = lull_pilot_recorded(pilot, &count);

    while (online->seen < count) {
        const int result = take_iteration(online, control, pilot, &iterations[online->seen]);

        if (result == LATER)
            return;
        online->useless = result == USELESS ? online->useless + 1 : 0;
        online->seen++;
    }
}

/* ---- planning ---------------------------------------------------------------------------- */

static uint32_t operations_of(const struct lull_plan_file *plan, uint32_t device,
                              enum lull_pipeline_kind kind)
{
    const struct lull_pipeline_graph *graph = &plan->graph;
    uint32_t count = 0;

    for (uint32_t i = graph->first_on[device]; i < graph->first_on[device + 1]; i++)
        count += plan->profile.classes[graph->ops[graph->on_device[i]].class_index].kind == kind;
    return count;
}

static int add_options(const struct lull_online *online, uint32_t device, uint32_t clock,
                       struct lull_pipeline_profile *measured, struct lull_error *err)
{
    const struct lull_profiling_mean mean = lull_profiling_mean(online->profiling, device, clock);
    const struct lull_plan_file *order = &online->plans[ORDER];
    const double busy_s =
        1e-3 * (mean.forward_ms * operations_of(order, device, LULL_PIPELINE_FORWARD) +
                mean.backward_ms * operations_of(order, device, LULL_PIPELINE_BACKWARD));
    const double waiting_s = fmax(online->iteration_ms[clock] * 1e-3 - busy_s, 0.0);
    const double busy_w =
        fmax(mean.energy_j - online->options.blocking_w * waiting_s, 0.0) / busy_s;
    const double ms[] = {mean.forward_ms, mean.backward_ms};
    int result = 0;

    for (int i = 0; i < 2 && result >= 0 && mean.count > 0; i++) {
        const struct lull_pipeline_option option = {
            .time_ns = llround(ms[i] * 1e6),
            .energy_nj = llround(busy_w * ms[i] * 1e6),
            .sm_mhz = online->mhz[clock],
        };

        result = lull_pipeline_profile_add(measured, device,
                                           i == 0 ? LULL_PIPELINE_FORWARD : LULL_PIPELINE_BACKWARD,
                                           0, &option, err);
    }
    return result < 0 ? result : 0;
}

static int build_profile(const struct lull_online *online, struct lull_pipeline_profile *measured,
                         struct lull_error *err)
{
    int result = 0;

    lull_pipeline_profile_init(measured);
    for (uint32_t device = 0; device < online->devices; device++)
        for (uint32_t clock = 0; clock < online->clock_count && result == 0; clock++)
            result = add_options(online, device, clock, measured, err);
    return result;
}

static int build_graph(struct lull_online *online, struct lull_error *err)
{
    struct lull_plan_file *plan = &online->plans[PLAN];
    const struct lull_pipeline_shape shape = {
        .devices = online->devices,
        .microbatches = online->options.microbatches,
        .replicas = {.count = 1},
    };
    struct lull_pipeline_schedule *schedule = calloc(1, sizeof(*schedule));
    struct lull_pipeline_profile measured;
    int result = build_profile(online, &measured, err);

    if (result == 0)
        result = schedule == NULL
                     ? -ENOMEM
                     : lull_pipeline_schedule_parse(online->options.schedule, schedule, err);
    if (result == 0)
        result = lull_pipeline_schedule_build(schedule, &shape, &measured, &plan->profile,
                                              &plan->graph, err);
    if (result == 0)
        result = finish_plan(plan, online->options.blocking_w);
    lull_pipeline_profile_fini(&measured);
    free(schedule);
    return result;
}

/* As fast as the highest clocks, at the least energy. */
static int plan_frontier(const struct lull_pipeline_problem *problem, uint32_t *option,
                         struct lull_error *err)
{
    struct lull_frontier *frontier = lull_frontier_create(problem, err);
    struct lull_pipeline_rounding *rounding = NULL;
    int result = frontier == NULL ? -ENOMEM : lull_pipeline_rounding_create(problem, &rounding);

    lull_pipeline_plan_highest(problem, option);
    if (result == 0)
        result = lull_pipeline_round_thorough(
            rounding, frontier, lull_pipeline_plan_cost(problem, option, 0).time_ns, option);
    if (rounding != NULL)
        lull_pipeline_rounding_destroy(rounding);
    lull_frontier_destroy(frontier);
    return result;
}

static int make_plan(struct lull_online *online, struct lull_error *err)
{
    struct lull_plan_file *plan = &online->plans[PLAN];
    const struct lull_pipeline_problem problem = {&plan->profile, &plan->graph, NULL};
    struct lull_pipeline_problem whole;
    struct lull_envpipe_outcome outcome;
    struct lull_pipeline_cost cost;
    int result = build_graph(online, err);

    if (result < 0)
        return result;
    whole = problem;
    whole.blocking_w = plan->blocking_w;
    result =
        online->options.planner == LULL_ONLINE_ENVPIPE
            ? lull_envpipe_plan(&whole, LULL_ENVPIPE_BALANCED, UINT32_MAX, plan->option, &outcome)
            : plan_frontier(&whole, plan->option, err);
    if (result < 0)
        return result;
    cost = lull_pipeline_plan_cost(&whole, plan->option, 0);
    plan->time_ns = plan->period_ns = plan->deadline_ns = cost.time_ns;
    plan->energy_j = cost.energy_j;
    plan->bound_j = NAN;
    snprintf(plan->title, sizeof(plan->title), "%s, %u stages, %u micro-batches, profiled online",
             online->options.schedule, online->devices, online->options.microbatches);
    return 0;
}

/* ---- all together ------------------------------------------------------------------------ */

static void give_up(struct lull_online *online, struct lull_pilot *pilot, const char *why,
                    struct lull_error *note_out)
{
    online->is_done = true;
    lull_pilot_hold_point(pilot, 0);
    lull_error_set(note_out, -ENODATA, "the pipeline is not planned: %s", why);
}

static void go_on(struct lull_online *online, struct lull_pilot *pilot, struct lull_error *note_out)
{
    struct lull_error err = {0};
    uint32_t clock;

    if (lull_profiling_next(online->profiling, &clock)) {
        if ((int32_t)clock != online->held &&
            lull_pilot_hold_point(pilot, online->points[clock]) == 0)
            online->held = (int32_t)clock;
        return;
    }
    online->is_done = true;
    if (make_plan(online, &err) < 0 || lull_pilot_try_next(pilot) < 0)
        give_up(online, pilot, err.code != 0 ? err.text : "no memory", note_out);
}

void lull_online_tick(struct lull_online *online, struct lull_control *control,
                      struct lull_pilot *pilot, struct lull_error *note_out)
{
    note_out->code = 0;
    if (online->is_done)
        return;
    lull_control_lock(control);
    take_iterations(online, control, pilot);
    if (online->useless > PATIENCE)
        give_up(online, pilot,
                "the program does not say where forward and backward begin and end (liblull)",
                note_out);
    else
        go_on(online, pilot, note_out);
    lull_control_unlock(control);
}

/* ---- the profile ------------------------------------------------------------------------- */

static void write_rows(const struct lull_pipeline_profile *profile, FILE *file)
{
    fprintf(file, "stage,instruction,frequency,time,energy\n");
    for (size_t c = 0; c < profile->class_count; c++)
        for (size_t i = 0; i < profile->classes[c].option_count; i++) {
            const struct lull_pipeline_option *option = &profile->classes[c].options[i];

            fprintf(file, "%u,%s,%u,%.9f,%.9f\n", profile->classes[c].stage,
                    lull_pipeline_kind_name(profile->classes[c].kind), option->sm_mhz,
                    (double)option->time_ns * 1e-9, (double)option->energy_nj * 1e-9);
        }
}

int lull_online_write_profile(const struct lull_online *online, const char *directory,
                              struct lull_error *err)
{
    char path[PATH_MAX];
    char *text = NULL;
    size_t size = 0;
    FILE *file;
    int result;

    if (online->plans[PLAN].profile.class_count == 0)
        return 0;
    if ((size_t)snprintf(path, sizeof(path), "%s/profile.csv", directory) >= sizeof(path))
        return lull_error_set(err, -ENAMETOOLONG, "%s: the path is too long", directory);
    file = open_memstream(&text, &size);
    if (file == NULL)
        return lull_error_set(err, -ENOMEM, "%s: no memory", path);
    write_rows(&online->plans[PLAN].profile, file);
    fclose(file);
    result = lull_file_write_atomic(path, text, size, 0644, err);
    free(text);
    return result;
}
