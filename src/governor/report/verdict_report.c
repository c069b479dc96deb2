/*
 * The verdict of a run: one sentence that states the saving, the slowdown and the lowered clocks;
 * or that no clock was lowered, why, and the next step. SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/minmax.h"
#include "governor/report/gain_text.h"
#include "governor/report/limits_report.h"
#include "governor/report/report_fields.h"
#include "governor/report/report_parts.h"
#include "governor/report/section_text.h"
#include "governor/report/verdict_lines.h"

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
};

static bool verdict_report_is_used(const struct lull_report *report, uint32_t gpu)
{
    return lull_control_gpu(report->managed, gpu)->process >= 0;
}

static void verdict_report_add_steady(const struct lull_report *report, uint32_t gpu,
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
static uint64_t verdict_report_count_lowered(const struct lull_report *report, uint32_t gpu,
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

        if (target == now.steady || lull_controller_kept_point(controller, gpu, target) == 0)
            continue;
        mhz = lull_report_kept_mhz(report, gpu, target);
        kept->has_gaps = kept->has_gaps || target->of_gaps;
        kept->has_sections = kept->has_sections || !target->of_gaps;
        if (kept->sections_mhz == 0 || mhz < kept->sections_mhz)
            kept->sections_mhz = mhz;
        highest_mhz = lull_max_u32(highest_mhz, mhz);
    }
    kept->section_count += verdict_report_count_lowered(report, gpu, highest_mhz);
}

static struct kept find_kept(const struct lull_report *report)
{
    const struct lull_controller *controller = lull_control_controller(report->managed);
    struct kept kept = {0};

    for (uint32_t gpu = 0; gpu < lull_control_gpu_count(report->managed); gpu++) {
        if (!verdict_report_is_used(report, gpu))
            continue;
        kept.used |= UINT64_C(1) << gpu;
        if (lull_gpu_alone_text(report->managed, gpu) != NULL)
            continue;
        verdict_report_add_steady(report, gpu, &kept);
        add_sections(report, gpu, &kept);
        if (lull_controller_look_gpu(controller, gpu).slack->lowered > 0)
            kept.waiting |= UINT64_C(1) << gpu;
    }
    return kept;
}

bool lull_verdict_report_has_lowered(const struct lull_report *report)
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
static void verdict_report_where(const struct lull_report *report, uint64_t gpus, uint64_t all,
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
        verdict_report_where(report, kept.steady, kept.used, out);
        separator = ", ";
    }
    if (kept.has_gaps || kept.has_sections) {
        fprintf(out, "%s%" PRIu64 " %s lowered to %u MHz", separator, kept.section_count,
                name_sections(&kept), kept.sections_mhz);
        separator = ", ";
    }
    if (kept.waiting != 0) {
        fprintf(out, "%seven lower where a rank waits", separator);
        verdict_report_where(report, kept.waiting, kept.used, out);
    }
}

static void verdict_print_subject(const struct lull_report *report, FILE *out)
{
    struct lull_limits_summary summary;
    char choice[160];

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

static enum lull_gain_saving judge_saving(const struct lull_report_gain *gain)
{
    return lull_gain_judge_saving(gain->saving_ratio, gain->low_ratio, gain->high_ratio);
}

static enum lull_gain_slowdown judge_slowdown(const struct lull_report_gain *gain)
{
    return lull_gain_judge_slowdown(gain->slowdown_ratio, gain->slowdown_upper_ratio,
                                    gain->allowed_ratio);
}

/* States the saving and the slowdown. With a slowdown above the permitted one the saving is not
 * claimed. */
static void verdict_print_gain(const struct lull_report_gain *gain, FILE *out)
{
    char saving[256];
    char slowdown[256];

    lull_gain_slowdown_text(gain->slowdown_ratio, gain->slowdown_upper_ratio, gain->allowed_ratio,
                            gain->slowdown_reason, slowdown, sizeof(slowdown));
    if (judge_slowdown(gain) == LULL_GAIN_SLOWDOWN_ABOVE && isfinite(gain->saving_ratio)) {
        lull_gain_change_text(gain->saving_ratio, gain->low_ratio, gain->high_ratio, saving,
                              sizeof(saving));
        fprintf(out, "%s; %s", slowdown, saving);
        return;
    }
    lull_gain_saving_text(gain->saving_ratio, gain->low_ratio, gain->high_ratio,
                          gain->saving_reason, saving, sizeof(saving));
    fprintf(out, "%s, %s", saving, slowdown);
}

/* ---- the sentence ------------------------------------------------------------------------ */

/* The gain that the run itself shows, without other runs. */
static struct lull_report_gain find_gain_within(const struct lull_report *report)
{
    if (report->runner != NULL)
        return lull_pipeline_report_gain(report);
    if (report->limits != NULL)
        return lull_limits_report_gain(report);
    return lull_tried_report_gain(report);
}

