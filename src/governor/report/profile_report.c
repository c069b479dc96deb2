/* Reports the power profile that the controller has tested, or why it has tested none.
 * SPDX-License-Identifier: Apache-2.0 */
#include "governor/report/report_fields.h"
#include "governor/report/report_parts.h"
#include "governor/report/section_text.h"

static const struct lull_target *profile_report_find(const struct lull_report *report)
{
    return lull_controller_look(lull_control_controller(report->managed)).profile;
}

/* Returns the first GPU of the job whose profile is not offered, which explains why none is tested;
 * else the first GPU of the job. */
static uint32_t explaining_gpu(const struct lull_report *report)
{
    uint32_t first = UINT32_MAX;

    for (uint32_t gpu = 0; gpu < lull_control_gpu_count(report->managed); gpu++) {
        const struct lull_control_gpu *state = lull_control_gpu(report->managed, gpu);

        if (state->process < 0)
            continue;
        if (state->profile != LULL_PROFILE_OFFERED)
            return gpu;
        if (first == UINT32_MAX)
            first = gpu;
    }
    return first == UINT32_MAX ? 0 : first;
}

static const char *profile_report_reason(const struct lull_report *report)
{
    return lull_profile_reason_text(
        profile_report_find(report),
        lull_control_gpu(report->managed, explaining_gpu(report))->profile);
}

/* Adds what its screen has found. */
static void add_screen(const struct lull_target *profile, json_t *object)
{
    const bool is_screened = profile != NULL && profile->record_count > 0;
    const struct lull_descent_record none = {.slowdown_ratio = NAN};
    const struct lull_descent_record *screen = is_screened ? &profile->records[0] : &none;

    lull_field_number(object, "slowdown_ratio", screen->slowdown_ratio);
    lull_field_integer(object, "pairs", screen->pairs);
    lull_field_integer(object, "iterations", screen->iterations);
}

json_t *lull_profile_report_json(const struct lull_report *report)
{
    const struct lull_target *profile = profile_report_find(report);
    const struct lull_profile_saving unknown = {(double)NAN, (double)NAN, (double)NAN};
    const struct lull_profile_saving saving = profile != NULL ? profile->saving : unknown;
    json_t *object = json_object();

    lull_field_text(object, "lever", "power profile");
    lull_field_text(object, "name", lull_profile_name);
    lull_field_integer(object, "gpu",
                       lull_control_gpu(report->managed, explaining_gpu(report))->device);
    lull_field_json(object, "sm_mhz", json_null());
    lull_field_json(object, "below_ratio", json_null());
    lull_field_json(object, "descent", json_null());
    add_screen(profile, object);
    lull_field_text(object, "verdict", lull_profile_verdict_text(profile));
    lull_field_text(object, "reason", profile_report_reason(report));
    lull_field_number(object, "saving_ratio", saving.ratio);
    lull_field_number(object, "saving_low_ratio", saving.low_ratio);
    lull_field_number(object, "saving_high_ratio", saving.high_ratio);
    lull_field_text(object, "saving_reason",
                    isfinite(saving.ratio) ? NULL : "its energy was not compared");
    return object;
}

/* Returns whether any GPU of the job has power profiles. */
static bool has_profiles(const struct lull_report *report)
{
    for (uint32_t gpu = 0; report->managed != NULL && gpu < lull_control_gpu_count(report->managed);
         gpu++) {
        const struct lull_control_gpu *state = lull_control_gpu(report->managed, gpu);

        if (state->process >= 0 && state->profile != LULL_PROFILE_UNSUPPORTED &&
            state->profile != LULL_PROFILE_UNUSED && state->profile != LULL_PROFILE_UNKNOWN)
            return true;
    }
    return false;
}

void lull_profile_report_line(const struct lull_report *report, char *line_out, size_t size)
{
    const struct lull_target *profile;
    int length;

    line_out[0] = '\0';
    if (!has_profiles(report))
        return;
    profile = profile_report_find(report);
    length = snprintf(line_out, size, "%s %s: %s", lull_profile_name,
                      lull_profile_verdict_text(profile), profile_report_reason(report));
    if (profile != NULL && isfinite(profile->saving.ratio) && length > 0 && (size_t)length < size)
        snprintf(line_out + length, size - (size_t)length, " (%.1f %% saved, %.1f to %.1f)",
                 100.0 * profile->saving.ratio, 100.0 * profile->saving.low_ratio,
                 100.0 * profile->saving.high_ratio);
}

void lull_profile_report_print(const struct lull_report *report, FILE *out)
{
    const struct lull_target *profile = profile_report_find(report);

    if (!has_profiles(report))
        return;
    fprintf(out, "  power profile %s: %s (%s)\n", lull_profile_name,
            lull_profile_verdict_text(profile), profile_report_reason(report));
    for (uint32_t i = 0; profile != NULL && i < profile->record_count; i++)
        fprintf(out, "    %-12s %+6.2f %% in %u pairs\n",
                lull_verdict_text(profile->records[i].verdict),
                100.0 * profile->records[i].slowdown_ratio, profile->records[i].pairs);
}
