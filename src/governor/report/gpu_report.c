/* Reports a GPU of the managed run: its driver, communicators and sections, and what was decided.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/clock.h"
#include "governor/report/report_fields.h"
#include "governor/report/report_parts.h"
#include "governor/report/section_text.h"

/* ---- sections ---------------------------------------------------------------------------- */

static json_t *gpu_report_section_json(const struct lull_report *report, uint32_t gpu,
                                       uint32_t index)
{
    const struct lull_control *control = report->managed;
    const struct lull_controller *controller = lull_control_controller(control);
    const struct lull_target *target = lull_controller_target_of(controller, gpu, index);
    uint32_t count;
    const struct lull_section *section =
        &lull_track_sections(lull_controller_look_gpu(controller, gpu).track, &count)[index];
    json_t *object = json_object();
    struct lull_section_text text;

    lull_section_describe(control, gpu, index, &text);
    lull_field_text(object, "kind", text.kind);
    lull_field_text(object, "signature", text.signature);
    lull_field_text(object, "name", text.name);
    lull_field_integer(object, "count", (json_int_t)section->length_ms.count);
    lull_field_number(object, "mean_ms", section->length_ms.mean);
    lull_field_number(object, "exposed_ms", section->exposed_ms.mean);
    lull_field_integer(object, "sm_mhz", lull_report_kept_mhz(report, gpu, target));
    lull_field_json(object, "descent", lull_report_descent_json(report, gpu, target));
    lull_field_text(object, "verdict", text.verdict);
    lull_field_text(object, "reason", text.reason);
    return object;
}

static json_t *gpu_report_sections_json(const struct lull_report *report, uint32_t gpu)
{
    const struct lull_controller *controller = lull_control_controller(report->managed);
    json_t *sections = json_array();
    uint32_t count;

    lull_track_sections(lull_controller_look_gpu(controller, gpu).track, &count);
    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(sections, gpu_report_section_json(report, gpu, i));
    return sections;
}

static json_t *gpu_report_steady_json(const struct lull_report *report, uint32_t gpu)
{
    const struct lull_controller *controller = lull_control_controller(report->managed);
    const struct lull_target *target;
    json_t *object;

    target = lull_controller_look(controller).steady;
    if (target == NULL)
        return json_null();
    object = json_object();
    lull_field_integer(object, "sm_mhz", lull_report_kept_mhz(report, gpu, target));
    lull_field_number(object, "below_ratio", lull_target_below_ratio(target));
    lull_field_json(object, "descent", lull_report_descent_json(report, gpu, target));
    lull_field_text(object, "verdict", lull_gpu_verdict_text(report->managed, gpu, target));
    lull_field_text(object, "reason", lull_gpu_reason_text(report->managed, gpu, target));
    return object;
}

/* The result of lowering the GPU because its rank waits for later ones. */
static json_t *slack_json(const struct lull_controller *controller, uint32_t gpu)
{
    const struct lull_slack_record *record = lull_controller_look_gpu(controller, gpu).slack;
    json_t *object = json_object();

    lull_field_integer(object, "iterations", (json_int_t)record->iterations);
    lull_field_integer(object, "lowered_iterations", (json_int_t)record->lowered);
    lull_field_integer(object, "other_nodes_iterations", (json_int_t)record->by_nodes);
    lull_field_integer(object, "most_points", record->most);
    lull_field_integer(object, "recoveries", record->recoveries);
    lull_field_text(object, "verdict", record->lowered > 0 ? "lowered" : "not lowered");
    lull_field_text(object, "reason", lull_slack_reason_text(record));
    return object;
}

/* ---- driver and communicators ------------------------------------------------------------ */

static json_t *direction_json(const struct lull_switch_cost *cost, enum lull_direction direction)
{
    json_t *object = json_object();

    lull_field_integer(object, "observed", (json_int_t)cost->total_ms[direction].count);
    lull_field_number(object, "call_p50_ms", lull_switch_cost_call_ms(cost, direction, 0.5));
    lull_field_number(object, "total_p50_ms", lull_switch_cost_total_ms(cost, direction, 0.5));
    lull_field_number(object, "total_p95_ms", lull_switch_cost_total_ms(cost, direction, 0.95));
    return object;
}

static json_t *switch_json(const struct lull_controller *controller, uint32_t gpu)
{
    const struct lull_switch_cost *cost = lull_controller_look_gpu(controller, gpu).switch_cost;
    json_t *object = json_object();

    lull_field_json(object, "down", direction_json(cost, LULL_DIRECTION_DOWN));
    lull_field_json(object, "up", direction_json(cost, LULL_DIRECTION_UP));
    return object;
}

static json_t *reaction_json(const struct lull_run_log *log)
{
    double p50_us;
    double p99_us;
    json_t *object;

    if (!lull_run_log_reaction_us(log, 0.5, &p50_us) ||
        !lull_run_log_reaction_us(log, 0.99, &p99_us))
        return json_null();
    object = json_object();
    lull_field_integer(object, "count", (json_int_t)log->reactions.count);
    lull_field_number(object, "p50_us", p50_us);
    lull_field_number(object, "p99_us", p99_us);
    return object;
}