struct lull_report_gain lull_verdict_report_gain(const struct lull_report *report)
{
    const char *const doubt = lull_energy_report_doubt(report);
    struct lull_report_gain within;
    struct lull_report_gain between;

    if (!lull_verdict_report_has_lowered(report))
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

const char *lull_verdict_report_reason(const struct lull_report *report)
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

/* Returns what runs lower, which the caller frees; NULL: nothing does, or out of memory. */
static char *make_subject(const struct lull_report *report)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out;

    if (!lull_verdict_report_has_lowered(report))
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

/* Returns the sentence, which the caller frees; NULL: out of memory. */
static char *make_sentence(const struct lull_report *report, const struct lull_report_gain *gain)
{
    char exit_text[LULL_VERDICT_EXIT_SIZE];
    char *text = NULL;
    size_t size = 0;
    FILE *const out = open_memstream(&text, &size);

    if (out == NULL)
        return NULL;
    /* A failed job is reported first, because its run proves little. */
    if (report->status != 0)
        fprintf(out, "%s", lull_verdict_exit_text(report->status, exit_text));
    if (lull_verdict_report_has_lowered(report)) {
        fprintf(out, report->status != 0 ? "; until then " : "");
        verdict_print_gain(gain, out);
        fprintf(out, ": ");
        verdict_print_subject(report, out);
    } else if (report->status != 0) {
        fprintf(out, "; %s", lull_verdict_unlowered_text(report));
    } else {
        fprintf(out, "%s: %s", lull_verdict_unlowered_text(report),
                lull_verdict_report_reason(report));
    }
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* The energy of the last managed run from its start to its end against that of the last unmanaged
 * one, as a ratio minus 1: it includes the search and the trials, unlike the saving per settled
 * iteration. NAN: not compared, or not known. */
static double whole_energy_change(const struct lull_report *report)
{
    double unmanaged_j;
    const double saved_j = lull_energy_report_whole_saved_j(&report->energy, &unmanaged_j);

    return -saved_j / unmanaged_j;
}

json_t *lull_verdict_report_json(const struct lull_report *report)
{
    const struct lull_report_gain gain = lull_verdict_report_gain(report);
    char *const sentence = make_sentence(report, &gain);
    char *const subject = make_subject(report);
    struct lull_verdict_lines lines;
    json_t *object = json_object();

    lull_verdict_lines_make(report, &gain, &lines);
    lull_field_text(object, "sentence", sentence);
    lull_field_text(object, "energy_line", lines.energy);
    lull_field_text(object, "time_line", lines.time);
    lull_field_text(object, "next_line", lines.next);
    lull_field_text(object, "lowered_line", subject);
    lull_field_boolean(object, "lowered", lull_verdict_report_has_lowered(report));
    lull_field_text(object, "basis", gain.basis);
    lull_field_text(object, "saving_claim", lull_gain_saving_word(judge_saving(&gain)));
    lull_field_number(object, "saving_ratio", gain.saving_ratio);
    lull_field_number(object, "saving_low_ratio", gain.low_ratio);
    lull_field_number(object, "saving_high_ratio", gain.high_ratio);
    lull_field_text(object, "saving_reason", gain.saving_reason);
    lull_field_text(object, "slowdown_claim", lull_gain_slowdown_word(judge_slowdown(&gain)));
    lull_field_number(object, "slowdown_ratio", gain.slowdown_ratio);
    lull_field_number(object, "slowdown_upper_ratio", gain.slowdown_upper_ratio);
    lull_field_number(object, "slowdown_allowed_ratio", gain.allowed_ratio);
    lull_field_text(object, "slowdown_reason", gain.slowdown_reason);
    lull_field_number(object, "whole_run_energy_change_ratio", whole_energy_change(report));
    lull_field_number(object, "saved_j", lines.saved.joules);
    lull_field_text(object, "saved_j_basis", lines.saved.basis);
    lull_field_text(object, "saved_j_reason", lines.saved.reason);
    free(subject);
    free(sentence);
    return object;
}

void lull_verdict_report_print(const struct lull_report *report, FILE *out)
{
    const struct lull_report_gain gain = lull_verdict_report_gain(report);
    struct lull_verdict_lines lines;

    lull_verdict_lines_make(report, &gain, &lines);
    fprintf(out, "\n  Energy: %s\n  Time:   %s\n  Next:   %s\n", lines.energy, lines.time,
            lines.next);
}

void lull_verdict_report_print_basis(const struct lull_report *report, FILE *out)
{
    const struct lull_report_gain gain = lull_verdict_report_gain(report);
    char *const subject = make_subject(report);

    if (subject != NULL)
        fprintf(out, "\n  lowered: %s\n", subject);
    if (gain.basis != NULL)
        fprintf(out, "  source of the saving: %s\n", gain.basis);
    free(subject);
}
