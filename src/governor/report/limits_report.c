/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/report/limits_report.h"

#include <inttypes.h>
#include <math.h>

#include "governor/report/report_fields.h"
#include "governor/report/report_parts.h"
#include "governor/run/run_statistics.h"

/* An operating point's iteration, and how it compares with the reference's. */
struct limits_report_row {
    double time_s;
    double energy_j;
    double slowdown_ratio;
    double saving_ratio;
    double cost_j;
};

static struct limits_report_row limits_report_row_of(const struct lull_limit_profile *profile,
                                                     uint32_t index)
{
    const struct lull_limit_measure *reference = &profile->measures[0];
    const struct lull_limit_measure *measure = &profile->measures[index];
    struct limits_report_row row = {
        .time_s = measure->seconds / (double)measure->iterations,
        .energy_j = measure->joules / (double)measure->iterations,
    };

    row.slowdown_ratio = row.time_s / (reference->seconds / (double)reference->iterations) - 1.0;
    row.saving_ratio = 1.0 - row.energy_j / (reference->joules / (double)reference->iterations);
    row.cost_j = lull_job_cost(&profile->selector.price, row.energy_j, row.time_s);
    return row;
}

static void limits_report_set_clock(json_t *object, const char *key, uint32_t sm_mhz)
{
    lull_field_json(object, key, sm_mhz == 0 ? json_null() : json_integer(sm_mhz));
}

static json_t *limits_report_row_json(const struct lull_limit_profile *profile, uint32_t index)
{
    const struct lull_limit_measure *measure = &profile->measures[index];
    const struct limits_report_row row = limits_report_row_of(profile, index);
    json_t *object = json_object();

    lull_field_number(object, "limit_w", measure->point.limit_w);
    limits_report_set_clock(object, "sm_mhz", measure->point.sm_mhz);
    lull_field_integer(object, "iterations", (json_int_t)measure->iterations);
    lull_field_number(object, "iteration_ms", row.time_s * 1e3);
    lull_field_number(object, "iteration_half_width_ms",
                      lull_limit_half_width(&measure->iteration_s) * 1e3);
    lull_field_number(object, "energy_per_iteration_j", row.energy_j);
    lull_field_number(object, "energy_half_width_j", lull_limit_half_width(&measure->iteration_j));
    lull_field_number(object, "slowdown_ratio", row.slowdown_ratio);
    lull_field_number(object, "saving_ratio", row.saving_ratio);
    lull_field_number(object, "cost_per_iteration_j", row.cost_j);
    lull_field_boolean(object, "chosen", index == profile->chosen);
    return object;
}

json_t *lull_limit_table_json(const struct lull_limit_profile *profile)
{
    const struct lull_job_selector *selector = &profile->selector;
    const struct lull_limit_point *chosen = &profile->measures[profile->chosen].point;
    json_t *rows = json_array();
    json_t *object = json_object();

    for (uint32_t i = 0; i < profile->count; i++)
        json_array_append_new(rows, limits_report_row_json(profile, i));
    lull_field_text(object, "program", profile->program);
    lull_field_text(object, "gpu_name", profile->gpu_name);
    lull_field_integer(object, "gpu_count", profile->gpu_count);
    lull_field_integer(object, "measured_unix_s", (json_int_t)profile->measured_s);
    lull_field_text(object, "host", profile->host);
    lull_field_text(object, "aim", lull_job_aim_name(selector->aim));
    lull_field_number(object, "eta_ratio", selector->price.eta_ratio);
    lull_field_number(object, "max_power_w", selector->price.max_power_w);
    lull_field_number(object, "max_slowdown_ratio", selector->slowdown_ratio);
    lull_field_number(object, "chosen_limit_w", chosen->limit_w);
    limits_report_set_clock(object, "chosen_sm_mhz", chosen->sm_mhz);
    lull_field_integer(object, "chosen_unix_s", (json_int_t)profile->chosen_s);
    lull_field_text(object, "chosen_by", profile->chosen_by);
    lull_field_json(object, "settings", rows);
    return object;
}

