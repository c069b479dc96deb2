/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/report/report.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/file.h"
#include "governor/run/run_statistics.h"
#include "governor/report/pipeline_report.h"
#include "governor/report/section_text.h"
#include "governor/report/timeline.h"

static json_t *number_or_null(double value, bool known)
{
    return known && isfinite(value) ? json_real(value) : json_null();
}

static json_t *statistics_json(const struct lull_run_statistics *statistics)
{
    return json_pack(
        "{s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:f}", "iterations",
        (json_int_t)statistics->iterations, "warming_iterations", (json_int_t)statistics->warming,
        "iteration_ms", number_or_null(statistics->iteration_ms, statistics->iterations > 0),
        "energy_j", number_or_null(statistics->energy_j, statistics->has_energy),
        "energy_uncertainty_j",
        number_or_null(lull_energy_sum_uncertainty_j(&statistics->measured),
                       statistics->has_energy && statistics->has_uncertainty),
        "average_power_w", number_or_null(statistics->average_power_w, statistics->has_energy),
        "energy_per_iteration_j",
        number_or_null(lull_run_statistics_energy_per_iteration_j(statistics),
                       statistics->has_energy),
        "span_s", statistics->span_s);
}

static json_t *descent_json(const struct lull_controller *controller, uint32_t gpu,
                            const struct lull_device_info *info, const struct lull_target *target)
{
    json_t *steps = json_array();

    for (uint32_t i = 0; target != NULL && i < target->record_count; i++) {
        const struct lull_descent_record *record = &target->records[i];
        uint32_t point = lull_controller_point_on(controller, gpu, target, record->point);

        json_array_append_new(
            steps,
            json_pack("{s:I, s:o, s:o, s:o, s:I, s:I, s:s}", "sm_mhz",
                      (json_int_t)info->sm_clocks_mhz[point], "gpu",
                      record->gpu < 0 ? json_null() : json_integer(record->gpu), "slowdown_ratio",
                      number_or_null(record->slowdown_ratio, true), "slowdown_upper95_ratio",
                      number_or_null(record->upper_ratio, true), "pairs", (json_int_t)record->pairs,
                      "iterations", (json_int_t)record->iterations, "verdict",
                      lull_verdict_text(record->verdict)));
    }
    return steps;
}

static uint32_t kept_mhz(const struct lull_controller *controller, uint32_t gpu,
                         const struct lull_device_info *info, const struct lull_target *target)
{
    uint32_t point = 0;

    if (target != NULL && target->settled)
        point = lull_controller_kept_point(controller, gpu, target);
    return info->sm_clock_count > 0 ? info->sm_clocks_mhz[point] : 0;
}

static json_t *section_json(const struct lull_control *control, uint32_t gpu, uint32_t index,
                            const struct lull_device_info *info)
{
    const struct lull_controller *controller = lull_control_controller(control);
    const struct lull_target *target = lull_controller_target_of(controller, gpu, index);
    uint32_t count;
    const struct lull_section *section =
        &lull_track_sections(lull_controller_track(controller, gpu), &count)[index];
    struct lull_section_text text;

    lull_section_describe(control, gpu, index, &text);
    return json_pack("{s:s, s:s, s:s, s:I, s:f, s:f, s:I, s:o, s:s, s:s}", "kind", text.kind,
                     "signature", text.signature, "name", text.name, "count",
                     (json_int_t)section->length_ms.count, "mean_ms", section->length_ms.mean,
                     "exposed_ms", section->exposed_ms.mean, "sm_mhz",
                     (json_int_t)kept_mhz(controller, gpu, info, target), "descent",
                     descent_json(controller, gpu, info, target), "verdict", text.verdict, "reason",
                     text.reason);
}

