/* Reports a server that was managed under a latency objective, or whose idle GPUs were parked.
 * SPDX-License-Identifier: Apache-2.0 */
#include "governor/report/serving_report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "governor/report/report_fields.h"

/* Assumptions of the estimates, as in report.json. */
static const char park_basis[] =
    "power of each GPU just before it was parked, idle at the highest clock, minus its power while "
    "parked";
static const char load_basis[] =
    "the controller's model of the server, learned from energy and step times at several clocks";

/* ---- figures ----------------------------------------------------------------------------- */

static struct lull_serving_summary summarise(const struct lull_report *report)
{
    struct lull_serving_summary summary;

    lull_serving_summary(report->serving, lull_now_ns(), &summary);
    return summary;
}

/* Returns the energy of the served GPUs, J; NAN: unknown. */
static double find_energy_j(const struct lull_report *report)
{
    double energy_j = 0.0;

    for (uint32_t i = 0; i < lull_control_gpu_count(report->managed); i++) {
        struct lull_accounting_gpu gpu;

        if (!lull_serving_gpu_summary(report->serving, i, 0).is_served)
            continue;
        if (report->energy.managed == NULL)
            return (double)NAN;
        lull_accounting_gpu(report->energy.managed, i, &gpu);
        energy_j += gpu.total.is_known ? gpu.total.sum.joules : (double)NAN;
    }
    return energy_j;
}

/* The saving: by the controller's model under an objective, else by parking. */
struct saving {
    double joules; /* NAN: unknown */
    double ratio;
    const char *basis;
    const char *reason; /* why it is unknown; NULL: it is known */
};

static struct saving find_saving(const struct lull_report *report,
                                 const struct lull_serving_summary *summary)
{
    const double energy_j = find_energy_j(report);
    struct saving saving = {.joules = (double)NAN, .ratio = (double)NAN};

    if (isnan(energy_j)) {
        saving.reason = "the energy of a GPU is not known";
        return saving;
    }
    if (summary->has_objective && (summary->has_totals || summary->is_by_steps)) {
        saving.ratio = summary->control.saved_ratio;
        saving.joules = saving.ratio / (1.0 - saving.ratio) * energy_j;
        saving.basis = load_basis;
        saving.reason = "the server's energy by clock was not learned; use a longer run";
    } else {
        saving.joules = summary->parks > 0 ? summary->park_saved_j : 0.0;
        saving.ratio = saving.joules / (saving.joules + energy_j);
        saving.basis = park_basis;
        saving.reason = "the power of idle GPUs is not known";
    }
    if (isfinite(saving.joules))
        saving.reason = NULL;
    else
        saving.basis = NULL;
    return saving;
}

bool lull_serving_report_has_lowered(const struct lull_report *report)
{
    const struct lull_serving_summary summary = summarise(report);

    return summary.parks > 0 || summary.modes_s[LULL_LIVE_MODE_TESTING] > 0.0 ||
           summary.modes_s[LULL_LIVE_MODE_PROVEN] > 0.0;
}

struct lull_report_gain lull_serving_report_gain(const struct lull_report *report)
{
    const struct lull_serving_summary summary = summarise(report);
    const struct saving saving = find_saving(report, &summary);
    struct lull_report_gain gain =
        lull_report_no_gain("a server has no iterations; its latencies are in \"serving\"");

    gain.basis = saving.basis;
    gain.saving_ratio = saving.ratio;
    gain.saving_reason = saving.reason;
    return gain;
}

/* ---- report.json ------------------------------------------------------------------------- */

static json_t *objective_json(const struct lull_serving_summary *summary)
{
    json_t *object;

    if (!summary->has_objective)
        return json_null();
    object = json_object();
    lull_field_number(object, "ttft_ms", summary->objective.ttft_s * 1e3);
    lull_field_number(object, "tpot_ms", summary->objective.tpot_s * 1e3);
    lull_field_number(object, "share_ratio", summary->objective.share);
    return object;
}

static json_t *quantiles_json(const struct lull_serving_histogram *histogram, double predicted_s)
{
    json_t *object = json_object();

    lull_field_number(object, "p50", lull_serving_quantile_s(histogram, 0.5) * 1e3);
    lull_field_number(object, "p99", lull_serving_quantile_s(histogram, 0.99) * 1e3);
    lull_field_number(object, "predicted", predicted_s * 1e3);
    return object;
}

