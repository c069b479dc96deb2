/*
 * The facts of a verdict: what was lowered, the gain, and the reason if nothing was saved.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/minmax.h"
#include "governor/report/limits_report.h"
#include "governor/report/report_parts.h"
#include "governor/report/serving_report.h"
#include "governor/report/section_text.h"

/* ---- lowered clocks ---------------------------------------------------------------------- */

/* The controller's accepted levers, over the GPUs of the job. */
struct kept {
    uint64_t used;    /* bits: GPUs with a rank */
    uint64_t steady;  /* bits: those with a steady point below the highest clock... */
    uint32_t low_mhz; /* ...and its range */
    uint32_t high_mhz;
    uint64_t waiting;       /* bits: those that ran lower where their rank waits */
    bool has_gaps;          /* gaps are lowered... */
    bool has_sections;      /* ...or sections */
    uint32_t sections_mhz;  /* the lowest clock of either */
    uint64_t section_count; /* number of times that they were lowered */
    uint64_t profile;       /* bits: GPUs with the power profile */
};

static bool verdict_facts_is_used(const struct lull_report *report, uint32_t gpu)
{
    return lull_control_gpu(report->managed, gpu)->process >= 0;
}

static void verdict_facts_add_steady(const struct lull_report *report, uint32_t gpu,
                                     struct kept *kept)
{
    const struct lull_controller *controller = lull_control_controller(report->managed);
    const struct lull_target *steady = lull_controller_look(controller).steady;
    uint32_t mhz;

    if (steady == NULL || lull_controller_kept_point(controller, gpu, steady) == 0)
        return;
    mhz = lull_report_kept_mhz(report, gpu, steady);
    kept->low_mhz = kept->steady == 0 ? mhz : lull_min_u32(kept->low_mhz, mhz);
    kept->high_mhz = lull_max_u32(kept->high_mhz, mhz);
    kept->steady |= UINT64_C(1) << gpu;
}

/* Counts the stretches of a GPU at the clock of a kept target, or lower. */
static uint64_t verdict_facts_count_lowered(const struct lull_report *report, uint32_t gpu,
                                            uint32_t mhz)
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
    const struct lull_controller_view now = lull_controller_look(controller);
    uint32_t highest_mhz = 0;

    for (uint32_t i = 0; i < now.target_count; i++) {
        const struct lull_target *target = &now.targets[i];
        uint32_t mhz;

        if (target == now.steady || target == now.profile ||
            lull_controller_kept_point(controller, gpu, target) == 0)
            continue;
        mhz = lull_report_kept_mhz(report, gpu, target);
        kept->has_gaps = kept->has_gaps || target->of_gaps;
        kept->has_sections = kept->has_sections || !target->of_gaps;
        if (kept->sections_mhz == 0 || mhz < kept->sections_mhz)
            kept->sections_mhz = mhz;
        highest_mhz = lull_max_u32(highest_mhz, mhz);
    }
    kept->section_count += verdict_facts_count_lowered(report, gpu, highest_mhz);
}

static struct kept find_kept(const struct lull_report *report)
{
    const struct lull_controller *controller = lull_control_controller(report->managed);
    const struct lull_target *profile = lull_controller_look(controller).profile;
    struct kept kept = {0};

    for (uint32_t gpu = 0; gpu < lull_control_gpu_count(report->managed); gpu++) {
        if (!verdict_facts_is_used(report, gpu))
            continue;
        kept.used |= UINT64_C(1) << gpu;
        if (lull_gpu_alone_text(report->managed, gpu) != NULL)
            continue;
        verdict_facts_add_steady(report, gpu, &kept);
        add_sections(report, gpu, &kept);
        if (lull_controller_look_gpu(controller, gpu).slack->lowered > 0)
            kept.waiting |= UINT64_C(1) << gpu;
        if (profile != NULL && lull_target_is_kept_low(profile))
            kept.profile |= UINT64_C(1) << gpu;
    }
    return kept;
}

bool lull_verdict_has_lowered(const struct lull_report *report)
{
    struct lull_limits_summary summary;
    struct kept kept;

    if (report->managed == NULL)
        return false;
    if (report->serving != NULL)
        return lull_serving_report_has_lowered(report);
    if (report->runner != NULL)
        return lull_pipeline_report_is_kept(report);
    if (report->limits != NULL) {
        lull_limits_summary(report->limits, &summary);
        return summary.is_held;
    }
    kept = find_kept(report);
    return (kept.steady | kept.waiting | kept.profile) != 0 || kept.has_gaps || kept.has_sections;
}

/* ---- words ------------------------------------------------------------------------------- */