void lull_limit_table_choice(const struct lull_limit_profile *profile, char *text_out, size_t size)
{
    const struct lull_job_selector *selector = &profile->selector;
    const struct lull_limit_point *chosen = &profile->measures[profile->chosen].point;
    char clock[32] = "";
    char why[64];

    if (chosen->sm_mhz != 0)
        snprintf(clock, sizeof(clock), " at %u MHz", chosen->sm_mhz);
    if (selector->aim == LULL_JOB_COST)
        snprintf(why, sizeof(why), "least cost, eta %.2f", selector->price.eta_ratio);
    else if (selector->aim == LULL_JOB_SLOWDOWN)
        snprintf(why, sizeof(why), "least energy, at most %.3g %% slower",
                 selector->slowdown_ratio * 100.0);
    else
        snprintf(why, sizeof(why), "least %s", lull_job_aim_name(selector->aim));
    snprintf(text_out, size, "%g W%s (%s)", chosen->limit_w, clock, why);
}

/* Prints a mean, and half of its interval in percent of it where that is known. */
static void print_with_width(FILE *out, double mean, double half_width)
{
    if (isfinite(half_width) && mean > 0.0)
        fprintf(out, " %11.2f +-%5.2f %%", mean, half_width / mean * 100.0);
    else
        fprintf(out, " %11.2f         ", mean);
}

void lull_limit_table_print(const struct lull_limit_profile *profile, FILE *out)
{
    fprintf(out, "  %8s %6s %10s %20s %20s %9s %9s %12s\n", "limit W", "MHz", "iterations",
            "ms/iteration", "J/iteration", "slower", "saves", "cost J");
    for (uint32_t i = 0; i < profile->count; i++) {
        const struct lull_limit_measure *measure = &profile->measures[i];
        const struct limits_report_row row = limits_report_row_of(profile, i);
        char clock[16] = "-";

        if (measure->point.sm_mhz != 0)
            snprintf(clock, sizeof(clock), "%u", measure->point.sm_mhz);
        fprintf(out, "%c %8g %6s %10" PRIu64, i == profile->chosen ? '*' : ' ',
                measure->point.limit_w, clock, measure->iterations);
        print_with_width(out, row.time_s * 1e3, lull_limit_half_width(&measure->iteration_s) * 1e3);
        print_with_width(out, row.energy_j, lull_limit_half_width(&measure->iteration_j));
        fprintf(out, " %7.2f %% %7.2f %% %12.2f\n", row.slowdown_ratio * 100.0,
                row.saving_ratio * 100.0, row.cost_j);
    }
}

/* ---- of a run ---------------------------------------------------------------------------- */

/* The slowdown caused by the held limit, if this run measured it. */
struct limits_report_slowdown {
    double ratio; /* NAN: it is not known */
    double half_width_ratio;
    const char *reason; /* why it is not known; NULL: it is known */
};

/* The slowdown of a searched limit is taken from its profile. */
static struct limits_report_slowdown find_slowdown(const struct lull_report *report,
                                                   const struct lull_limits_summary *summary)
{
    struct limits_report_slowdown slowdown = {.ratio = NAN, .half_width_ratio = NAN};

    if (!summary->is_held)
        slowdown.reason = "no limit is held";
    else if (summary->profile != NULL)
        slowdown.ratio =
            limits_report_row_of(summary->profile, summary->profile->chosen).slowdown_ratio;
    else if (!lull_run_statistics_change(report->managed, &slowdown.ratio,
                                         &slowdown.half_width_ratio))
        slowdown.reason = "too few iterations were seen before or after it was set; use a longer "
                          "job or --compare";
    return slowdown;
}

/* A limit that was chosen by another goal has no slowdown bound. */
static double limits_report_allowed_of(const struct lull_report *report,
                                       const struct lull_limits_summary *summary)
{
    const struct lull_job_selector *selector;

    if (summary->profile == NULL)
        return report->tolerance_ratio;
    selector = &summary->profile->selector;
    return selector->aim == LULL_JOB_SLOWDOWN ? selector->slowdown_ratio : (double)NAN;
}

struct lull_report_gain lull_limits_report_gain(const struct lull_report *report)
{
    struct lull_report_gain gain = lull_report_no_gain(
        "a limit that is given is not measured against others; --compare measures it");
    struct limits_report_slowdown slowdown;
    struct lull_limits_summary summary;

    lull_limits_summary(report->limits, &summary);
    slowdown = find_slowdown(report, &summary);
    gain.slowdown_ratio = slowdown.ratio;
    gain.slowdown_upper_ratio = slowdown.ratio + slowdown.half_width_ratio;
    gain.slowdown_reason = slowdown.reason;
    gain.allowed_ratio = limits_report_allowed_of(report, &summary);
    if (!summary.is_held || summary.profile == NULL)
        return gain;
    gain.basis = summary.is_stored ? "the stored profile of power limits"
                                   : "the profile of power limits in this run";
    gain.saving_ratio = limits_report_row_of(summary.profile, summary.profile->chosen).saving_ratio;
    gain.saving_reason = NULL;
    return gain;
}