/* Returns why the energy per token or request is unknown; NULL: it is known. */
static const char *find_no_ratio(const struct lull_serving_summary *summary, double count,
                                 const char *none)
{
    if (!summary->has_metrics)
        return "the server's metrics were not read; give --metrics";
    if (!summary->has_totals)
        return "the server's metrics never answered";
    if (isnan(count))
        return "the server's metrics do not count it";
    if (isnan(summary->totals.energy_j))
        return "the energy of a GPU is not known";
    return count > 0.0 ? NULL : none;
}

static void add_per(json_t *object, const char *key, const char *reason_key,
                    const struct lull_serving_summary *summary, double count, const char *none)
{
    const char *const reason = find_no_ratio(summary, count, none);

    lull_field_known(object, key, summary->totals.energy_j / count, reason == NULL);
    lull_field_text(object, reason_key, reason);
}

static json_t *modes_json(const struct lull_serving_summary *summary)
{
    json_t *object = json_object();

    for (uint32_t i = LULL_LIVE_MODE_BLIND; i < LULL_LIVE_MODE_COUNT; i++)
        lull_field_number(object, lull_live_mode_text(i), summary->modes_s[i]);
    return object;
}

static json_t *parked_gpus_json(const struct lull_report *report)
{
    json_t *gpus = json_array();

    for (uint32_t i = 0; i < lull_control_gpu_count(report->managed); i++) {
        const struct lull_serving_gpu_summary summary =
            lull_serving_gpu_summary(report->serving, i, lull_now_ns());
        json_t *gpu;

        if (!summary.is_served)
            continue;
        gpu = json_object();
        lull_field_integer(gpu, "index", lull_control_gpu(report->managed, i)->device);
        lull_field_integer(gpu, "park_mhz", summary.park_mhz);
        lull_field_integer(gpu, "parks", summary.parks);
        lull_field_number(gpu, "parked_s", summary.parked_s);
        lull_field_number(gpu, "saved_j", summary.saved_j);
        lull_field_number(gpu, "first_work_ms", summary.first_work_s * 1e3);
        json_array_append_new(gpus, gpu);
    }
    return gpus;
}

json_t *lull_serving_report_json(const struct lull_report *report)
{
    struct lull_serving_summary summary;
    const struct lull_serving_totals *totals;
    struct saving saving;
    json_t *object;

    if (report->serving == NULL)
        return json_null();
    summary = summarise(report);
    saving = find_saving(report, &summary);
    totals = &summary.totals;
    object = json_object();
    lull_field_text(object, "engine", summary.engine);
    lull_field_text(object, "metrics", summary.metrics);
    lull_field_json(object, "objective", objective_json(&summary));
    lull_field_number(object, "requests", summary.has_totals ? totals->finished : (double)NAN);
    lull_field_number(object, "judged_requests",
                      summary.has_metrics ? summary.control.requests : (double)NAN);
    lull_field_number(object, "judged_steps",
                      summary.is_by_steps ? summary.control.requests : (double)NAN);
    lull_field_number(object, "missed_ratio", summary.control.missed_ratio);
    lull_field_number(object, "missed_bound_ratio", summary.control.missed_bound_ratio);
    lull_field_json(object, "ttft_ms",
                    quantiles_json(&totals->ttft, summary.control.predicted_ttft_s));
    lull_field_json(object, "tpot_ms",
                    quantiles_json(&totals->tpot, summary.control.predicted_tpot_s));
    lull_field_number(object, "prompt_tokens",
                      summary.has_totals ? totals->prompt_tokens : (double)NAN);
    lull_field_number(object, "output_tokens",
                      summary.has_totals ? totals->output_tokens : (double)NAN);
    add_per(object, "j_per_output_token", "j_per_output_token_reason", &summary,
            totals->output_tokens, "no token was generated");
    add_per(object, "j_per_request", "j_per_request_reason", &summary, totals->finished,
            "no request finished");
    lull_field_json(object, "modes_s", modes_json(&summary));
    lull_field_number(object, "parked_s", summary.parked_s);
    lull_field_integer(object, "parks", summary.parks);
    lull_field_number(object, "saved_j", saving.joules);
    lull_field_number(object, "saved_ratio", saving.ratio);
    lull_field_text(object, "saved_basis", saving.basis);
    lull_field_text(object, "saved_reason", saving.reason);
    lull_field_text(object, "reason", summary.reason);
    lull_field_json(object, "gpus", parked_gpus_json(report));
    return object;
}

