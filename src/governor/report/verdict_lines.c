/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/report/verdict_lines.h"

#include <ctype.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

#include "base/amount.h"
#include "governor/report/gain_text.h"
#include "governor/report/serving_report.h"
#include "governor/run/run_statistics.h"

/* A shell's exit status of a command that a signal ended is this much above the signal. */
enum { SIGNAL_BASE = 128 };

/* A larger tolerance is recommended if it saves this much more of the energy. Default. */
static const double worthwhile_ratio = 0.02;

/* Less is printed in Wh, and as "below" this, so that no figure needs an exponent. */
static const double least_kwh = 1e-3;
static const double least_money = 1e-4;

void lull_verdict_append(char line[LULL_VERDICT_LINE_SIZE], const char *format, ...)
{
    const size_t length = strlen(line);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line + length, LULL_VERDICT_LINE_SIZE - length, format, arguments);
    va_end(arguments);
}

const char *lull_verdict_unlowered_text(const struct lull_report *report)
{
    return report->limits != NULL ? "power limits unchanged" : "no clocks lowered";
}

const char *lull_verdict_exit_text(int status, char text[LULL_VERDICT_EXIT_SIZE])
{
    if (status > SIGNAL_BASE && status < SIGNAL_BASE + NSIG)
        snprintf(text, LULL_VERDICT_EXIT_SIZE, "the job exited with status %d (signal %d, %s)",
                 status, status - SIGNAL_BASE, strsignal(status - SIGNAL_BASE));
    else
        snprintf(text, LULL_VERDICT_EXIT_SIZE, "the job exited with status %d", status);
    return text;
}

/* ---- reasons and steps ------------------------------------------------------------------- */

/* A message says first what happened, then what to do. Returns the begin of the latter, and the
 * length of the former; NULL: it names no step. */
static const char *find_step(const char *message, size_t *reason_length_out)
{
    const char *at = strstr(message, ". ");
    const char *step = NULL;

    if (at == NULL)
        for (const char *next = strstr(message, "; "); next != NULL; next = strstr(next + 1, "; "))
            at = next;
    *reason_length_out = strlen(message);
    if (at != NULL) {
        *reason_length_out = (size_t)(at - message);
        step = at + 2;
    }
    return step;
}

/* Appends a step, and what it is the answer to. */
void lull_verdict_append_step(char line[LULL_VERDICT_LINE_SIZE], const char *message,
                              bool has_reason)
{
    size_t length;
    const char *const step = find_step(message, &length);

    /* The name of a variable or a library keeps its capital letter. */
    if (step == NULL)
        lull_verdict_append(line, "run lull doctor, which checks this node");
    else if (islower((unsigned char)step[1]))
        lull_verdict_append(line, "%c%s", tolower((unsigned char)step[0]), step + 1);
    else
        lull_verdict_append(line, "%s", step);
    if (has_reason)
        lull_verdict_append(line, " (%.*s)", (int)length, message);
}

/* ---- energy ------------------------------------------------------------------------------ */

/* Computes what the settled iterations have saved. There is no run without Lull to subtract from.
 */
static struct lull_verdict_saved estimate_saved(const struct lull_report *report,
                                                const struct lull_report_gain *gain)
{
    struct lull_verdict_saved saved = {.joules = NAN};
    struct lull_run_statistics settled;

    if (!isfinite(gain->saving_ratio))
        saved.reason = gain->saving_reason;
    else if (!lull_control_has_settled(report->managed))
        saved.reason = "the run ended during the clock search";
    if (saved.reason != NULL)
        return saved;
    lull_run_statistics_compute(report->managed, LULL_RUN_PART_SETTLED, &settled);
    if (!settled.has_energy || settled.iterations == 0) {
        saved.reason = "the energy after the clock search is not known";
        return saved;
    }
    saved.joules = gain->saving_ratio / (1.0 - gain->saving_ratio) * settled.energy_j;
    saved.iterations = settled.iterations;
    saved.basis = "the saving per iteration times the iterations after the search";
    return saved;
}

