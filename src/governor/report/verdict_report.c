/*
 * The verdict of a run: one sentence that says what was saved and at what price in time, and by
 * what; or that nothing was lowered, why, and what to try. SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/smaller.h"
#include "governor/report/limits_report.h"
#include "governor/report/report_fields.h"
#include "governor/report/report_parts.h"
#include "governor/report/section_text.h"

/* A difference of time below half of what a sentence shows of it is none. */
static const double shown_ratio = 0.0005;

/* ---- what was lowered -------------------------------------------------------------------- */

/* What is kept of the controller's levers, over the GPUs of the job. */
struct kept {
    uint64_t used;    /* bits: GPUs with a rank */
    uint64_t steady;  /* bits: those with a steady point below the highest clock... */
    uint32_t low_mhz; /* ...and its range */
    uint32_t high_mhz;
    uint64_t waiting;       /* bits: those that ran lower where their rank waits */
    bool has_gaps;          /* gaps are lowered... */
    bool has_sections;      /* ...or sections */
    uint32_t sections_mhz;  /* the lowest clock of either */
    uint64_t section_count; /* how often they were lowered */
};

static bool is_used(const struct lull_report *report, uint32_t gpu)
{
    return lull_control_gpu(report->managed, gpu)->process >= 0;
}

static void add_steady(const struct lull_report *report, uint32_t gpu, struct kept *kept)
{
    const struct lull_controller *controller = lull_control_controller(report->managed);
    const struct lull_target *steady = lull_controller_steady(controller);
    uint32_t mhz;

    if (steady == NULL || lull_controller_kept_point(controller, gpu, steady) == 0)
        return;
    mhz = lull_report_kept_mhz(report, gpu, steady);
    kept->low_mhz = kept->steady == 0 ? mhz : lull_smaller_u32(kept->low_mhz, mhz);
    kept->high_mhz = lull_larger_u32(kept->high_mhz, mhz);
    kept->steady |= UINT64_C(1) << gpu;
}

/* Counts the stretches of a GPU at the clock of a kept target, or lower. */
static uint64_t count_lowered(const struct lull_report *report, uint32_t gpu, uint32_t mhz)
{
    const struct lull_spans *lowered = &lull_control_log(report->managed, gpu)->lowered;
    uint64_t count = 0;

    for (size_t i = 0; i < lowered->count; i++)
        count += lowered->items[i].index <= mhz;
    return count;
}

static void add_sections(const struct lull_report *report, uint32_t gpu, struct kept *kept)
{
    const struct lull_controller *controller = lull_control_controller(report->managed);
    const struct lull_target *steady = lull_controller_steady(controller);
    uint32_t highest_mhz = 0;
    uint32_t count;
    const struct lull_target *targets = lull_controller_targets(controller, &count);

    for (uint32_t i = 0; i < count; i++) {
        uint32_t mhz;

        if (&targets[i] == steady || lull_controller_kept_point(controller, gpu, &targets[i]) == 0)
            continue;
        mhz = lull_report_kept_mhz(report, gpu, &targets[i]);
        kept->has_gaps = kept->has_gaps || targets[i].of_gaps;
        kept->has_sections = kept->has_sections || !targets[i].of_gaps;
        if (kept->sections_mhz == 0 || mhz < kept->sections_mhz)
            kept->sections_mhz = mhz;
        highest_mhz = lull_larger_u32(highest_mhz, mhz);
    }
    kept->section_count += count_lowered(report, gpu, highest_mhz);
}

static struct kept find_kept(const struct lull_report *report)
{
    const struct lull_controller *controller = lull_control_controller(report->managed);
    struct kept kept = {0};

    for (uint32_t gpu = 0; gpu < lull_control_gpu_count(report->managed); gpu++) {
        if (!is_used(report, gpu))
            continue;
        kept.used |= UINT64_C(1) << gpu;
        if (lull_gpu_alone_text(report->managed, gpu) != NULL)
            continue;
        add_steady(report, gpu, &kept);
        add_sections(report, gpu, &kept);
        if (lull_controller_slack(controller, gpu)->lowered > 0)
            kept.waiting |= UINT64_C(1) << gpu;
    }
    return kept;
}