/* " on all GPUs", or " on GPUs 0, 2": bits are places in the control. */
static void verdict_facts_print_gpus(const struct lull_report *report, uint64_t gpus, uint64_t all,
                                     FILE *out)
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
static void verdict_print_kept(const struct lull_report *report, FILE *out)
{
    const struct kept kept = find_kept(report);
    const char *separator = "";

    if (kept.steady != 0) {
        fprintf(out, "steady %u", kept.low_mhz);
        if (kept.high_mhz != kept.low_mhz)
            fprintf(out, " to %u", kept.high_mhz);
        fprintf(out, " MHz");
        verdict_facts_print_gpus(report, kept.steady, kept.used, out);
        separator = ", ";
    }
    if (kept.has_gaps || kept.has_sections) {
        fprintf(out, "%s%" PRIu64 " %s lowered to %u MHz", separator, kept.section_count,
                name_sections(&kept), kept.sections_mhz);
        separator = ", ";
    }
    if (kept.waiting != 0) {
        fprintf(out, "%seven lower where a rank waits", separator);
        verdict_facts_print_gpus(report, kept.waiting, kept.used, out);
        separator = ", ";
    }
    if (kept.profile != 0) {
        fprintf(out, "%spower profile %s", separator, lull_profile_name);
        verdict_facts_print_gpus(report, kept.profile, kept.used, out);
    }
}

static void verdict_print_subject(const struct lull_report *report, FILE *out)
{
    struct lull_limits_summary summary;
    char choice[160];

    if (report->serving != NULL) {
        fprintf(out, "the GPUs of a server, by its load");
        return;
    }
    if (report->runner != NULL) {
        fprintf(out, "the pipeline's plan");
        return;
    }
    if (report->limits == NULL) {
        verdict_print_kept(report, out);
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

char *lull_verdict_subject(const struct lull_report *report)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out;

    if (!lull_verdict_has_lowered(report))
        return NULL;
    out = open_memstream(&text, &size);
    if (out == NULL)
        return NULL;
    verdict_print_subject(report, out);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

/* ---- gain and reason --------------------------------------------------------------------- */

enum lull_gain_saving lull_verdict_judge_saving(const struct lull_report_gain *gain)
{
    return lull_gain_judge_saving(gain->saving_ratio, gain->low_ratio, gain->high_ratio);
}

enum lull_gain_slowdown lull_verdict_judge_slowdown(const struct lull_report_gain *gain)
{
    return lull_gain_judge_slowdown(gain->slowdown_ratio, gain->slowdown_upper_ratio,
                                    gain->allowed_ratio);
}

/* The saving against the job without the floor of power smoothing, which was on at the clocks that
 * were compared as well. */
static double subtract_floor(double saving_ratio, double added_ratio)
{
    return 1.0 - (1.0 - saving_ratio) * (1.0 + added_ratio);
}

static void gain_subtract_floor(const struct lull_report *report, struct lull_report_gain *gain)
{
    const struct lull_power_smoothing_summary *const smoothing = report->smoothing;

    if (smoothing == NULL || !smoothing->is_held)
        return;
    gain->saving_ratio = subtract_floor(gain->saving_ratio, smoothing->added_ratio);
    gain->low_ratio = subtract_floor(gain->low_ratio, smoothing->added_high_ratio);
    gain->high_ratio = subtract_floor(gain->high_ratio, smoothing->added_low_ratio);
}

/* The gain that the run itself shows, without other runs. */
static struct lull_report_gain find_gain_within(const struct lull_report *report)
{
    struct lull_report_gain gain;

    if (report->serving != NULL)
        return lull_serving_report_gain(report);
    if (report->runner != NULL)
        return lull_pipeline_report_gain(report);
    if (report->limits != NULL)
        return lull_limits_report_gain(report);
    gain = lull_tried_report_gain(report);
    gain_subtract_floor(report, &gain);
    return gain;
}

struct lull_report_gain lull_verdict_gain(const struct lull_report *report)
{
    const char *const doubt = lull_energy_report_doubt(report);
    struct lull_report_gain within;
    struct lull_report_gain between;

    if (!lull_verdict_has_lowered(report))
        return lull_report_no_gain("nothing was lowered");
    within = find_gain_within(report);
    if (doubt != NULL) {
        const struct lull_report_gain unknown = lull_report_no_gain(doubt);

        within.saving_ratio = unknown.saving_ratio;
        within.low_ratio = unknown.low_ratio;
        within.high_ratio = unknown.high_ratio;
        within.saving_reason = unknown.saving_reason;
        return within;
    }
    if (report->comparison == NULL)
        return within;
    between = lull_run_report_gain(report);
    between.allowed_ratio = within.allowed_ratio;
    return between.saving_reason == NULL ? between : within;
}

const char *lull_verdict_reason(const struct lull_report *report)
{
    const char *reason = report->findings[0];

    for (const char *const *note = report->notes; reason == NULL && *note != NULL; note++)
        if (note[1] == NULL)
            reason = *note;
    if (reason != NULL)
        return reason;
    if (report->limits != NULL)
        return "the run ended before a power limit was chosen; use a longer run";
    if (report->runner != NULL)
        return "the pipeline plan was not accepted; see the part about the pipeline in the report";
    return "the run ended before an iteration was found; use a longer run";
}