static struct lull_verdict_saved compare_saved(const struct lull_report *report)
{
    struct lull_verdict_saved saved = {.joules = NAN};
    struct lull_run_difference difference;
    double unmanaged_j;

    lull_run_comparison_difference(report->comparison, report->confidence, &difference);
    if (difference.disturbance != NULL) {
        saved.reason = difference.disturbance;
        return saved;
    }
    saved.joules = lull_energy_report_whole_saved_j(&report->energy, &unmanaged_j);
    if (isfinite(saved.joules))
        saved.basis = "the last run without Lull minus the last run with Lull, whole runs";
    else
        saved.reason = "the energy of a whole run is not known";
    return saved;
}

static struct lull_verdict_saved find_saved(const struct lull_report *report,
                                            const struct lull_report_gain *gain)
{
    struct lull_verdict_saved saved = {.joules = NAN};

    if (report->comparison != NULL)
        return compare_saved(report);
    if (!lull_verdict_has_lowered(report)) {
        saved.reason = "nothing was lowered";
        return saved;
    }
    return estimate_saved(report, gain);
}

/* "4.21 MJ (1.17 kWh, 0.351 EUR)", without a sign. */
void lull_verdict_append_joules(char line[LULL_VERDICT_LINE_SIZE], double joules,
                                const struct lull_energy_price *price)
{
    const double kwh = fabs(joules) / LULL_JOULES_PER_KWH;
    const double money = kwh * price->per_kwh;

    lull_verdict_append(line, "%s (", lull_amount_energy(fabs(joules)).text);
    if (kwh < least_kwh)
        lull_verdict_append(line, "%.3g Wh", 1e3 * kwh);
    else
        lull_verdict_append(line, "%.3g kWh", kwh);
    if (price->has_money && money < least_money)
        lull_verdict_append(line, ", below %.3g", least_money);
    else if (price->has_money)
        lull_verdict_append(line, ", %.3g", money);
    if (price->has_money && price->currency[0] != '\0')
        lull_verdict_append(line, " %s", price->currency);
    lull_verdict_append(line, ")");
}

static void append_saved(char line[LULL_VERDICT_LINE_SIZE], const struct lull_verdict_saved *saved,
                         const struct lull_report *report)
{
    const char *const direction = saved->joules < 0.0 ? "more" : "less";

    if (!isfinite(saved->joules))
        return;
    lull_verdict_append(line,
                        saved->iterations == 0 ? "; whole run, with the search: " : "; about ");
    lull_verdict_append_joules(line, saved->joules, &report->price);
    if (saved->iterations == 0)
        lull_verdict_append(line, " %s than without Lull", direction);
    else
        lull_verdict_append(line, " %s in %" PRIu64 " iterations", direction, saved->iterations);
}

/* Returns whether idle phases have saved energy, as far as known. */
static bool has_idle_phases(const struct lull_report *report)
{
    const struct lull_idle_totals totals = lull_idle_report_totals(report);

    return totals.phases > 0 && totals.saved_j > 0.0;
}

static void append_idle_phases(char line[LULL_VERDICT_LINE_SIZE], const struct lull_report *report)
{
    const struct lull_idle_totals totals = lull_idle_report_totals(report);

    lull_verdict_append(line, "%s of idle GPUs at the lowest clock saved about ",
                        lull_amount_time(totals.low_s).text);
    lull_verdict_append_joules(line, totals.saved_j, &report->price);
}

/* Appends what a floor of power smoothing does. */
static void append_smoothing(char line[LULL_VERDICT_LINE_SIZE], const struct lull_report *report)
{
    const struct lull_power_smoothing_summary *const smoothing = report->smoothing;

    if (smoothing == NULL || !smoothing->is_held)
        return;
    lull_verdict_append(line,
                        "; power swings %.1f instead of %.1f %% by a floor of %u W, which adds "
                        "%.1f %% of energy",
                        100.0 * lull_smoothing_report_ratio(smoothing, &smoothing->after),
                        100.0 * lull_smoothing_report_ratio(smoothing, &smoothing->before),
                        smoothing->floor_w, 100.0 * smoothing->added_ratio);
    if (lull_verdict_has_lowered(report))
        lull_verdict_append(line, " (contained)");
}