static bool has_lowered(const struct lull_report *report)
{
    struct lull_limits_summary summary;
    struct kept kept;

    if (report->managed == NULL)
        return false;
    if (report->runner != NULL)
        return lull_pipeline_report_is_kept(report);
    if (report->limits != NULL) {
        lull_limits_summary(report->limits, &summary);
        return summary.is_held;
    }
    kept = find_kept(report);
    return (kept.steady | kept.waiting) != 0 || kept.has_gaps || kept.has_sections;
}

/* ---- words ------------------------------------------------------------------------------- */

/* " on all GPUs", or " on GPUs 0, 2": bits are places in the control. */
static void say_where(const struct lull_report *report, uint64_t gpus, uint64_t all, FILE *out)
{
    const bool is_one = (gpus & (gpus - 1)) == 0;

    if (gpus == all && !is_one) {
        fprintf(out, " on all GPUs");
        return;
    }
    fprintf(out, is_one ? " on GPU" : " on GPUs");
    for (uint64_t left = gpus; left != 0; left &= left - 1)
        fprintf(out, "%s %" PRIu32, left == gpus ? "" : ",",
                lull_control_gpu(report->managed, (uint32_t)__builtin_ctzll(left))->device);
}

static const char *name_sections(const struct kept *kept)
{
    if (kept->has_gaps && kept->has_sections)
        return "gaps and sections";
    return kept->has_gaps ? "gaps" : "sections";
}

/* "steady 1320 MHz on all GPUs, 412 gaps lowered to 210 MHz" */
static void say_kept(const struct lull_report *report, FILE *out)
{
    const struct kept kept = find_kept(report);
    const char *separator = "";

    if (kept.steady != 0) {
        fprintf(out, "steady %u", kept.low_mhz);
        if (kept.high_mhz != kept.low_mhz)
            fprintf(out, " to %u", kept.high_mhz);
        fprintf(out, " MHz");
        say_where(report, kept.steady, kept.used, out);
        separator = ", ";
    }
    if (kept.has_gaps || kept.has_sections) {
        fprintf(out, "%s%" PRIu64 " %s lowered to %u MHz", separator, kept.section_count,
                name_sections(&kept), kept.sections_mhz);
        separator = ", ";
    }
    if (kept.waiting != 0) {
        fprintf(out, "%slower still where a rank waits", separator);
        say_where(report, kept.waiting, kept.used, out);
    }
}

static void say_what(const struct lull_report *report, FILE *out)
{
    struct lull_limits_summary summary;
    char choice[160];

    if (report->runner != NULL) {
        fprintf(out, "the pipeline's plan");
        return;
    }
    if (report->limits == NULL) {
        say_kept(report, out);
        return;
    }
    lull_limits_summary(report->limits, &summary);
    if (summary.profile == NULL) {
        fprintf(out, "power limit %g W", summary.held_w);
        return;
    }
    lull_limit_table_choice(summary.profile, choice, sizeof(choice));
    fprintf(out, "power limit %s", choice);
}

/* Half of the interval, on its longer side; NAN: it is not known. */
static double half_width(const struct lull_report_gain *gain)
{
    return fmax(gain->high_ratio - gain->saving_ratio, gain->saving_ratio - gain->low_ratio);
}

static void say_saving(const struct lull_report_gain *gain, FILE *out)
{
    const double half = half_width(gain);
    bool is_open;

    if (!isfinite(gain->saving_ratio)) {
        fprintf(out, "saving not known (%s; --compare tells)", gain->saving_reason);
        return;
    }
    is_open = isfinite(half) && gain->low_ratio <= 0.0;
    fprintf(out, gain->saving_ratio > 0.0 ? "saved %.1f %%" : "saved nothing that shows (%.1f %%",
            100.0 * gain->saving_ratio);
    if (isfinite(half))
        fprintf(out, " +- %.1f", 100.0 * half);
    fprintf(out, " of the energy per iteration");
    if (!(gain->saving_ratio > 0.0))
        fprintf(out, ")");
    else if (is_open)
        fprintf(out, ", which may be nothing");
}