/* ---- lines ------------------------------------------------------------------------------- */

static void append_parking(char line[LULL_VERDICT_LINE_SIZE],
                           const struct lull_serving_summary *summary, double run_s)
{
    lull_verdict_append(line, "GPUs parked %.3g of %.3g s on average", summary->parked_s, run_s);
}

static void append_per_token(char line[LULL_VERDICT_LINE_SIZE],
                             const struct lull_serving_summary *summary)
{
    const struct lull_serving_totals *const totals = &summary->totals;

    if (find_no_ratio(summary, totals->output_tokens, "none") == NULL)
        lull_verdict_append(line, "; %.3g J per output token",
                            totals->energy_j / totals->output_tokens);
    if (find_no_ratio(summary, totals->finished, "none") == NULL)
        lull_verdict_append(line, ", %.3g J per request", totals->energy_j / totals->finished);
}

static void write_serving_energy(const struct lull_report *report,
                                 const struct lull_serving_summary *summary,
                                 const struct saving *saving, char line[LULL_VERDICT_LINE_SIZE])
{
    if (!lull_serving_report_has_lowered(report)) {
        lull_verdict_append(line, "nothing saved, no clocks lowered: %s", summary->reason);
    } else if (saving->reason != NULL) {
        lull_verdict_append(line, "saving not known (%s)", saving->reason);
    } else if (saving->ratio < 0.0) {
        lull_verdict_append(line, "nothing saved, about %.1f %% more used (estimate)",
                            -100.0 * saving->ratio);
    } else {
        lull_verdict_append(
            line, "about %.1f %% saved (estimate, no interval known): ", 100.0 * saving->ratio);
        lull_verdict_append_joules(line, saving->joules, &report->price);
    }
    if (summary->parks > 0) {
        lull_verdict_append(line, "; ");
        append_parking(line, summary, report->managed_s);
    }
    append_per_token(line, summary);
}

static void append_latency(char line[LULL_VERDICT_LINE_SIZE], const char *name,
                           const struct lull_serving_histogram *histogram)
{
    const double p50_ms = lull_serving_quantile_s(histogram, 0.5) * 1e3;
    const double p99_ms = lull_serving_quantile_s(histogram, 0.99) * 1e3;

    if (isfinite(p50_ms) && isfinite(p99_ms))
        lull_verdict_append(line, "; %s p50 %.4g ms, p99 %.4g ms", name, p50_ms, p99_ms);
}

/* The longest delay of the first work that any GPU may have had. */
static double find_first_work_ms(const struct lull_report *report)
{
    double longest_s = 0.0;

    for (uint32_t i = 0; i < lull_control_gpu_count(report->managed); i++) {
        const struct lull_serving_gpu_summary summary =
            lull_serving_gpu_summary(report->serving, i, lull_now_ns());

        if (summary.is_served && summary.parks > 0)
            longest_s = fmax(longest_s, summary.first_work_s);
    }
    return longest_s * 1e3;
}

static void write_objective_latency(const struct lull_serving_summary *summary,
                                    char line[LULL_VERDICT_LINE_SIZE])
{
    const struct lull_serving_state *const control = &summary->control;
    const bool is_upper = summary->totals.ttft.is_upper || summary->totals.tpot.is_upper;

    if (!(control->requests > 0.0)) {
        lull_verdict_append(line, "no request was judged");
        return;
    }
    lull_verdict_append(line, "%.0f requests", control->requests);
    if (isfinite(control->missed_ratio))
        lull_verdict_append(line, ", %s%.3g %% missed the objective", is_upper ? "at most " : "",
                            100.0 * control->missed_ratio);
    if (isfinite(control->missed_bound_ratio))
        lull_verdict_append(line, "; lowered clocks added at most %.3g %% (95 %% confidence)",
                            100.0 * control->missed_bound_ratio);
    else
        lull_verdict_append(line, "; the share that lowered clocks have added is not bounded yet");
}