static void write_energy(const struct lull_report *report, const struct lull_report_gain *gain,
                         const struct lull_verdict_saved *saved, char line[LULL_VERDICT_LINE_SIZE])
{
    const enum lull_gain_saving claim = lull_verdict_judge_saving(gain);
    char exit_text[LULL_VERDICT_EXIT_SIZE];
    size_t length;

    if (lull_verdict_judge_slowdown(gain) == LULL_GAIN_SLOWDOWN_ABOVE &&
        isfinite(gain->saving_ratio)) {
        lull_verdict_append(line,
                            "not counted as a saving, because the job was slower than allowed: ");
        lull_gain_change_text(gain->saving_ratio, gain->low_ratio, gain->high_ratio,
                              line + strlen(line), LULL_VERDICT_LINE_SIZE - strlen(line));
    } else if (claim == LULL_GAIN_SAVING_UNKNOWN) {
        find_step(gain->saving_reason, &length);
        lull_verdict_append(line, "saving not known (%.*s)", (int)length, gain->saving_reason);
    } else {
        lull_gain_saving_text(gain->saving_ratio, gain->low_ratio, gain->high_ratio, NULL, line,
                              LULL_VERDICT_LINE_SIZE);
    }
    if (claim == LULL_GAIN_SAVING_ESTIMATED)
        lull_verdict_append(line, " (no interval known)");
    if (saved->iterations == 0 || claim != LULL_GAIN_SAVING_UNPROVEN)
        append_saved(line, saved, report);
    append_smoothing(line, report);
    if (has_idle_phases(report)) {
        lull_verdict_append(line, "; besides, ");
        append_idle_phases(line, report);
    }
    if (report->status != 0)
        lull_verdict_append(line, "; then %s", lull_verdict_exit_text(report->status, exit_text));
}

/* Two runs whose clocks were the same in the end differ by the search and by chance, which is no
 * saving. */
static void append_difference(char line[LULL_VERDICT_LINE_SIZE],
                              const struct lull_verdict_saved *saved,
                              const struct lull_report *report)
{
    if (!isfinite(saved->joules))
        return;
    lull_verdict_append(line, "; the run with Lull used ");
    lull_verdict_append_joules(line, saved->joules, &report->price);
    lull_verdict_append(line, " %s, by the search and by differences between runs",
                        saved->joules < 0.0 ? "more" : "less");
}

static void write_no_energy(const struct lull_report *report,
                            const struct lull_verdict_saved *saved,
                            char line[LULL_VERDICT_LINE_SIZE])
{
    char exit_text[LULL_VERDICT_EXIT_SIZE];
    const char *reason;
    size_t length;

    if (report->status != 0) {
        lull_verdict_append(line, "nothing saved: %s",
                            lull_verdict_exit_text(report->status, exit_text));
        return;
    }
    reason = lull_verdict_reason(report);
    find_step(reason, &length);
    if (has_idle_phases(report)) {
        append_idle_phases(line, report);
        lull_verdict_append(line, "; no other clocks lowered: %.*s", (int)length, reason);
    } else
        lull_verdict_append(line, "nothing saved, %s: %.*s", lull_verdict_unlowered_text(report),
                            (int)length, reason);
    if (report->findings[0] != NULL && report->findings[1] != NULL)
        lull_verdict_append(line, "; the report has further reasons");
    append_smoothing(line, report);
    append_difference(line, saved, report);
}

/* ---- time -------------------------------------------------------------------------------- */

static uint64_t count_switches(const struct lull_report *report)
{
    uint64_t switches = 0;

    for (uint32_t gpu = 0; report->managed != NULL && gpu < lull_control_gpu_count(report->managed);
         gpu++)
        switches += lull_control_log(report->managed, gpu)->switches;
    return switches;
}