static json_t *driver_json(const struct lull_driver_watch *watch)
{
    json_t *object = json_object();
    char trouble[256];

    lull_driver_watch_describe(watch, trouble, sizeof(trouble));
    lull_field_integer(object, "changes", (json_int_t)watch->changes);
    lull_field_integer(object, "without_effect", (json_int_t)watch->without_effect);
    lull_field_integer(object, "calls", (json_int_t)watch->calls);
    lull_field_integer(object, "slow_calls", (json_int_t)watch->slow_calls);
    lull_field_number(object, "slowest_call_ms", watch->slowest_call_ms);
    lull_field_integer(object, "foreign_changes", (json_int_t)watch->foreign);
    lull_field_text(object, "trouble", trouble);
    return object;
}

static json_t *communicators_json(const struct lull_communicators *communicators,
                                  uint64_t iterations)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < communicators->count; i++) {
        const struct lull_named_communicator *item = &communicators->items[i];
        json_t *object = json_object();

        lull_field_text(object, "name", item->name);
        lull_field_integer(object, "ranks", item->what.ranks);
        lull_field_integer(object, "nodes", item->what.nodes);
        lull_field_integer(object, "operations", (json_int_t)item->operations);
        lull_field_text(
            object, "parallelism",
            lull_parallelism_name(lull_communicator_parallelism(&item->what, iterations)));
        json_array_append_new(array, object);
    }
    return array;
}

/* ---- one GPU ----------------------------------------------------------------------------- */

/* Returns how long the rank was in the job; where that was not seen, from its first call to its
 * last. */
static double life_of_rank_ms(const struct lull_control_gpu *state,
                              const struct lull_track_totals *totals)
{
    const int64_t begin_ns = state->entered_ns != 0 ? state->entered_ns : totals->first_ns;
    const int64_t end_ns = state->left_ns != 0 ? state->left_ns : totals->last_ns;

    return lull_ms_from_ns(end_ns - begin_ns);
}

/* Returns what was done with a GPU. If no power limit was found, the GPU kept its own. */
static const char *gpu_report_state_text(const struct lull_report *report, uint32_t gpu)
{
    const struct lull_control_gpu *state = lull_control_gpu(report->managed, gpu);
    struct lull_limits_summary summary;

    if (report->serving != NULL)
        return lull_serving_gpu_text(report->serving, gpu);
    if (report->limits != NULL && state->leased && !state->shared) {
        lull_limits_summary(report->limits, &summary);
        if (!summary.is_held)
            return "left at its power limit: no other one was chosen";
    }
    return lull_gpu_state_text(report->managed, gpu);
}

json_t *lull_gpu_report_json(const struct lull_report *report, uint32_t gpu)
{
    const struct lull_control *control = report->managed;
    const struct lull_controller *controller = lull_control_controller(control);
    const struct lull_control_gpu *state = lull_control_gpu(control, gpu);
    const struct lull_device_info *info = lull_control_info(control, gpu);
    const struct lull_track *track = lull_controller_look_gpu(controller, gpu).track;
    const struct lull_run_log *log = lull_control_log(control, gpu);
    struct lull_track_totals totals;
    double life_ms;
    json_t *object = json_object();

    lull_track_totals(track, &totals);
    life_ms = life_of_rank_ms(state, &totals);
    lull_field_integer(object, "index", state->device);
    lull_field_text(object, "name", info->name);
    lull_field_text(object, "uuid", info->uuid);
    lull_field_text(object, "state", gpu_report_state_text(report, gpu));
    lull_field_json(object, "highest_sm_mhz",
                    info->sm_clock_count > 0 ? json_integer(info->sm_clocks_mhz[0]) : json_null());
    lull_field_json(object, "driver", driver_json(&state->driver));
    lull_field_json(object, "communicators",
                    communicators_json(&state->communicators, log->boundaries.count));
    lull_field_integer(object, "calls", (json_int_t)totals.calls);
    lull_field_integer(object, "calls_per_iteration", (json_int_t)lull_track_period(track));
    lull_field_number(object, "communication_ms", totals.communication_ms);
    lull_field_known(object, "communication_ratio", totals.communication_ms / life_ms,
                     life_ms > 0.0);
    lull_field_integer(object, "switches", (json_int_t)log->switches);
    lull_field_integer(object, "switches_refused", (json_int_t)log->refused);
    lull_field_integer(object, "events_lost", (json_int_t)state->lost_events);
    lull_field_json(object, "reaction", reaction_json(log));
    lull_field_json(object, "switch_cost", switch_json(controller, gpu));
    lull_field_json(object, "steady", gpu_report_steady_json(report, gpu));
    lull_field_json(object, "valley", lull_valley_report_json(report, gpu));
    lull_field_json(object, "slack", slack_json(controller, gpu));
    lull_field_json(object, "sections", gpu_report_sections_json(report, gpu));
    return object;
}

void lull_gpu_report_print(const struct lull_report *report, uint32_t gpu, FILE *out)
{
    const struct lull_control *control = report->managed;
    char trouble[256];

    fprintf(out, "  GPU %u: %s\n", lull_control_gpu(control, gpu)->device,
            gpu_report_state_text(report, gpu));
    if (lull_driver_watch_describe(&lull_control_gpu(control, gpu)->driver, trouble,
                                   sizeof(trouble)))
        fprintf(out, "    driver: %s\n", trouble);
    /* Under a power limit sections are only observed, and nothing is decided for them. */
    if (report->limits == NULL && report->serving == NULL)
        lull_section_table_print(report, gpu, out);
}