/* ---- limits that were skipped ---- */

static json_t *skips_json(const struct lull_limits_summary *summary)
{
    json_t *const rows = json_array();

    for (uint32_t i = 0; i < summary->skip_count; i++) {
        const struct lull_limit_skip *const skip = &summary->skips[i];
        json_t *const row = json_object();

        lull_field_number(row, "limit_w", skip->limit_w);
        lull_field_known(row, "over_ratio", skip->over_ratio, isfinite(skip->over_ratio));
        lull_field_text(row, "reason", isfinite(skip->over_ratio) ? "dearer" : "too slow");
        json_array_append_new(rows, row);
    }
    return rows;
}

static void print_skips(const struct lull_limits_summary *summary, FILE *out)
{
    if (summary->skip_count == 0)
        return;
    fprintf(out, "  not tried, since with the curves of this GPU none of them can be the best:");
    for (uint32_t i = 0; i < summary->skip_count; i++) {
        const struct lull_limit_skip *const skip = &summary->skips[i];

        fprintf(out, "%s %g W", i > 0 ? "," : "", skip->limit_w);
        if (isfinite(skip->over_ratio))
            fprintf(out, " (at least %.1f %% over it)", 100.0 * skip->over_ratio);
        else
            fprintf(out, " (too slow)");
    }
    putc('\n', out);
}

json_t *lull_limits_report_json(const struct lull_report *report)
{
    struct limits_report_slowdown slowdown;
    struct lull_limits_summary summary;
    json_t *object;

    if (report->limits == NULL)
        return json_null();
    object = json_object();
    lull_limits_summary(report->limits, &summary);
    slowdown = find_slowdown(report, &summary);
    lull_field_text(object, "state", summary.state);
    lull_field_known(object, "held_w", summary.held_w, summary.is_held);
    lull_field_known(object, "read_back_w", summary.read_w, summary.is_held);
    lull_field_number(object, "slowdown_ratio", slowdown.ratio);
    lull_field_number(object, "slowdown_half_width_ratio", slowdown.half_width_ratio);
    lull_field_text(object, "slowdown_reason", slowdown.reason);
    lull_field_boolean(object, "from_stored_profile", summary.is_stored);
    lull_field_number(object, "profiling_s", summary.profiling_s);
    lull_field_integer(object, "settings_pruned", summary.pruned);
    lull_field_json(object, "skipped", skips_json(&summary));
    lull_field_json(object, "profile",
                    summary.profile != NULL ? lull_limit_table_json(summary.profile) : json_null());
    return object;
}

/* Prints a given limit: the values read back from the GPUs, and its slowdown. */
static void print_given(const struct lull_report *report, const struct lull_limits_summary *summary,
                        FILE *out)
{
    const struct limits_report_slowdown slowdown = find_slowdown(report, summary);

    fprintf(out, "  power limit of %g W", summary->held_w);
    if (isfinite(summary->read_w))
        fprintf(out, " held; the GPUs have %g W", summary->read_w);
    else
        fprintf(out, " requested; no GPU has confirmed it");
    if (slowdown.reason != NULL)
        fprintf(out, "; slowdown unknown: %s\n", slowdown.reason);
    else
        fprintf(out, "; slowdown %+.2f %% (+- %.2f, 95 %%)%s\n", slowdown.ratio * 100.0,
                slowdown.half_width_ratio * 100.0,
                slowdown.ratio - slowdown.half_width_ratio > report->tolerance_ratio
                    ? ": more than --tolerance; --power-limit auto finds one within it"
                    : "");
}

void lull_limits_report_print(const struct lull_report *report, FILE *out)
{
    struct lull_limits_summary summary;
    char choice[160];

    if (report->limits == NULL)
        return;
    lull_limits_summary(report->limits, &summary);
    if (!summary.is_held)
        return;
    if (summary.profile == NULL) {
        print_given(report, &summary, out);
        return;
    }
    lull_limit_table_choice(summary.profile, choice, sizeof(choice));
    if (summary.is_stored)
        fprintf(out, "  power limit %s; from a stored profile\n", choice);
    else
        fprintf(out, "  power limit %s; profiled in %.0f s of the job\n", choice,
                summary.profiling_s);
    lull_limit_table_print(summary.profile, out);
    print_skips(&summary, out);
}