/* The slowdown of a run at whose end nothing is lowered: of its search. */
static struct lull_report_gain find_search(const struct lull_report *report)
{
    struct lull_report_gain search = lull_report_no_gain("too few iterations were compared");

    if (report->comparison != NULL)
        search = lull_run_report_gain(report);
    else if (report->managed != NULL && report->limits == NULL && report->runner == NULL)
        search = lull_tried_report_gain(report);
    search.allowed_ratio = report->tolerance_ratio;
    return search;
}

static void write_time(const struct lull_report *report, const struct lull_report_gain *gain,
                       char line[LULL_VERDICT_LINE_SIZE])
{
    const bool has_lowered = lull_verdict_has_lowered(report);
    struct lull_report_gain shown = *gain;

    if (!has_lowered)
        shown = find_search(report);
    if (!has_lowered && report->comparison == NULL && report->limits == NULL &&
        count_switches(report) == 0) {
        lull_verdict_append(line, "not slower because of Lull: no clock was changed");
        return;
    }
    lull_gain_slowdown_text(shown.slowdown_ratio, shown.slowdown_upper_ratio, shown.allowed_ratio,
                            shown.slowdown_reason, line, LULL_VERDICT_LINE_SIZE);
    if (isfinite(shown.slowdown_ratio) && isfinite(shown.slowdown_upper_ratio))
        lull_verdict_append(line, "; %g %% confidence", 100.0 * report->confidence);
    if (lull_verdict_judge_slowdown(&shown) == LULL_GAIN_SLOWDOWN_WITHIN &&
        isfinite(shown.allowed_ratio))
        lull_verdict_append(line, "; %.6g %% allowed", 100.0 * shown.allowed_ratio);
    if (!has_lowered)
        lull_verdict_append(line, "; clock search included");
}

/* ---- the next step ----------------------------------------------------------------------- */

static void write_next_of_failure(const struct lull_report *report,
                                  char line[LULL_VERDICT_LINE_SIZE])
{
    const struct lull_run_comparison *const runs = report->comparison;
    const bool has_failed_without =
        runs != NULL && runs->run_count > 0 && !runs->runs[runs->run_count - 1].is_managed;

    lull_verdict_append(line, "read the messages of the job");
    if (has_failed_without) {
        lull_verdict_append(line, ": it failed in a run without Lull");
        return;
    }
    lull_verdict_append(line, ". Lull knows of no error of its own that made the job fail");
    if (runs != NULL && lull_run_comparison_last(runs, false) != NULL)
        lull_verdict_append(line, ", but the run without Lull succeeded. Repeat both runs");
    else
        lull_verdict_append(line, ". If in doubt, run the command without lull run");
}

/* Returns the smallest larger tolerance that saves clearly more; NULL: none is known. */
static const struct lull_job_frontier_point *
find_better(const struct lull_report *report, const struct lull_report_gain *gain,
            struct lull_job_frontier_point points[LULL_JOB_FRONTIER_BUDGETS])
{
    if (report->frontier == NULL || report->limits != NULL || report->runner != NULL)
        return NULL;
    lull_tried_report_frontier(report, gain, points);
    for (int b = 0; b < LULL_JOB_FRONTIER_BUDGETS; b++)
        if (points[b].reason == NULL && points[b].slowdown_ratio > report->tolerance_ratio &&
            points[b].saving_ratio > gain->saving_ratio + worthwhile_ratio)
            return &points[b];
    return NULL;
}

static void write_next_of_success(const struct lull_report *report,
                                  const struct lull_report_gain *gain,
                                  char line[LULL_VERDICT_LINE_SIZE])
{
    struct lull_job_frontier_point points[LULL_JOB_FRONTIER_BUDGETS];
    const struct lull_job_frontier_point *const better = find_better(report, gain, points);

    lull_verdict_append(line, report->comparison != NULL
                                  ? "keep lull run before this command, without --compare"
                                  : "keep lull run before this command");
    if (better != NULL)
        lull_verdict_append(line, "; --tolerance %g%% would save about %.1f %%%s",
                            100.0 * better->slowdown_ratio, 100.0 * better->saving_ratio,
                            better->is_measured ? "" : " (predicted)");
}

