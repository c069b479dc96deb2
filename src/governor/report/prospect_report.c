/* Reports what the right that a run lacked would save. SPDX-License-Identifier: Apache-2.0 */
#include "governor/report/report_fields.h"
#include "governor/report/report_parts.h"

enum { ASSUMED_BYTES = 512, SENTENCE_BYTES = 384 };

/* Writes the assumptions; trace/prediction.h has all of them. */
static const char *prospect_report_write_assumed(const struct lull_run_prospect *prospect,
                                                 char text[ASSUMED_BYTES])
{
    const struct lull_prediction *const assumed = &prospect->assumed;

    snprintf(text, ASSUMED_BYTES,
             "time and power over clocks as measured on %s%s%s; a lower clock takes effect after "
             "%.0f ms, a higher one after %.0f ms; power settles at once; gaps take as long at the "
             "low clock; waiting ranks are left out; for a run whose search has settled",
             assumed->model->name,
             assumed->is_model_assumed ? ", because the GPU is not known" : "",
             assumed->borrower != NULL ? ", because the GPU has no measured curves" : "",
             assumed->down_ms, assumed->up_ms);
    return text;
}

/* Writes what the right would save, or why that is not known. */
static const char *prospect_report_write_sentence(const struct lull_run_prospect *prospect,
                                                  char text[SENTENCE_BYTES])
{
    const double energy_j = prospect->energy_j;

    if (prospect->reason != NULL)
        snprintf(text, SENTENCE_BYTES, "with %s: saving not known: %s", prospect->right,
                 prospect->reason);
    else
        snprintf(
            text, SENTENCE_BYTES,
            "with %s: an estimated %.3g to %.3g J (%.1f to %.1f %%) less per iteration, likely "
            "%.3g J, for at most %.3g %% of time",
            prospect->right, prospect->range.low_ratio * energy_j,
            prospect->range.high_ratio * energy_j, 100.0 * prospect->range.low_ratio,
            100.0 * prospect->range.high_ratio, prospect->range.likely_ratio * energy_j,
            100.0 * prospect->tolerance_ratio);
    return text;
}

json_t *lull_prospect_report_json(const struct lull_report *report)
{
    const struct lull_run_prospect *const prospect = report->prospect;
    char assumed[ASSUMED_BYTES];
    char sentence[SENTENCE_BYTES];
    json_t *object;
    bool is_known;

    if (prospect == NULL)
        return json_null();
    is_known = prospect->reason == NULL;
    object = json_object();
    lull_field_text(object, "sentence", prospect_report_write_sentence(prospect, sentence));
    lull_field_text(object, "right", prospect->right);
    lull_field_text(object, "reason", prospect->reason);
    lull_field_number(object, "tolerance_ratio", prospect->tolerance_ratio);
    lull_field_known(object, "saving_low_ratio", prospect->range.low_ratio, is_known);
    lull_field_known(object, "saving_likely_ratio", prospect->range.likely_ratio, is_known);
    lull_field_known(object, "saving_high_ratio", prospect->range.high_ratio, is_known);
    lull_field_known(object, "saving_low_j", prospect->range.low_ratio * prospect->energy_j,
                     is_known);
    lull_field_known(object, "saving_likely_j", prospect->range.likely_ratio * prospect->energy_j,
                     is_known);
    lull_field_known(object, "saving_high_j", prospect->range.high_ratio * prospect->energy_j,
                     is_known);
    lull_field_known(object, "energy_per_iteration_j", prospect->energy_j, is_known);
    lull_field_known(object, "model_energy_per_iteration_j", prospect->model_j, is_known);
    lull_field_known(object, "compute_ratio", prospect->compute_ratio, is_known);
    lull_field_text(object, "assumed",
                    is_known ? prospect_report_write_assumed(prospect, assumed) : NULL);
    return object;
}

void lull_prospect_report_print(const struct lull_report *report, FILE *out)
{
    char sentence[SENTENCE_BYTES];

    if (report->prospect != NULL)
        fprintf(out, "  Right:  %s\n", prospect_report_write_sentence(report->prospect, sentence));
}

void lull_prospect_report_print_basis(const struct lull_report *report, FILE *out)
{
    const struct lull_run_prospect *const prospect = report->prospect;
    char assumed[ASSUMED_BYTES];

    if (prospect == NULL || prospect->reason != NULL)
        return;
    fprintf(out,
            "  the missing right: %.4g J per iteration measured, %.4g J by the model, with "
            "computation in %.0f %% of the time\n  assumed: %s\n",
            prospect->energy_j, prospect->model_j, 100.0 * prospect->compute_ratio,
            prospect_report_write_assumed(prospect, assumed));
}
