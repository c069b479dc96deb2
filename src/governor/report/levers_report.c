/*
 * Reports the levers: for each the descent in the patent's steps (US 2025/0264922 A1, S221 to S227,
 * core/section/descent.h), with the verdict on each operating point and the one that was kept.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "governor/report/report_fields.h"
#include "governor/report/report_parts.h"
#include "governor/report/section_text.h"

/* A lever: the target of a section's or gap's class, or of whole iterations. */
struct lever {
    const struct lull_target *target;
    const char *lever;
    uint32_t gpu; /* the first GPU that has it; its clocks are reported */
    struct lull_section_text text;
};

/* ---- steps ------------------------------------------------------------------------------- */

/* Names the patent's step that followed a verdict: a lower point (S222), the one before (S225), or
 * the lowest, kept (S226). */
static const char *levers_report_step_of(const struct lull_target *target,
                                         const struct lull_descent_record *record)
{
    switch (record->verdict) {
    case LULL_VERDICT_DEGRADED:
        return "S225";
    case LULL_VERDICT_NOT_DEGRADED:
        return record->point + 1 == target->descent.count ? "S226" : "S222";
    default:
        return "S224";
    }
}

uint32_t lull_report_kept_mhz(const struct lull_report *report, uint32_t gpu,
                              const struct lull_target *target)
{
    const struct lull_device_info *info = lull_control_info(report->managed, gpu);
    uint32_t point = 0;

    if (target != NULL && lull_gpu_alone_text(report->managed, gpu) == NULL)
        point = lull_controller_kept_point(lull_control_controller(report->managed), gpu, target);
    return info->sm_clock_count > 0 ? info->sm_clocks_mhz[point] : 0;
}

static uint32_t tried_mhz(const struct lull_report *report, uint32_t gpu,
                          const struct lull_target *target,
                          const struct lull_descent_record *record)
{
    const struct lull_controller *controller = lull_control_controller(report->managed);

    return lull_control_info(report->managed, gpu)
        ->sm_clocks_mhz[lull_controller_point_on(controller, gpu, target, record->point)];
}

/* The step whose point was kept on this GPU: the last one that was passed at it; record_count: the
 * highest clock was, with which the descent starts. */
static uint32_t kept_step(const struct lull_report *report, uint32_t gpu,
                          const struct lull_target *target)
{
    const uint32_t kept_mhz = lull_report_kept_mhz(report, gpu, target);

    for (uint32_t i = target->record_count; i-- > 0;) {
        const struct lull_descent_record *record = &target->records[i];

        if (record->verdict == LULL_VERDICT_NOT_DEGRADED &&
            (record->gpu < 0 || record->gpu == (int32_t)gpu) &&
            tried_mhz(report, gpu, target, record) == kept_mhz)
            return i;
    }
    return target->record_count;
}

json_t *lull_report_descent_json(const struct lull_report *report, uint32_t gpu,
                                 const struct lull_target *target)
{
    const uint32_t kept = target != NULL ? kept_step(report, gpu, target) : 0;
    json_t *steps = json_array();

    for (uint32_t i = 0; target != NULL && i < target->record_count; i++) {
        const struct lull_descent_record *record = &target->records[i];
        json_t *object = json_object();

        lull_field_integer(object, "sm_mhz", tried_mhz(report, gpu, target, record));
        lull_field_json(object, "gpu", record->gpu < 0 ? json_null() : json_integer(record->gpu));
        lull_field_number(object, "slowdown_ratio", record->slowdown_ratio);
        lull_field_number(object, "slowdown_upper_ratio", record->upper_ratio);
        lull_field_number(object, "confidence_ratio", report->confidence);
        lull_field_integer(object, "pairs", record->pairs);
        lull_field_integer(object, "iterations", record->iterations);
        lull_field_text(object, "verdict", lull_verdict_text(record->verdict));
        lull_field_text(object, "step", levers_report_step_of(target, record));
        lull_field_boolean(object, "kept", i == kept);
        json_array_append_new(steps, object);
    }
    return steps;
}

/* ---- levers ------------------------------------------------------------------------------ */