static void write_next_of_slower(const struct lull_report *report,
                                 char line[LULL_VERDICT_LINE_SIZE])
{
    if (report->limits != NULL)
        lull_verdict_append(
            line, "run it with --power-limit auto, which finds a limit within --tolerance");
    else if (report->comparison != NULL)
        lull_verdict_append(
            line, "repeat the comparison; if the job is slower again, run it without Lull");
    else
        lull_verdict_append(
            line, "check with --compare --compare-pairs 3; if the job is slower again, run "
                  "it without Lull");
}

static bool has_few_pairs(const struct lull_report *report)
{
    return report->comparison != NULL && report->comparison->pairs_wanted < 3;
}

/* The step for figures that are less sure than they could be; false: none of them is. */
static bool write_next_of_doubt(const struct lull_report *report,
                                const struct lull_report_gain *gain,
                                char line[LULL_VERDICT_LINE_SIZE])
{
    const enum lull_gain_saving saving = lull_verdict_judge_saving(gain);
    const enum lull_gain_slowdown slowdown = lull_verdict_judge_slowdown(gain);

    if (saving == LULL_GAIN_SAVING_UNKNOWN)
        lull_verdict_append_step(line, gain->saving_reason, false);
    else if (saving == LULL_GAIN_SAVING_NEGATIVE)
        lull_verdict_append(line, "run the job without Lull: lower clocks save nothing here");
    else if (saving != LULL_GAIN_SAVING_UNPROVEN && slowdown == LULL_GAIN_SLOWDOWN_WITHIN)
        return false;
    else if (has_few_pairs(report))
        lull_verdict_append(line,
                            "use --compare-pairs 3: one pair of runs does not show how much runs "
                            "differ");
    else if (saving == LULL_GAIN_SAVING_UNPROVEN)
        lull_verdict_append(line, "use a longer run to prove the saving");
    else
        lull_verdict_append(line, "use a longer run to bound the slowdown");
    return true;
}

bool lull_verdict_lines_have_finding(const struct lull_report *report,
                                     const struct lull_report_gain *gain)
{
    return report->status == 0 && (!lull_verdict_has_lowered(report) ||
                                   lull_verdict_judge_slowdown(gain) != LULL_GAIN_SLOWDOWN_ABOVE);
}

static void write_next(const struct lull_report *report, const struct lull_report_gain *gain,
                       char line[LULL_VERDICT_LINE_SIZE])
{
    if (report->status != 0)
        write_next_of_failure(report, line);
    else if (!lull_verdict_has_lowered(report))
        lull_verdict_append_step(line, lull_verdict_reason(report), false);
    else if (lull_verdict_judge_slowdown(gain) == LULL_GAIN_SLOWDOWN_ABOVE)
        write_next_of_slower(report, line);
    else if (report->findings[0] != NULL)
        lull_verdict_append_step(line, report->findings[0], true);
    else if (!write_next_of_doubt(report, gain, line))
        write_next_of_success(report, gain, line);
}

void lull_verdict_lines_make(const struct lull_report *report, const struct lull_report_gain *gain,
                             struct lull_verdict_lines *lines_out)
{
    if (report->serving != NULL) {
        lull_serving_report_lines(report, lines_out);
        return;
    }
    *lines_out = (struct lull_verdict_lines){.saved = find_saved(report, gain)};
    if (lull_verdict_has_lowered(report))
        write_energy(report, gain, &lines_out->saved, lines_out->energy);
    else
        write_no_energy(report, &lines_out->saved, lines_out->energy);
    write_time(report, gain, lines_out->time);
    write_next(report, gain, lines_out->next);
}