static json_t *steady_json(const struct lull_control *control, uint32_t gpu,
                           const struct lull_device_info *info)
{
    const struct lull_controller *controller = lull_control_controller(control);
    const struct lull_target *target;
    uint32_t count;

    if (!lull_controller_is_steady(controller))
        return json_null();
    target = lull_controller_targets(controller, &count);
    return json_pack("{s:I, s:o, s:s, s:s}", "sm_mhz",
                     (json_int_t)kept_mhz(controller, gpu, info, target), "descent",
                     descent_json(controller, gpu, info, target), "verdict",
                     lull_target_verdict_text(target), "reason", lull_target_reason_text(target));
}

static json_t *switch_json(const struct lull_controller *controller, uint32_t gpu)
{
    const struct lull_switch_cost *cost = lull_controller_switch_cost(controller, gpu);
    json_t *object = json_object();
    static const char *const names[LULL_DIRECTION_COUNT] = {"down", "up"};

    for (enum lull_direction i = LULL_DIRECTION_DOWN; i < LULL_DIRECTION_COUNT; i++)
        json_object_set_new(object, names[i],
                            json_pack("{s:I, s:f, s:f, s:f}", "observed",
                                      (json_int_t)cost->total_ms[i].count, "call_p50_ms",
                                      lull_switch_cost_call_ms(cost, i, 0.5), "total_p50_ms",
                                      lull_switch_cost_total_ms(cost, i, 0.5), "total_p95_ms",
                                      lull_switch_cost_total_ms(cost, i, 0.95)));
    return object;
}

static json_t *reaction_json(const struct lull_run_log *log)
{
    double p50 = NAN;
    double p99 = NAN;

    if (!lull_run_log_reaction_us(log, 0.5, &p50) || !lull_run_log_reaction_us(log, 0.99, &p99))
        return json_null();
    return json_pack("{s:I, s:f, s:f}", "count", (json_int_t)log->reactions.count, "p50_us", p50,
                     "p99_us", p99);
}

static json_t *driver_json(const struct lull_driver_watch *watch)
{
    char text[256];

    lull_driver_watch_describe(watch, text, sizeof(text));
    return json_pack("{s:I, s:I, s:I, s:I, s:f, s:I, s:s}", "changes", (json_int_t)watch->changes,
                     "without_effect", (json_int_t)watch->without_effect, "calls",
                     (json_int_t)watch->calls, "slow_calls", (json_int_t)watch->slow_calls,
                     "slowest_call_ms", watch->slowest_call_ms, "foreign_changes",
                     (json_int_t)watch->foreign, "trouble", text);
}

static json_t *communicators_json(const struct lull_communicators *communicators,
                                  uint64_t iterations)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < communicators->count; i++) {
        const struct lull_named_communicator *item = &communicators->items[i];

        json_array_append_new(
            array, json_pack("{s:s, s:I, s:I, s:I, s:s}", "name", item->name, "ranks",
                             (json_int_t)item->what.ranks, "nodes", (json_int_t)item->what.nodes,
                             "operations", (json_int_t)item->operations, "parallelism",
                             lull_parallelism_name(
                                 lull_communicator_parallelism(&item->what, iterations))));
    }
    return array;
}