static void say_slowdown(const struct lull_report_gain *gain, FILE *out)
{
    if (!isfinite(gain->slowdown_ratio)) {
        fprintf(out, "slowdown not known (%s)", gain->slowdown_reason);
        return;
    }
    if (gain->slowdown_ratio < shown_ratio)
        fprintf(out, "not slower");
    else
        fprintf(out, "%.1f %% slower", 100.0 * gain->slowdown_ratio);
    if (isfinite(gain->slowdown_upper_ratio))
        fprintf(out, " (at most %.1f %%)", 100.0 * fmax(gain->slowdown_upper_ratio, 0.0));
}

/* ---- the sentence ------------------------------------------------------------------------ */

/* Comparing whole runs tells most, whatever has ruled. */
static struct lull_report_gain find_gain(const struct lull_report *report)
{
    struct lull_report_gain gain;

    if (!has_lowered(report))
        return lull_report_no_gain("nothing was lowered");
    if (report->comparison != NULL) {
        gain = lull_run_report_gain(report);
        if (gain.saving_reason == NULL)
            return gain;
    }
    if (report->runner != NULL)
        return lull_pipeline_report_gain(report);
    if (report->limits != NULL)
        return lull_limits_report_gain(report);
    return lull_tried_report_gain(report);
}

const char *lull_verdict_report_finding(const struct lull_report *report)
{
    return has_lowered(report) ? NULL : report->findings[0];
}

/* Why nothing was lowered: what was found at the end, else the last thing that went wrong. */
static const char *find_reason(const struct lull_report *report)
{
    const char *reason = report->findings[0];

    for (const char *const *note = report->notes; reason == NULL && *note != NULL; note++)
        if (note[1] == NULL)
            reason = *note;
    if (reason != NULL)
        return reason;
    if (report->limits != NULL)
        return "no power limit was chosen before the run ended; give it more time";
    if (report->runner != NULL)
        return "the plan was not kept; the pipeline's part of the report says why";
    return "the run ended before anything was learnt; run it longer";
}

/* Returns the sentence, which the caller frees; NULL: no memory. */
static char *make_sentence(const struct lull_report *report, const struct lull_report_gain *gain)
{
    char *text = NULL;
    size_t size = 0;
    FILE *const out = open_memstream(&text, &size);

    if (out == NULL)
        return NULL;
    if (has_lowered(report)) {
        say_saving(gain, out);
        fprintf(out, ", ");
        say_slowdown(gain, out);
        fprintf(out, ": ");
        say_what(report, out);
    } else {
        fprintf(out, "nothing lowered: %s", find_reason(report));
    }
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

json_t *lull_verdict_report_json(const struct lull_report *report)
{
    const struct lull_report_gain gain = find_gain(report);
    char *const sentence = make_sentence(report, &gain);
    json_t *object = json_object();

    lull_field_text(object, "sentence", sentence);
    lull_field_boolean(object, "lowered", has_lowered(report));
    lull_field_text(object, "basis", gain.basis);
    lull_field_number(object, "saving_ratio", gain.saving_ratio);
    lull_field_number(object, "saving_low_ratio", gain.low_ratio);
    lull_field_number(object, "saving_high_ratio", gain.high_ratio);
    lull_field_text(object, "saving_reason", gain.saving_reason);
    lull_field_number(object, "slowdown_ratio", gain.slowdown_ratio);
    lull_field_number(object, "slowdown_upper_ratio", gain.slowdown_upper_ratio);
    lull_field_text(object, "slowdown_reason", gain.slowdown_reason);
    free(sentence);
    return object;
}

void lull_verdict_report_print(const struct lull_report *report, FILE *out)
{
    const struct lull_report_gain gain = find_gain(report);
    char *const sentence = make_sentence(report, &gain);

    if (sentence != NULL)
        fprintf(out, "\n  %s\n", sentence);
    if (gain.basis != NULL)
        fprintf(out, "  (from %s)\n", gain.basis);
    free(sentence);
}