/* Finds a section of a target, which gives the lever its name. False: no section is left. */
static bool find_section(const struct lull_report *report, struct lever *lever)
{
    const struct lull_controller *controller = lull_control_controller(report->managed);

    for (uint32_t gpu = 0; gpu < lull_control_gpu_count(report->managed); gpu++) {
        uint32_t count;

        if (lull_gpu_alone_text(report->managed, gpu) != NULL)
            continue;
        lull_track_sections(lull_controller_look_gpu(controller, gpu).track, &count);
        for (uint32_t i = 0; i < count; i++)
            if (lull_controller_target_of(controller, gpu, i) == lever->target) {
                lull_section_describe(report->managed, gpu, i, &lever->text);
                lever->gpu = gpu;
                return true;
            }
    }
    return false;
}

/* Returns the first GPU that can be switched; 0, if none can. */
static uint32_t first_switched(const struct lull_report *report)
{
    for (uint32_t gpu = 0; gpu < lull_control_gpu_count(report->managed); gpu++)
        if (lull_control_gpu(report->managed, gpu)->process >= 0 &&
            lull_gpu_alone_text(report->managed, gpu) == NULL)
            return gpu;
    return 0;
}

/* Describes the lever of a target. False: no GPU that can be switched has its sections any more. */
static bool find_lever(const struct lull_report *report, const struct lull_target *target,
                       struct lever *lever)
{
    const struct lull_controller *controller = lull_control_controller(report->managed);

    *lever = (struct lever){.target = target, .lever = "steady point"};
    if (target == lull_controller_look(controller).steady) {
        snprintf(lever->text.signature, sizeof(lever->text.signature), "whole iterations");
        lever->gpu = first_switched(report);
        return true;
    }
    lever->lever = target->of_gaps ? "gaps" : "sections";
    return find_section(report, lever);
}

/* The GPU that ran below the others most of the time, because its rank waits for later ones. */
static uint32_t most_lowered(const struct lull_report *report)
{
    const struct lull_controller *controller = lull_control_controller(report->managed);
    uint32_t most = 0;

    for (uint32_t i = 1; i < lull_control_gpu_count(report->managed); i++)
        if (lull_controller_look_gpu(controller, i).slack->lowered >
            lull_controller_look_gpu(controller, most).slack->lowered)
            most = i;
    return most;
}

/* Counts the levers beside the steady point that are lowered. */
static uint32_t levers_report_count_others(const struct lull_report *report)
{
    const struct lull_controller *controller = lull_control_controller(report->managed);
    const struct lull_controller_view now = lull_controller_look(controller);
    uint32_t others = lull_controller_look_gpu(controller, most_lowered(report)).slack->lowered > 0;

    for (uint32_t i = 0; i < now.target_count; i++)
        others += &now.targets[i] != now.steady && lull_target_is_kept_low(&now.targets[i]);
    return others;
}

/* Adds what a lever saves of the job's energy, if trials separate it from the others. */
static void levers_report_add_saving(const struct lull_report *report, bool is_kept, bool is_steady,
                                     json_t *object)
{
    const char *reason = "it is not lowered";
    double saving = NAN;

    if (is_kept)
        saving = lull_tried_report_lever(report, is_steady, levers_report_count_others(report) == 1,
                                         &reason);
    lull_field_number(object, "saving_ratio", saving);
    lull_field_text(object, "saving_reason", reason);
}

static json_t *levers_report_lever_json(const struct lull_report *report, const struct lever *lever)
{
    const struct lull_controller *controller = lull_control_controller(report->managed);
    json_t *object = json_object();

    lull_field_text(object, "lever", lever->lever);
    lull_field_text(object, "name", lever->text.signature);
    lull_field_integer(object, "gpu", lull_control_gpu(report->managed, lever->gpu)->device);
    lull_field_integer(object, "sm_mhz", lull_report_kept_mhz(report, lever->gpu, lever->target));
    lull_field_number(object, "below_ratio", lull_target_below_ratio(lever->target));
    lull_field_json(object, "descent", lull_report_descent_json(report, lever->gpu, lever->target));
    lull_field_text(object, "verdict", lull_target_verdict_text(lever->target));
    lull_field_text(object, "reason", lull_target_reason_text(lever->target));
    levers_report_add_saving(report, lull_target_is_kept_low(lever->target),
                             lever->target == lull_controller_look(controller).steady, object);
    return object;
}