static json_t *gpu_json(const struct lull_report *report, uint32_t gpu)
{
    const struct lull_control *control = report->managed;
    const struct lull_controller *controller = lull_control_controller(control);
    const struct lull_control_gpu *state = lull_control_gpu(control, gpu);
    const struct lull_device_info *info = lull_device_info(report->devices, state->device);
    const struct lull_track *track = lull_controller_track(controller, gpu);
    const struct lull_run_log *log = lull_control_log(control, gpu);
    struct lull_track_totals totals;
    int64_t begin_ns;
    int64_t end_ns;
    double life_ms;
    json_t *sections = json_array();
    uint32_t count;

    lull_track_totals(track, &totals);
    begin_ns = state->entered_ns != 0 ? state->entered_ns : totals.first_ns;
    end_ns = state->left_ns != 0 ? state->left_ns : totals.last_ns;
    life_ms = lull_ms_from_ns(end_ns - begin_ns);
    lull_track_sections(track, &count);
    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(sections, section_json(control, gpu, i, info));
    return json_pack(
        "{s:I, s:s, s:s, s:s, s:o, s:o, s:I, s:I, s:f, s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:o}",
        "index", (json_int_t)state->device, "name", info->name, "uuid", info->uuid, "state",
        lull_gpu_state_text(control, gpu), "driver", driver_json(&state->driver), "communicators",
        communicators_json(&state->communicators, log->boundaries.count), "calls",
        (json_int_t)totals.calls, "calls_per_iteration", (json_int_t)lull_track_period(track),
        "communication_ms", totals.communication_ms, "communication_ratio",
        number_or_null(totals.communication_ms / life_ms, life_ms > 0.0), "switches",
        (json_int_t)log->switches, "switches_refused", (json_int_t)log->refused, "events_lost",
        (json_int_t)state->lost_events, "reaction", reaction_json(log), "switch_cost",
        switch_json(controller, gpu), "steady", steady_json(control, gpu, info), "sections",
        sections);
}

/* Slowdown against the unmanaged run, or, without one, as the guard saw it in this run. */
static void add_slowdown(const struct lull_report *report,
                         const struct lull_run_statistics *unmanaged,
                         const struct lull_run_statistics *managed, json_t *root)
{
    struct lull_guard_estimate guard = {.slowdown_ratio = NAN, .upper_ratio = INFINITY};
    double slowdown = NAN;
    double upper = NAN;
    bool known = false;

    if (report->managed != NULL)
        lull_controller_slowdown(lull_control_controller(report->managed), &guard);
    if (report->unmanaged != NULL)
        known =
            lull_run_statistics_slowdown(unmanaged, managed, report->confidence, &slowdown, &upper);
    else if (guard.pairs >= 2) {
        known = true;
        slowdown = guard.slowdown_ratio;
        upper = guard.upper_ratio;
    }
    json_object_set_new(root, "slowdown_ratio", number_or_null(slowdown, known));
    json_object_set_new(root, "slowdown_upper95_ratio", number_or_null(upper, known));
    json_object_set_new(
        root, "guard",
        json_pack("{s:I, s:o, s:o}", "pairs", (json_int_t)guard.pairs, "slowdown_ratio",
                  number_or_null(guard.slowdown_ratio, guard.pairs >= 2), "slowdown_upper95_ratio",
                  number_or_null(guard.upper_ratio, guard.pairs >= 2)));
}

/* What the whole managed run, learning and descent included, cost in time per iteration. */
static double whole_run_slowdown(const struct lull_report *report)
{
    struct lull_run_statistics unmanaged;
    struct lull_run_statistics managed;

    if (report->unmanaged == NULL || report->managed == NULL)
        return NAN;
    lull_run_statistics_compute(report->unmanaged, LULL_RUN_PART_WHOLE, &unmanaged);
    lull_run_statistics_compute(report->managed, LULL_RUN_PART_WHOLE, &managed);
    if (unmanaged.iterations == 0 || managed.iterations == 0)
        return NAN;
    return managed.iteration_ms / unmanaged.iteration_ms - 1.0;
}

/* The part of the managed run that the figures speak of: settled, or all if it never settled. */
static enum lull_run_part managed_part(const struct lull_control *managed)
{
    return lull_control_has_settled(managed) ? LULL_RUN_PART_SETTLED : LULL_RUN_PART_ALL;
}

