/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/sweep/measure.h"

#include <errno.h>
#include <math.h>

/* The energy counter's period was measured: reading one more than once a
 * second makes some fall short (docs/user/energy.md). */
static const double look_s = 0.1;
static const double count_s = 1.0;
static const double process_look_s = 1.0;
static const double edge_patience_s = 0.5; /* counters are refreshed every 20 to 100 ms */
static const double unknown_refresh_s = 0.1;

enum { REFRESHES = 5 };

/* Lets some time pass while leases live on. */
static int sweep_measure_wait(struct lull_sweep_bench *bench, double seconds,
                              struct lull_error *err)
{
    const int result = lull_sweep_rig_poll(bench->rig, err);

    if (result < 0)
        return result;
    if (bench->is_stopped(bench->context))
        return lull_error_set(err, -EINTR, "interrupted");
    lull_sweep_time_sleep(bench->time, seconds);
    return 0;
}

/* If this process was late, edges may be several refreshes apart: the number follows from the
 * shortest distance. */
void lull_sweep_bench_learn_refresh(struct lull_sweep_bench *bench)
{
    struct lull_sweep_edge edges[REFRESHES + 1];
    double shortest_s = INFINITY, count = 0.0;

    bench->refresh_s = unknown_refresh_s;
    for (uint32_t i = 0; i <= REFRESHES; i++) {
        lull_sweep_rig_find_edge(bench->rig, edge_patience_s, &edges[i]);
        if (!edges[i].is_found)
            return;
        if (i > 0)
            shortest_s = fmin(shortest_s, edges[i].time_s - edges[i - 1].time_s);
    }
    for (uint32_t i = 1; i <= REFRESHES; i++)
        count += round((edges[i].time_s - edges[i - 1].time_s) / shortest_s);
    bench->refresh_s = (edges[REFRESHES].time_s - edges[0].time_s) / count;
}

int lull_sweep_bench_measure_idle(struct lull_sweep_bench *bench, double seconds,
                                  double *idle_w_out, struct lull_error *err)
{
    const double until_s = lull_sweep_time_now(bench->time) + seconds;
    struct lull_sweep_edge begin, end;
    struct lull_moments power_w = {.count = 0};
    int result = 0;

    lull_sweep_rig_find_edge(bench->rig, edge_patience_s, &begin);
    while (result == 0 && lull_sweep_time_now(bench->time) < until_s) {
        struct lull_sweep_look look;

        lull_sweep_rig_look(bench->rig, false, &look);
        if (!isnan(look.power_w))
            lull_moments_add(&power_w, look.power_w);
        result = sweep_measure_wait(bench, look_s, err);
    }
    if (result < 0)
        return result;
    lull_sweep_rig_find_edge(bench->rig, edge_patience_s, &end);
    *idle_w_out = power_w.count > 0 ? power_w.mean : NAN;
    if (begin.is_found && end.is_found && end.counter_j > begin.counter_j)
        *idle_w_out = (end.counter_j - begin.counter_j) / (end.time_s - begin.time_s);
    return 0;
}

/* ---- a setting ----------------------------------------------------------------------------- */

/* Sets a point, and once more if the clock is not there. If the GPU is held below a clock,
 * requesting it again does not help. */
static int set_point(struct lull_sweep_bench *bench, const struct lull_sweep_setting *setting,
                     double step_mhz, bool is_busy, struct lull_error *err)
{
    struct lull_sweep_look look;
    int result = lull_sweep_rig_set(bench->rig, setting, is_busy, err);

    if (result < 0 || !is_busy)
        return result;
    lull_sweep_rig_look(bench->rig, false, &look);
    if (look.is_capped || look.is_throttled ||
        !(fabs(look.sm_mhz - setting->sm_mhz) > step_mhz + 1.0))
        return 0;
    return lull_sweep_rig_set(bench->rig, setting, is_busy, err);
}

/* Drops the runs that have ended so far. */
static int drop_runs(struct lull_sweep_bench *bench, struct lull_error *err)
{
    struct lull_sweep_run run;
    int result;

    while ((result = lull_sweep_load_take(bench->load, &run, err)) > 0)
        continue;
    return result;
}

/* Lets the kernel run at its point unmeasured. */
static int sweep_measure_soak(struct lull_sweep_bench *bench, double seconds,
                              struct lull_error *err)
{
    const double until_s = lull_sweep_time_now(bench->time) + seconds;
    int result = 0;

    while (result == 0 && lull_sweep_time_now(bench->time) < until_s) {
        result = sweep_measure_wait(bench, fmin(look_s, seconds), err);
        if (result == 0)
            result = drop_runs(bench, err);
    }
    return result;
}

int lull_sweep_bench_warm_up(struct lull_sweep_bench *bench,
                             const struct lull_sweep_setting *setting, double *took_s_out,
                             struct lull_error *err)
{
    const double begin_s = lull_sweep_time_now(bench->time);
    struct lull_sweep_warmth warmth = {.is_begun = false};
    int result = lull_sweep_rig_set(bench->rig, setting, false, err);

    lull_sweep_load_begin(bench->load);
    while (result == 0) {
        const double now_s = lull_sweep_time_now(bench->time);
        struct lull_sweep_look look;

        lull_sweep_rig_look(bench->rig, false, &look);
        if (lull_sweep_warmth_take(&warmth, now_s, look.temperature_c, bench->protocol->warm_s) ||
            now_s - begin_s >= bench->protocol->warm_max_s)
            break;
        result = sweep_measure_soak(bench, look_s, err);
    }
    lull_sweep_load_end(bench->load);
    *took_s_out = lull_sweep_time_now(bench->time) - begin_s;
    return result;
}

