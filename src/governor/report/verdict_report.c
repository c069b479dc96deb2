/*
 * The verdict of a run: one sentence that states the saving, the slowdown and the lowered clocks;
 * or that no clock was lowered, why, and the next step. SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>

#include "governor/report/gain_text.h"
#include "governor/report/report_fields.h"
#include "governor/report/report_parts.h"
#include "governor/report/serving_report.h"
#include "governor/report/verdict_lines.h"

/* States the saving and the slowdown. With a slowdown above the permitted one the saving is not
 * claimed. */
static void verdict_print_gain(const struct lull_report_gain *gain, FILE *out)
{
    char saving[256];
    char slowdown[256];

    lull_gain_slowdown_text(gain->slowdown_ratio, gain->slowdown_upper_ratio, gain->allowed_ratio,
                            gain->slowdown_reason, slowdown, sizeof(slowdown));
    if (lull_verdict_judge_slowdown(gain) == LULL_GAIN_SLOWDOWN_ABOVE &&
        isfinite(gain->saving_ratio)) {
        lull_gain_change_text(gain->saving_ratio, gain->low_ratio, gain->high_ratio, saving,
                              sizeof(saving));
        fprintf(out, "%s; %s", slowdown, saving);
        return;
    }
    lull_gain_saving_text(gain->saving_ratio, gain->low_ratio, gain->high_ratio,
                          gain->saving_reason, saving, sizeof(saving));
    fprintf(out, "%s, %s", saving, slowdown);
}

/* Returns the sentence, which the caller frees; NULL: out of memory. */
static char *make_sentence(const struct lull_report *report, const struct lull_report_gain *gain,
                           const char *subject)
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
    if (report->status != 0 && report->serving != NULL)
        fprintf(out, "; until then ");
    if (report->serving != NULL) {
        lull_serving_report_sentence(report, out);
    } else if (lull_verdict_has_lowered(report)) {
        fprintf(out, report->status != 0 ? "; until then " : "");
        verdict_print_gain(gain, out);
        fprintf(out, ": %s", subject != NULL ? subject : "");
    } else if (report->status != 0) {
        fprintf(out, "; %s", lull_verdict_unlowered_text(report));
    } else {
        fprintf(out, "%s: %s", lull_verdict_unlowered_text(report), lull_verdict_reason(report));
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
    const struct lull_report_gain gain = lull_verdict_gain(report);
    char *const subject = lull_verdict_subject(report);
    char *const sentence = make_sentence(report, &gain, subject);
    struct lull_verdict_lines lines;
    char profile[LULL_VERDICT_LINE_SIZE];
    json_t *object = json_object();

    lull_verdict_lines_make(report, &gain, &lines);
    lull_profile_report_line(report, profile, sizeof(profile));
    lull_field_text(object, "sentence", sentence);
    lull_field_text(object, "energy_line", lines.energy);
    lull_field_text(object, "time_line", lines.time);
    lull_field_text(object, "next_line", lines.next);
    lull_field_text(object, "profile_line", profile[0] != '\0' ? profile : NULL);
    lull_field_text(object, "lowered_line", subject);
    lull_field_boolean(object, "lowered", lull_verdict_has_lowered(report));
    lull_field_text(object, "basis", gain.basis);
    lull_field_text(object, "saving_claim",
                    lull_gain_saving_word(lull_verdict_judge_saving(&gain)));
    lull_field_number(object, "saving_ratio", gain.saving_ratio);
    lull_field_number(object, "saving_low_ratio", gain.low_ratio);
    lull_field_number(object, "saving_high_ratio", gain.high_ratio);
    lull_field_text(object, "saving_reason", gain.saving_reason);
    lull_field_text(object, "slowdown_claim",
                    lull_gain_slowdown_word(lull_verdict_judge_slowdown(&gain)));
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
    const struct lull_report_gain gain = lull_verdict_gain(report);
    struct lull_verdict_lines lines;
    char profile[LULL_VERDICT_LINE_SIZE];

    lull_verdict_lines_make(report, &gain, &lines);
    lull_profile_report_line(report, profile, sizeof(profile));
    if (report->serving != NULL)
        fprintf(out, "\n  Energy:  %s\n  Latency: %s\n  Next:    %s\n", lines.energy, lines.time,
                lines.next);
    else
        fprintf(out, "\n  Energy: %s\n  Time:   %s\n  Next:   %s\n", lines.energy, lines.time,
                lines.next);
    if (profile[0] != '\0')
        fprintf(out, "  Profile: %s\n", profile);
}

void lull_verdict_report_print_basis(const struct lull_report *report, FILE *out)
{
    const struct lull_report_gain gain = lull_verdict_gain(report);
    char *const subject = lull_verdict_subject(report);

    if (subject != NULL)
        fprintf(out, "\n  lowered: %s\n", subject);
    if (gain.basis != NULL)
        fprintf(out, "  source of the saving: %s\n", gain.basis);
    free(subject);
}