static void add_statistics(const struct lull_report *report, json_t *root)
{
    struct lull_run_statistics unmanaged = {0};
    struct lull_run_statistics managed = {0};
    struct lull_run_statistics descent = {0};
    double saving;
    double uncertainty;
    bool settled = false;
    uint64_t settled_after = 0;

    if (report->unmanaged != NULL)
        lull_run_statistics_compute(report->unmanaged, LULL_RUN_PART_ALL, &unmanaged);
    if (report->managed != NULL) {
        settled = managed_part(report->managed) == LULL_RUN_PART_SETTLED;
        settled_after = lull_controller_settled_after(lull_control_controller(report->managed));
        lull_run_statistics_compute(report->managed, managed_part(report->managed), &managed);
        lull_run_statistics_compute(report->managed, LULL_RUN_PART_DESCENT, &descent);
    }
    json_object_set_new(root, "unmanaged",
                        report->unmanaged != NULL ? statistics_json(&unmanaged) : json_null());
    json_object_set_new(root, "managed", statistics_json(&managed));
    json_object_set_new(root, "descent", statistics_json(&descent));
    json_object_set_new(root, "settled", json_boolean(settled));
    json_object_set_new(root, "settled_after_iterations",
                        settled ? json_integer((json_int_t)settled_after) : json_null());
    lull_run_statistics_saving(&unmanaged, &managed, &saving, &uncertainty);
    json_object_set_new(root, "saving_ratio", number_or_null(saving, true));
    json_object_set_new(root, "saving_uncertainty_ratio", number_or_null(uncertainty, true));
    json_object_set_new(root, "oracle_saving_ratio", json_null());
    add_slowdown(report, &unmanaged, &managed, root);
    json_object_set_new(root, "whole_run_slowdown_ratio",
                        number_or_null(whole_run_slowdown(report), true));
}

static json_t *strings_json(const char *const *strings)
{
    json_t *array = json_array();

    for (; strings != NULL && *strings != NULL; strings++)
        json_array_append_new(array, json_string(*strings));
    return array;
}

static json_t *peers_json(const struct lull_peers_summary *peers)
{
    if (peers == NULL)
        return json_null();
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:s}", "nodes", (json_int_t)peers->nodes, "heard",
                     (json_int_t)peers->heard, "agreed", (json_int_t)peers->agreed, "disagreements",
                     (json_int_t)peers->disagreements, "refused", (json_int_t)peers->refused,
                     "state", peers->state);
}

static json_t *report_json(const struct lull_report *report)
{
    json_t *root = json_object();
    json_t *gpus = json_array();

    json_object_set_new(root, "version", json_integer(1));
    json_object_set_new(root, "command", strings_json((const char *const *)report->command));
    json_object_set_new(root, "status", json_integer(report->status));
    json_object_set_new(
        root, "driver_version",
        json_string(report->devices != NULL ? lull_devices_driver_version(report->devices) : ""));
    json_object_set_new(root, "tolerance_ratio", json_real(report->tolerance_ratio));
    json_object_set_new(root, "confidence", json_real(report->confidence));
    json_object_set_new(root, "unmanaged_wall_s",
                        number_or_null(report->unmanaged_s, report->unmanaged != NULL));
    json_object_set_new(root, "managed_wall_s", json_real(report->managed_s));
    add_statistics(report, root);
    for (uint32_t i = 0; report->managed != NULL && i < lull_control_gpu_count(report->managed);
         i++)
        if (lull_control_gpu(report->managed, i)->process >= 0)
            json_array_append_new(gpus, gpu_json(report, i));
    json_object_set_new(root, "gpus", gpus);
    json_object_set_new(root, "together", peers_json(report->peers));
    json_object_set_new(root, "pipeline",
                        lull_pipeline_report_json(report->managed, report->runner, report->online,
                                                  report->response, report->confidence));
    json_object_set_new(root, "power_limit", lull_limits_json(report->limits));
    json_object_set_new(root, "energy", lull_energy_report_json(&report->energy));
    json_object_set_new(root, "notes", strings_json(report->notes));
    return root;
}

int lull_report_write(const struct lull_report *report, const char *directory,
                      struct lull_error *err)
{
    char path[PATH_MAX];
    json_t *root;
    char *text;
    int result = lull_file_make_directory(directory, 0777, err);

