/* Reports how the power of the job's GPUs swings. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "governor/report/report_fields.h"
#include "governor/report/report_parts.h"
#include "governor/run/run_swing.h"

static json_t *swing_report_side_json(const struct lull_swing *swing)
{
    json_t *object;

    if (swing->mean_w.count == 0)
        return json_null();
    object = json_object();
    lull_field_integer(object, "pieces", (json_int_t)swing->mean_w.count);
    lull_field_number(object, "average_power_w", swing->mean_w.mean);
    lull_field_number(object, "peak_to_peak_w", swing->peak_to_peak_w.mean);
    lull_field_number(object, "band_w", swing->band_w.mean);
    lull_field_number(object, "band_ratio", swing->band_w.mean / swing->mean_w.mean);
    return object;
}

/* Adds what the controller has given up while the job ran, and why, or why not. */
static void add_given_up(json_t *object, const struct lull_controller *controller)
{
    const struct lull_controller_view now = lull_controller_look(controller);
    const struct lull_swing_limit *limit = now.swings;
    char text[LULL_RUN_SWING_TEXT];
    const char *reason = lull_run_swing_given_up(limit, text);
    double length_s;

    lull_field_boolean(object, "gaps_given_up", limit->cut.gaps);
    lull_field_integer(object, "depth_halvings", (json_int_t)limit->cut.halvings);
    if (reason == NULL && now.awaits_steady)
        reason = "the run was too short to search for a steady clock, so nothing was changed";
    else if (reason == NULL && lull_swing_limit_known(limit, &length_s) == NULL)
        reason = "fewer than six consecutive seconds at the highest clocks, or at the accepted "
                 "clocks, were measured, so nothing was changed";
    lull_field_text(object, "given_up_reason", reason);
}

json_t *lull_swing_report_json(const struct lull_report *report)
{
    const struct lull_run_swing *swing = report->swing;
    json_t *object;

    if (swing == NULL)
        return json_null();
    object = json_object();
    lull_field_number(object, "piece_s", swing->piece_s);
    lull_field_number(object, "band_from_hz", swing->lowest_hz);
    lull_field_number(object, "band_to_hz", swing->highest_hz);
    lull_field_json(object, "unmanaged", swing_report_side_json(&swing->reference));
    lull_field_json(object, "managed", swing_report_side_json(&swing->managed));
    lull_field_number(object, "allowed_ratio", report->swing_ratio);
    if (swing->reason == NULL)
        lull_field_boolean(object, "wider", swing->is_wider);
    else
        lull_field_json(object, "wider", json_null());
    lull_field_text(object, "reason", swing->reason);
    add_given_up(object, lull_control_controller(report->managed));
    return object;
}

void lull_swing_report_print(const struct lull_report *report, FILE *out)
{
    const struct lull_run_swing *swing = report->swing;

    if (swing == NULL || swing->reason != NULL)
        return;
    fprintf(out,
            "  power fluctuation in %.1f s: %.0f W peak to peak managed, %.0f at the reference; "
            "%.1f to %.0f Hz: %.1f %% of the power, %.1f at the reference\n",
            swing->piece_s, swing->managed.peak_to_peak_w.mean,
            swing->reference.peak_to_peak_w.mean, swing->lowest_hz, swing->highest_hz,
            100.0 * swing->managed.band_w.mean / swing->managed.mean_w.mean,
            100.0 * swing->reference.band_w.mean / swing->reference.mean_w.mean);
}

/* ---- power smoothing --------------------------------------------------------------------- */

double lull_smoothing_report_ratio(const struct lull_power_smoothing_summary *smoothing,
                                   const struct lull_swing *side)
{
    if (side->band_w.count == 0 || smoothing->before.mean_w.count == 0)
        return (double)NAN;
    return side->band_w.mean / smoothing->before.mean_w.mean;
}

json_t *lull_smoothing_report_json(const struct lull_report *report)
{
    const struct lull_power_smoothing_summary *smoothing = report->smoothing;
    const struct lull_smoothing *settings;
    json_t *object;

    if (smoothing == NULL)
        return json_null();
    settings = &smoothing->settings;
    object = json_object();
    lull_field_boolean(object, "held", smoothing->is_held);
    lull_field_number(object, "bound_ratio", smoothing->bound_ratio);
    if (smoothing->is_held)
        lull_field_boolean(object, "bounded", lull_power_smoothing_is_bounded(smoothing));
    else
        lull_field_json(object, "bounded", json_null());
    lull_field_integer(object, "floor_percent", settings->floor_percent);
    lull_field_integer(object, "floor_w", smoothing->floor_w);
    lull_field_integer(object, "ramp_up_w_per_s", settings->ramp_up_w);
    lull_field_integer(object, "ramp_down_w_per_s", settings->ramp_down_w);
    lull_field_integer(object, "hysteresis_ms", settings->hysteresis_ms);
    lull_field_json(object, "without", swing_report_side_json(&smoothing->before));
    lull_field_json(object, "with", swing_report_side_json(&smoothing->after));
    lull_field_number(object, "added_energy_ratio", smoothing->added_ratio);
    lull_field_number(object, "added_energy_low_ratio", smoothing->added_low_ratio);
    lull_field_number(object, "added_energy_high_ratio", smoothing->added_high_ratio);
    lull_field_integer(object, "pairs", smoothing->slowdown.pairs);
    lull_field_number(object, "slowdown_ratio", smoothing->slowdown.slowdown_ratio);
    lull_field_number(object, "slowdown_upper_ratio", smoothing->slowdown.upper_ratio);
    lull_field_text(object, "reason", smoothing->reason);
    return object;
}

void lull_smoothing_report_print(const struct lull_report *report, FILE *out)
{
    const struct lull_power_smoothing_summary *smoothing = report->smoothing;

    if (smoothing == NULL || smoothing->slowdown.pairs == 0)
        return;
    fprintf(out,
            "  power smoothing: floor %u W, %s: swings %.1f instead of %.1f %% of the power, peak "
            "to peak %.0f instead of %.0f W, energy %+.1f %%, time at most %+.2f %%\n",
            smoothing->floor_w, smoothing->is_held ? "held" : "off",
            100.0 * lull_smoothing_report_ratio(smoothing, &smoothing->after),
            100.0 * lull_smoothing_report_ratio(smoothing, &smoothing->before),
            smoothing->after.peak_to_peak_w.mean, smoothing->before.peak_to_peak_w.mean,
            100.0 * smoothing->added_ratio, 100.0 * smoothing->slowdown.upper_ratio);
}