/* What was judged, what is bounded, and what is not known. */
static void write_step_latency(const struct lull_serving_summary *summary,
                               char line[LULL_VERDICT_LINE_SIZE])
{
    const struct lull_serving_state *const control = &summary->control;

    lull_verdict_append(line, "%.0f steps, in place of requests", control->requests);
    if (isfinite(control->missed_ratio))
        lull_verdict_append(line, ", %.3g %% longer than the bound of TPOT",
                            100.0 * control->missed_ratio);
    if (isfinite(control->missed_bound_ratio))
        lull_verdict_append(line, "; lowered clocks added at most %.3g %% (95 %% confidence)",
                            100.0 * control->missed_bound_ratio);
    lull_verdict_append(line, "; TTFT and queue are not known");
}

static void write_serving_latency(const struct lull_report *report,
                                  const struct lull_serving_summary *summary,
                                  char line[LULL_VERDICT_LINE_SIZE])
{
    if (summary->is_by_steps)
        write_step_latency(summary, line);
    else if (summary->has_objective && summary->has_totals)
        write_objective_latency(summary, line);
    else if (summary->parks == 0)
        lull_verdict_append(line, "not changed by Lull: no clock was lowered");
    else
        lull_verdict_append(line,
                            "the first work after an idle time was delayed by at most %.3g ms; "
                            "nothing else was",
                            find_first_work_ms(report));
    append_latency(line, "TTFT", &summary->totals.ttft);
    append_latency(line, "TPOT", &summary->totals.tpot);
}

static void write_serving_next(const struct lull_report *report,
                               const struct lull_serving_summary *summary,
                               char line[LULL_VERDICT_LINE_SIZE])
{
    const bool is_unseen = summary->has_objective && !summary->has_metrics && !summary->is_by_steps;
    const char *last = NULL;

    for (const char *const *note = report->notes; *note != NULL; note++)
        last = *note;
    if (last != NULL && (is_unseen || !lull_serving_report_has_lowered(report)))
        lull_verdict_append_step(line, last, true);
    else if (!summary->has_objective)
        lull_verdict_append(line, "add --slo%s to lower clocks under load as well",
                            summary->has_metrics ? "" : " and --metrics");
    else if (summary->control.missed_bound_ratio < (1.0 - summary->objective.share) / 2.0)
        lull_verdict_append(line, "keep it running with this server");
    else
        lull_verdict_append(line,
                            "use a longer run: more %s narrow the bound of those that lowered "
                            "clocks have added to the missed ones",
                            summary->is_by_steps ? "steps" : "requests");
}

void lull_serving_report_lines(const struct lull_report *report,
                               struct lull_verdict_lines *lines_out)
{
    const struct lull_serving_summary summary = summarise(report);
    const struct saving saving = find_saving(report, &summary);

    *lines_out = (struct lull_verdict_lines){
        .saved = {.joules = saving.joules, .basis = saving.basis, .reason = saving.reason}};
    write_serving_energy(report, &summary, &saving, lines_out->energy);
    write_serving_latency(report, &summary, lines_out->time);
    write_serving_next(report, &summary, lines_out->next);
}

void lull_serving_report_sentence(const struct lull_report *report, FILE *out)
{
    struct lull_verdict_lines lines;

    lull_serving_report_lines(report, &lines);
    fprintf(out, "%s; %s", lines.energy, lines.time);
}

/* ---- the table --------------------------------------------------------------------------- */

void lull_serving_report_print(const struct lull_report *report, FILE *out)
{
    struct lull_serving_summary summary;

    if (report->serving == NULL)
        return;
    summary = summarise(report);
    fprintf(out, "\n  %-10s %12s\n", "mode", "s");
    for (uint32_t i = LULL_LIVE_MODE_BLIND; i < LULL_LIVE_MODE_COUNT; i++)
        if (summary.modes_s[i] > 0.0)
            fprintf(out, "  %-10s %12.1f\n", lull_live_mode_text(i), summary.modes_s[i]);
    fprintf(out, "  %s\n", summary.reason);
}