    if (result < 0)
        return result;
    if ((size_t)snprintf(path, sizeof(path), "%s/report.json", directory) >= sizeof(path))
        return lull_error_set(err, -ENAMETOOLONG, "%s: the path is too long", directory);
    root = report_json(report);
    text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    json_decref(root);
    if (text == NULL)
        return lull_error_set(err, -ENOMEM, "%s: no memory for the report", path);
    result = lull_file_write_atomic(path, text, strlen(text), 0644, err);
    free(text);
    if (result == 0 && report->online != NULL)
        result = lull_online_write_profile(report->online, directory, err);
    if (result < 0 || report->managed == NULL)
        return result;
    return lull_timeline_write(report->devices, report->managed, directory, err);
}

static void print_statistics(FILE *out, const char *name,
                             const struct lull_run_statistics *statistics)
{
    fprintf(out, "  %-10s %9" PRIu64 " %12.2f %14.2f %12.1f\n", name, statistics->iterations,
            statistics->iteration_ms, lull_run_statistics_energy_per_iteration_j(statistics),
            statistics->average_power_w);
}

static void print_gpu_sections(const struct lull_report *report, uint32_t gpu, FILE *out)
{
    const struct lull_control *control = report->managed;
    char trouble[256];
    uint32_t count;

    lull_track_sections(lull_controller_track(lull_control_controller(control), gpu), &count);
    fprintf(out, "  GPU %u: %s\n", lull_control_gpu(control, gpu)->device,
            lull_gpu_state_text(control, gpu));
    if (report->limits != NULL)
        count = 0; /* they were only looked at */
    if (lull_driver_watch_describe(&lull_control_gpu(control, gpu)->driver, trouble,
                                   sizeof(trouble)))
        fprintf(out, "    driver: %s\n", trouble);
    for (uint32_t i = 0; i < count; i++) {
        struct lull_section_text text;

        lull_section_describe(control, gpu, i, &text);
        fprintf(out, "    %s\n", text.line);
    }
}

void lull_report_print(const struct lull_report *report, FILE *out)
{
    struct lull_run_statistics unmanaged = {0};
    struct lull_run_statistics descent = {0};
    struct lull_run_statistics managed = {0};
    double saving;
    double uncertainty;
    double slowdown;
    double upper;

    if (report->managed == NULL)
        return;
    lull_run_statistics_compute(report->managed, LULL_RUN_PART_DESCENT, &descent);
    lull_run_statistics_compute(report->managed, managed_part(report->managed), &managed);
    fprintf(out, "\n  %-10s %9s %12s %14s %12s\n", "", "iterations", "ms/iteration", "J/iteration",
            "average W");
    if (report->unmanaged != NULL) {
        lull_run_statistics_compute(report->unmanaged, LULL_RUN_PART_ALL, &unmanaged);
        print_statistics(out, "unmanaged", &unmanaged);
    }
    print_statistics(out, "descent", &descent);
    print_statistics(out, "managed", &managed);
    lull_run_statistics_saving(&unmanaged, &managed, &saving, &uncertainty);
    if (isfinite(saving))
        fprintf(out, "  energy saved %.2f %%", saving * 100.0);
    if (isfinite(saving) && isfinite(uncertainty))
        fprintf(out, " +- %.2f", uncertainty * 100.0);
    if (report->unmanaged != NULL &&
        lull_run_statistics_slowdown(&unmanaged, &managed, report->confidence, &slowdown, &upper))
        fprintf(out, ", slowdown %+.2f %% (at most %.2f %% at %.0f %% confidence)",
                slowdown * 100.0, upper * 100.0, report->confidence * 100.0);
    fprintf(out, "\n");
    lull_pipeline_report_print(report->managed, report->runner, report->response, out);
    lull_limits_print(report->limits, out);
    for (uint32_t i = 0; i < lull_control_gpu_count(report->managed); i++)
        if (lull_control_gpu(report->managed, i)->process >= 0)
            print_gpu_sections(report, i, out);
    lull_energy_report_print(&report->energy, out);
}