/* ---- a visit ------------------------------------------------------------------------------- */

/* A window while it is measured. */
struct window {
    struct lull_sweep_point point;
    double counted_s;  /* time of the last reading of the counter */
    double searched_s; /* time of the last search for processes */
    double last_run_s; /* end of the last run that counts */
};

/* Takes the runs that have started within the window. */
static int take_runs(struct lull_sweep_bench *bench, struct window *window, struct lull_error *err)
{
    struct lull_sweep_run run;
    int result;

    while ((result = lull_sweep_load_take(bench->load, &run, err)) > 0) {
        if (run.begin_s < window->point.begin.time_s)
            continue;
        lull_sweep_point_run(&window->point, run.run.launches, run.run.seconds);
        window->last_run_s = run.end_s;
    }
    return result;
}

static int sweep_measure_sample_once(struct lull_sweep_bench *bench, struct window *window,
                                     struct lull_error *err)
{
    const double now_s = lull_sweep_time_now(bench->time);
    const bool is_searching = now_s - window->searched_s >= process_look_s;
    struct lull_sweep_look look;

    lull_sweep_rig_look(bench->rig, is_searching, &look);
    lull_sweep_point_look(&window->point, &look);
    if (is_searching)
        window->searched_s = now_s;
    if (window->point.begin.is_found && now_s - window->counted_s >= count_s) {
        lull_sweep_point_count(&window->point, lull_sweep_rig_count(bench->rig));
        window->counted_s = now_s;
    }
    return take_runs(bench, window, err);
}

/* Waits for the run that is under way, which is measured whole. */
static int finish_run(struct lull_sweep_bench *bench, struct window *window, struct lull_error *err)
{
    int result = 0;

    lull_sweep_load_end(bench->load);
    while (result == 0 && !lull_sweep_load_is_idle(bench->load)) {
        result = sweep_measure_sample_once(bench, window, err);
        if (result == 0)
            result = sweep_measure_wait(bench, look_s / 10.0, err);
    }
    return result < 0 ? result : take_runs(bench, window, err);
}

static int sweep_measure_window(struct lull_sweep_bench *bench, struct window *window,
                                struct lull_error *err)
{
    int result = 0;

    while (result == 0 && !lull_sweep_point_is_done(&window->point, &bench->protocol->rules,
                                                    lull_sweep_time_now(bench->time))) {
        result = sweep_measure_wait(bench, look_s, err);
        if (result == 0)
            result = sweep_measure_sample_once(bench, window, err);
    }
    return result;
}

static void sweep_measure_begin_window(struct lull_sweep_bench *bench, struct window *window)
{
    struct lull_sweep_edge begin;

    lull_sweep_rig_find_edge(bench->rig, edge_patience_s, &begin);
    lull_sweep_point_begin(&window->point, &begin, bench->refresh_s);
    window->counted_s = begin.time_s;
    window->searched_s = begin.time_s - process_look_s;
    window->last_run_s = begin.time_s;
}

/* A kernel of a suite runs before, during and behind the window, so that nothing of its ends is in
 * it. */
static int visit_kernel(struct lull_sweep_bench *bench, struct window *window,
                        const struct lull_sweep_target *target,
                        struct lull_sweep_result *result_out, struct lull_error *err)
{
    struct lull_sweep_edge end;
    int result = sweep_measure_soak(bench, bench->protocol->soak_s, err);

    if (result < 0)
        return result;
    sweep_measure_begin_window(bench, window);
    result = sweep_measure_window(bench, window, err);
    if (result < 0)
        return result;
    lull_sweep_rig_find_edge(bench->rig, edge_patience_s, &end);
    lull_sweep_point_end(&window->point, &bench->protocol->rules, target, &end, 0.0, 0.0,
                         result_out);
    return 0;
}

/* Of a command whole runs are measured. The energy between the end of the last run and the edge is
 * subtracted as idle. */
static int visit_command(struct lull_sweep_bench *bench, struct window *window,
                         const struct lull_sweep_target *target,
                         struct lull_sweep_result *result_out, struct lull_error *err)
{
    struct lull_sweep_edge end;
    struct lull_sweep_look look;
    int result;

    sweep_measure_begin_window(bench, window);
    lull_sweep_load_begin(bench->load);
    result = sweep_measure_window(bench, window, err);
    if (result == 0)
        result = finish_run(bench, window, err);
    if (result < 0)
        return result;
    lull_sweep_rig_find_edge(bench->rig, edge_patience_s, &end);
    lull_sweep_rig_look(bench->rig, false, &look);
    if (isnan(look.power_w))
        look.power_w = 0.0;
    lull_sweep_point_end(&window->point, &bench->protocol->rules, target, &end,
                         fmax(end.time_s - window->last_run_s, 0.0), look.power_w, result_out);
    return 0;
}

int lull_sweep_bench_visit(struct lull_sweep_bench *bench, const struct lull_sweep_setting *setting,
                           const struct lull_sweep_target *target,
                           struct lull_sweep_result *result_out, struct lull_error *err)
{
    const bool is_command = lull_sweep_load_kind(bench->load)->has_idle_ends;
    struct window window;
    int result;

    if (is_command) {
        result = set_point(bench, setting, target->step_mhz, false, err);
        return result < 0 ? result : visit_command(bench, &window, target, result_out, err);
    }
    lull_sweep_load_begin(bench->load);
    result = set_point(bench, setting, target->step_mhz, true, err);
    return result < 0 ? result : visit_kernel(bench, &window, target, result_out, err);
}