/* Waiting ranks are lowered as far as their waits allow and raised
 * when they come last, so the guard has no verdict on a single step. */
static json_t *waiting_json(const struct lull_report *report)
{
    const uint32_t gpu = most_lowered(report);
    const struct lull_slack_record *record =
        lull_controller_look_gpu(lull_control_controller(report->managed), gpu).slack;
    json_t *object = json_object();

    lull_field_text(object, "lever", "waiting ranks");
    lull_field_text(object, "name", "ranks that wait for later ones");
    lull_field_integer(object, "gpu", lull_control_gpu(report->managed, gpu)->device);
    lull_field_json(object, "sm_mhz", json_null());
    lull_field_json(object, "below_ratio", json_null());
    lull_field_json(object, "descent", json_null());
    lull_field_text(object, "verdict", record->lowered > 0 ? "lowered" : "not lowered");
    lull_field_text(object, "reason", lull_slack_reason_text(record));
    levers_report_add_saving(report, record->lowered > 0, false, object);
    return object;
}

json_t *lull_levers_report_json(const struct lull_report *report)
{
    json_t *levers = json_array();
    struct lull_controller_view now;
    struct lever lever;

    if (report->managed == NULL || lull_control_gpu_count(report->managed) == 0)
        return levers;
    now = lull_controller_look(lull_control_controller(report->managed));
    for (uint32_t i = 0; i < now.target_count; i++)
        if (&now.targets[i] != now.profile && find_lever(report, &now.targets[i], &lever))
            json_array_append_new(levers, levers_report_lever_json(report, &lever));
    json_array_append_new(levers, waiting_json(report));
    json_array_append_new(levers, lull_profile_report_json(report));
    json_array_append_new(levers, lull_idle_report_json(report));
    return levers;
}

/* ---- the table --------------------------------------------------------------------------- */

static void print_step(const struct lull_report *report, const struct lever *lever, uint32_t step,
                       FILE *out)
{
    const struct lull_descent_record *record = &lever->target->records[step];

    fprintf(out, "    %5u MHz  %-12s", tried_mhz(report, lever->gpu, lever->target, record),
            lull_verdict_text(record->verdict));
    if (record->pairs > 0)
        fprintf(out, " %+6.2f %% in %u pairs", 100.0 * record->slowdown_ratio, record->pairs);
    if (record->gpu >= 0)
        fprintf(out, ", GPU %u alone",
                lull_control_gpu(report->managed, (uint32_t)record->gpu)->device);
    fprintf(out, "  (%s%s)\n", levers_report_step_of(lever->target, record),
            step == kept_step(report, lever->gpu, lever->target) ? ", kept: S227" : "");
}

static void print_lever(const struct lull_report *report, const struct lever *lever, FILE *out)
{
    const struct lull_device_info *info = lull_control_info(report->managed, lever->gpu);

    fprintf(out, "  clock search of the %s, %s, from %u MHz (S221): %s at %u MHz (%s)\n",
            lever->lever, lever->text.signature,
            info->sm_clock_count > 0 ? info->sm_clocks_mhz[0] : 0,
            lull_target_verdict_text(lever->target),
            lull_report_kept_mhz(report, lever->gpu, lever->target),
            lull_target_reason_text(lever->target));
    for (uint32_t i = 0; i < lever->target->record_count; i++)
        print_step(report, lever, i, out);
}

void lull_levers_report_print(const struct lull_report *report, FILE *out)
{
    struct lull_controller_view now;
    struct lever lever;

    if (lull_control_gpu_count(report->managed) == 0)
        return;
    now = lull_controller_look(lull_control_controller(report->managed));
    for (uint32_t i = 0; i < now.target_count; i++)
        if (&now.targets[i] != now.profile && find_lever(report, &now.targets[i], &lever))
            print_lever(report, &lever, out);
    lull_profile_report_print(report, out);
    fprintf(
        out, "  waiting ranks: %s\n",
        lull_slack_reason_text(
            lull_controller_look_gpu(lull_control_controller(report->managed), most_lowered(report))
                .slack));
    lull_idle_report_print(report, out);
}
