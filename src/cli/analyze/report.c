/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/analyze/report.h"

#include <inttypes.h>
#include <jansson.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_string.h"
#include "base/printable.h"
#include "cli/analyze/phases.h"
#include "cli/analyze/verdict.h"
#include "cli/shared/command.h"
#include "governor/report/frontier_report.h"
#include "governor/report/report_fields.h"

enum { SHOWN_SECTIONS = 5 };

/* The names of the ways of switching: in JSON, where a suffix such as _ms follows, and in tables.
 */
static const struct {
    const char *key;
    const char *text;
} switchings[LULL_SWITCHING_COUNT] = {
    [LULL_SWITCHING_ALONE] = {"alone", "each gap alone"},
    [LULL_SWITCHING_MERGED] = {"merged", "neighbours merged"},
    [LULL_SWITCHING_FEED_FORWARD] = {"feed_forward", "feed-forward"},
    [LULL_SWITCHING_IDEAL] = {"ideal", "at no latency"},
};

/* The sums over all ranks. */
struct total {
    double gap_ms;
    double energy_j;
    struct lull_switchable switchable[LULL_SWITCHING_COUNT];
    double saving_j[LULL_SWITCHING_COUNT];
    double span_ms;
    double compute_ms;
    struct lull_prediction_budget budgets[LULL_PREDICTION_BUDGETS]; /* slowdown: of the slowest;
                                                                     * clock: the lowest */
};

static void add_rank(struct total *total, const struct lull_analyzed_rank *rank)
{
    const struct lull_prediction *const prediction = &rank->prediction;
    const struct lull_exposure *const exposure = &rank->analysis.exposure;

    total->gap_ms += lull_ms_from_ns(exposure->exposed_ns + exposure->idle_ns);
    total->energy_j += prediction->energy_j;
    total->span_ms += lull_ms_from_ns(exposure->span_ns);
    total->compute_ms += lull_ms_from_ns(exposure->compute_ns);
    for (int b = 0; b < LULL_PREDICTION_BUDGETS; b++)
        lull_prediction_add(&prediction->budgets[b], &total->budgets[b]);
    for (int i = 0; i < LULL_SWITCHING_COUNT; i++) {
        total->switchable[i].sections += prediction->switchable[i].sections;
        total->switchable[i].gap_ms += prediction->switchable[i].gap_ms;
        total->switchable[i].communication_ms += prediction->switchable[i].communication_ms;
        total->switchable[i].slowed_ms += prediction->switchable[i].slowed_ms;
        total->saving_j[i] += prediction->saving_j[i];
    }
}

static struct total sum_ranks(const struct lull_analyzed_rank *ranks, size_t count)
{
    struct total total = {0};

    for (size_t i = 0; i < count; i++)
        add_rank(&total, &ranks[i]);
    return total;
}

static double analyze_report_saving_ratio(const struct total *total, enum lull_switching switching)
{
    return total->energy_j > 0.0 ? total->saving_j[switching] / total->energy_j : 0.0;
}

static double analyze_report_ratio(double part, double whole)
{
    return whole > 0.0 ? part / whole : 0.0;
}

static struct lull_job_frontier_point analyze_report_point_of(const struct total *total, int budget)
{
    const struct lull_prediction_range range =
        lull_prediction_range_of(&total->budgets[budget], total->energy_j);

    return (struct lull_job_frontier_point){
        .slowdown_ratio = total->budgets[budget].tolerance_ratio,
        .saving_ratio = range.likely_ratio,
        .low_ratio = range.low_ratio,
        .high_ratio = range.high_ratio,
    };
}

static void write_known_verdict(const struct total *total, char *text, size_t size)
{
    const struct lull_job_frontier_point point =
        analyze_report_point_of(total, LULL_PREDICTION_TOLERANCE);
    const double gaps = analyze_report_saving_ratio(total, LULL_SWITCHING_FEED_FORWARD);
    const struct lull_analyze_verdict verdict = {
        .min_ratio = point.low_ratio,
        .max_ratio = point.high_ratio,
        .likely_ratio = point.saving_ratio,
        .tolerance_ratio = point.slowdown_ratio,
        .compute_ratio = analyze_report_ratio(total->compute_ms, total->span_ms),
        .gaps_ratio = gaps,
        .is_of_run = true,
        .levers = gaps < LULL_VERDICT_MIN_RATIO ? "one steady clock"
                                                : "one steady clock and low clocks in gaps",
    };

    lull_analyze_verdict_write(&verdict, text, size);
}

static bool analyze_report_has_iterations(const struct lull_analyzed_rank *ranks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (ranks[i].analysis.iterations > 0)
            return true;
    return false;
}

/* Appends whose curves the figures are of, where they are not those of the GPU itself. */
static void append_model(const struct lull_analyzed_rank *rank, char *text, size_t size)
{
    const struct lull_prediction *const prediction = &rank->prediction;
    const size_t length = strlen(text);

    if (prediction->is_model_assumed && rank->gpu[0] == '\0')
        snprintf(text + length, size - length, "; assumed: %s, because the trace names no GPU",
                 prediction->model->name);
    else if (prediction->is_model_assumed)
        snprintf(text + length, size - length, "; assumed: %s, because %s is not known",
                 prediction->model->name, lull_printable(rank->gpu).text);
    else if (prediction->borrower != NULL)
        snprintf(text + length, size - length, "; a guess: the curves are those of %s, not of %s",
                 prediction->model->name, prediction->borrower);
}

/* Without iterations it is not known whether the job repeats what was recorded. */
static const char *analyze_report_write_verdict(const struct lull_analyzed_rank *ranks,
                                                size_t count, const struct total *total, char *text,
                                                size_t size)
{
    if (lull_analyze_has_phases(ranks, count))
        lull_analyze_write_server(ranks, count, text, size);
    else if (analyze_report_has_iterations(ranks, count))
        write_known_verdict(total, text, size);
    else
        snprintf(text, size,
                 "no verdict: no iterations are marked (ProfilerStep#N) or found in the "
                 "communication, so these figures cover only the recorded time; record some "
                 "iterations with profiler.step()");
    append_model(&ranks[0], text, size);
    return text;
}

/* ---- JSON ---- */

static json_t *known_text(const char *text)
{
    return text[0] != '\0' ? lull_json_string(text) : json_null();
}

static json_t *known_integer(int64_t value)
{
    return value >= 0 ? json_integer(value) : json_null();
}

static json_t *analyze_report_section_json(const struct lull_analysis_section *section)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "operation",
                     lull_json_string(section->operation), "name",
                     lull_json_string(section->kernel), "group", known_text(section->group),
                     "ranks", known_integer(section->ranks), "bytes",
                     section->bytes >= 0.0 ? json_real(section->bytes) : json_null(), "count",
                     (json_int_t)section->count, "mean_ms", section->mean_ms, "p50_ms",
                     section->p50_ms, "p90_ms", section->p90_ms, "p99_ms", section->p99_ms,
                     "total_ms", section->total_ms, "exposed_ms", section->exposed_ms);
}

static void set_real(json_t *object, const char *prefix, const char *suffix, double value)
{
    char key[48];

    snprintf(key, sizeof(key), "%s%s", prefix, suffix);
    json_object_set_new(object, key, json_real(value));
}

static json_t *switchable_json(const struct total *total)
{
    json_t *const object = json_object();

    for (int i = 0; i < LULL_SWITCHING_COUNT; i++) {
        const struct lull_switchable *const switchable = &total->switchable[i];

        set_real(object, switchings[i].key, "_ms", switchable->gap_ms);
        set_real(object, switchings[i].key, "_saving_ratio",
                 analyze_report_saving_ratio(total, (enum lull_switching)i));
    }
    set_real(object, "merged", "_slowed_ms", total->switchable[LULL_SWITCHING_MERGED].slowed_ms);
    set_real(object, "gap", "_ms", total->gap_ms);
    set_real(object, "energy", "_j", total->energy_j);
    set_real(object, "saving", "_ratio",
             analyze_report_saving_ratio(total, LULL_SWITCHING_FEED_FORWARD));
    return object;
}

static void find_points(const struct total *total, struct lull_job_frontier_point *points_out)
{
    for (int b = 0; b < LULL_JOB_FRONTIER_BUDGETS; b++)
        points_out[b] = analyze_report_point_of(total, b);
}

static json_t *frontier_json(const struct total *total)
{
    struct lull_job_frontier_point points[LULL_JOB_FRONTIER_BUDGETS];

    find_points(total, points);
    return lull_job_frontier_report_json(points);
}

/* The steady clock that the user's tolerance allows. */
static json_t *analyze_report_steady_json(const struct total *total)
{
    const struct lull_prediction_budget *const budget = &total->budgets[LULL_PREDICTION_TOLERANCE];
    const struct lull_job_frontier_point point =
        analyze_report_point_of(total, LULL_PREDICTION_TOLERANCE);

    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "tolerance_ratio",
                     budget->tolerance_ratio, "saving_ratio", point.saving_ratio, "low_ratio",
                     point.low_ratio, "high_ratio", point.high_ratio, "steady_mhz",
                     budget->steady_mhz, "steady_slowdown_ratio", budget->slowdown_ratio,
                     "steady_saving_ratio",
                     analyze_report_ratio(budget->steady_j, total->energy_j));
}

static json_t *level_json(double mhz, const struct lull_power_level *level)
{
    return json_pack("{s:f, s:f, s:f, s:f}", "sm_mhz", mhz, "compute_w", level->compute_w, "idle_w",
                     level->idle_w, "communication_w", level->communication_w);
}

static json_t *assumptions_json(const struct lull_prediction *prediction)
{
    return json_pack("{s:o, s:b, s:o, s:f, s:f, s:f, s:f, s:f, s:o, s:o}", "gpu",
                     lull_json_string(prediction->model->name), "gpu_assumed",
                     prediction->is_model_assumed, "gpu_borrowed_for",
                     lull_json_string_or_null(prediction->borrower), "down_ms", prediction->down_ms,
                     "up_ms", prediction->up_ms, "link_gbs", prediction->link_gbs,
                     "tolerance_ratio", LULL_PREDICTION_TOLERANCE_RATIO, "low_speed_ratio",
                     prediction->levels.low_speed_ratio, "high",
                     level_json(prediction->high_mhz, &prediction->levels.high), "low",
                     level_json(prediction->low_mhz, &prediction->levels.low));
}

static json_t *analyze_report_sections_json(const struct lull_analysis *analysis)
{
    json_t *const sections = json_array();

    for (size_t i = 0; i < analysis->section_count; i++)
        json_array_append_new(sections, analyze_report_section_json(&analysis->sections[i]));
    return sections;
}

/* Also kernels that were kept with another end, which are not left out. */
static json_t *loss_json(const struct lull_trace_loss *loss)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "unreadable_events",
                     (json_int_t)loss->events, "no_times", (json_int_t)loss->no_times,
                     "before_launch", (json_int_t)loss->before_launch, "other_clock",
                     (json_int_t)loss->other_clock, "unpaired", (json_int_t)loss->unpaired,
                     "doubled", (json_int_t)loss->doubled, "copies", (json_int_t)loss->copies,
                     "cut_short", (json_int_t)loss->cut, "end_missing", loss->has_no_end);
}

static json_t *rank_json(const struct lull_analyzed_rank *rank)
{
    const struct lull_analysis *const analysis = &rank->analysis;
    const struct lull_exposure *const exposure = &analysis->exposure;
    const struct total total = sum_ranks(rank, 1);
    json_t *const object = json_object();

    lull_field_json(object, "file", lull_json_string(rank->file));
    lull_field_json(object, "rank", known_integer(rank->rank));
    lull_field_json(object, "world_size", known_integer(rank->world_size));
    lull_field_json(object, "device", known_integer(rank->device));
    lull_field_json(object, "process", known_text(rank->process));
    lull_field_json(object, "gpu", known_text(rank->gpu));
    lull_field_integer(object, "kernels", (json_int_t)analysis->kernel_count);
    lull_field_integer(object, "comm_kernels", (json_int_t)analysis->communication_kernel_count);
    lull_field_integer(object, "unusable_kernels",
                       (json_int_t)lull_trace_unusable_kernels(&rank->loss));
    lull_field_json(object, "left_out", loss_json(&rank->loss));
    lull_field_number(object, "span_ms", lull_ms_from_ns(exposure->span_ns));
    lull_field_number(object, "compute_ms", lull_ms_from_ns(exposure->compute_ns));
    lull_field_number(object, "comm_ms", lull_ms_from_ns(exposure->communication_ns));
    lull_field_number(object, "overlap_ms", lull_ms_from_ns(exposure->overlap_ns));
    lull_field_number(object, "exposed_ms", lull_ms_from_ns(exposure->exposed_ns));
    lull_field_number(object, "idle_ms", lull_ms_from_ns(exposure->idle_ns));
    lull_field_integer(object, "iterations", (json_int_t)analysis->iterations);
    lull_field_known(object, "iteration_ms", analysis->iteration_ms, analysis->iterations > 0);
    lull_field_boolean(object, "iterations_marked", analysis->has_marks);
    lull_field_json(object, "sections", analyze_report_sections_json(analysis));
    lull_field_integer(object, "other_sections", (json_int_t)analysis->other_sections);
    lull_analyze_set_phases(object, rank);
    lull_field_json(object, "switchable", switchable_json(&total));
    lull_field_json(object, "assumptions", assumptions_json(&rank->prediction));
    return object;
}

int lull_analyze_print_json(const struct lull_analyzed_rank *ranks, size_t count)
{
    const struct total total = sum_ranks(ranks, count);
    json_t *const document = json_object();
    json_t *const array = json_array();

    char text[512];

    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, rank_json(&ranks[i]));
    lull_field_text(document, "verdict",
                    analyze_report_write_verdict(ranks, count, &total, text, sizeof(text)));
    lull_field_json(document, "predicted", analyze_report_steady_json(&total));
    lull_field_json(document, "frontier", frontier_json(&total));
    lull_field_json(document, "ranks", array);
    lull_field_json(document, "switchable", switchable_json(&total));
    return lull_cli_print_json(document, JSON_REAL_PRECISION(12));
}

/* ---- for people ---- */

static double analyze_report_percent(double part, double whole)
{
    return whole > 0.0 ? 100.0 * part / whole : 0.0;
}

const char *lull_analyzed_rank_name(const struct lull_analyzed_rank *rank, char *buffer,
                                    size_t size)
{
    if (rank->rank >= 0)
        snprintf(buffer, size, "%" PRId64, rank->rank);
    else if (rank->is_part && rank->device >= 0)
        snprintf(buffer, size, "gpu%" PRId64, rank->device);
    else
        snprintf(buffer, size, "?");
    return buffer;
}

static void print_ranks(const struct lull_analyzed_rank *ranks, size_t count)
{
    printf("%5s %10s %9s %8s %10s %8s %8s %11s %8s %8s\n", "rank", "iterations", "ms each",
           "kernels", "span ms", "compute", "comm", "overlapped", "exposed", "idle");
    for (size_t i = 0; i < count; i++) {
        const struct lull_analysis *const analysis = &ranks[i].analysis;
        const struct lull_exposure *const exposure = &analysis->exposure;
        const double span_ns = (double)exposure->span_ns;
        char name[24];

        printf("%5s %10" PRIu64 " %9.2f %8" PRIu64 " %10.2f %6.2f %% %6.2f %% %9.2f %% %6.2f %% "
               "%6.2f %%\n",
               lull_analyzed_rank_name(&ranks[i], name, sizeof(name)), analysis->iterations,
               analysis->iteration_ms, analysis->kernel_count, lull_ms_from_ns(exposure->span_ns),
               analyze_report_percent((double)exposure->compute_ns, span_ns),
               analyze_report_percent((double)exposure->communication_ns, span_ns),
               analyze_report_percent((double)exposure->overlap_ns, span_ns),
               analyze_report_percent((double)exposure->exposed_ns, span_ns),
               analyze_report_percent((double)exposure->idle_ns, span_ns));
    }
}

/* Chooses what a timeline is drawn with: shaded blocks on terminals that show UTF-8, else letters.
 */
static const char *const *analyze_report_shades(void)
{
    static const char *const blocks[] = {[LULL_ACTIVITY_IDLE] = " ",
                                         [LULL_ACTIVITY_COMMUNICATION] = "\u2592",
                                         [LULL_ACTIVITY_COMPUTE] = "\u2588"};
    static const char *const letters[] = {[LULL_ACTIVITY_IDLE] = " ",
                                          [LULL_ACTIVITY_COMMUNICATION] = "=",
                                          [LULL_ACTIVITY_COMPUTE] = "#"};

    setlocale(LC_CTYPE, "");
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0 ? blocks : letters;
}

static void print_timelines(const struct lull_analyzed_rank *ranks, size_t count)
{
    const char *const *const shade = analyze_report_shades();

    putchar('\n');
    for (size_t i = 0; i < count; i++) {
        char name[24];

        printf("%5s |", lull_analyzed_rank_name(&ranks[i], name, sizeof(name)));
        for (int c = 0; c < LULL_ANALYSIS_COLUMNS; c++)
            fputs(shade[ranks[i].analysis.timeline[c]], stdout);
        printf("|\n");
    }
    printf("      %s computes  %s communicates, no computation meanwhile  blank: idle\n",
           shade[LULL_ACTIVITY_COMPUTE], shade[LULL_ACTIVITY_COMMUNICATION]);
}

static bool analyze_report_has_sections(const struct lull_analyzed_rank *ranks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (ranks[i].analysis.section_count > 0)
            return true;
    return false;
}

static void print_sections(const struct lull_analyzed_rank *ranks, size_t count)
{
    if (!analyze_report_has_sections(ranks, count))
        return;
    printf("\n%5s %-14s %8s %10s %9s %9s %9s %9s %11s\n", "rank", "communication", "count", "bytes",
           "mean ms", "p50", "p90", "p99", "exposed ms");
    for (size_t i = 0; i < count; i++) {
        const struct lull_analysis *const analysis = &ranks[i].analysis;
        char name[24];

        for (size_t s = 0; s < analysis->section_count && s < SHOWN_SECTIONS; s++) {
            const struct lull_analysis_section *const section = &analysis->sections[s];
            char bytes[24] = "?";

            if (section->bytes >= 0.0)
                snprintf(bytes, sizeof(bytes), "%.4g", section->bytes);
            printf("%5s %-14s %8" PRIu64 " %10s %9.3f %9.3f %9.3f %9.3f %11.3f\n",
                   lull_analyzed_rank_name(&ranks[i], name, sizeof(name)), section->operation,
                   section->count, bytes, section->mean_ms, section->p50_ms, section->p90_ms,
                   section->p99_ms, section->exposed_ms);
        }
        if (analysis->section_count > SHOWN_SECTIONS)
            printf("%5s ... and %zu more; see --json\n",
                   lull_analyzed_rank_name(&ranks[i], name, sizeof(name)),
                   analysis->section_count - SHOWN_SECTIONS + analysis->other_sections);
    }
}

static void print_switchable(const struct total *total)
{
    printf("\n%-18s %9s %12s %14s %13s\n", "lever", "lowered", "ms low", "of all gaps",
           "energy saved");
    for (int i = 0; i < LULL_SWITCHING_COUNT; i++) {
        const struct lull_switchable *const switchable = &total->switchable[i];

        printf("%-18s %8" PRIu64 "x %12.2f %12.2f %% %11.2f %%", switchings[i].text,
               switchable->sections, switchable->gap_ms,
               analyze_report_percent(switchable->gap_ms, total->gap_ms),
               100.0 * analyze_report_saving_ratio(total, (enum lull_switching)i));
        if (i == LULL_SWITCHING_MERGED && switchable->slowed_ms > 0.0)
            printf("  (slows %.2f ms of computation)", switchable->slowed_ms);
        putchar('\n');
    }
}

/* The steady clock within the tolerance, and gaps on top of it. */
static void analyze_report_print_steady(const struct total *total)
{
    const struct lull_prediction_budget *const budget = &total->budgets[LULL_PREDICTION_TOLERANCE];

    printf("%-18s %9s %12s %14s %11.2f %%  (%.0f MHz, %.2f %% slower)\n", "one steady clock", "",
           "", "", 100.0 * analyze_report_ratio(budget->steady_j, total->energy_j),
           budget->steady_mhz, 100.0 * budget->slowdown_ratio);
    printf("%-18s %9s %12s %14s %11.2f %%\n", "and feed-forward", "", "", "",
           100.0 * analyze_report_ratio(budget->both_j, total->energy_j));
}

/* One line: what more time would buy. */
static void analyze_report_print_frontier(const struct total *total)
{
    struct lull_job_frontier_point points[LULL_JOB_FRONTIER_BUDGETS];
    char text[1024];

    find_points(total, points);
    printf("%s\n", lull_job_frontier_report_text(points, text, sizeof(text)));
}

static void print_borrowed(const struct lull_prediction *assumed)
{
    if (assumed->borrower != NULL)
        printf("%s has no measured curves; those of %s are used, so its figures are a guess.\n",
               assumed->borrower, assumed->model->name);
}

static void analyze_report_print_assumed(const struct lull_prediction *assumed)
{
    const struct lull_power_level *const high = &assumed->levels.high;
    const struct lull_power_level *const low = &assumed->levels.low;

    printf("Assumed: %s%s; a lower clock takes effect after %.1f ms, a higher one after %.1f ms; "
           "the GPU draws %.0f W\nwhen it computes, %.0f W when idle (%.0f W at the low clock) and "
           "%.0f W more when it communicates\n(%.0f W); gaps take as long at the low clock, which "
           "is the lowest that fills a link of %.0f GB/s.\n",
           assumed->model->name,
           assumed->is_model_assumed ? " (the trace names no known GPU; see --model)" : "",
           assumed->down_ms, assumed->up_ms, high->compute_w, high->idle_w, low->idle_w,
           high->communication_w, low->communication_w, assumed->link_gbs);
    print_borrowed(assumed);
}

/* Ranks of one job assume the same; of several jobs, each assumption is printed. */
static bool is_assumed_before(const struct lull_analyzed_rank *ranks, size_t rank)
{
    const struct lull_prediction *const assumed = &ranks[rank].prediction;

    for (size_t i = 0; i < rank; i++)
        if (ranks[i].prediction.model == assumed->model &&
            ranks[i].prediction.borrower == assumed->borrower &&
            ranks[i].prediction.link_gbs >= assumed->link_gbs &&
            ranks[i].prediction.link_gbs <= assumed->link_gbs)
            return true;
    return false;
}

static void print_assumptions(const struct lull_analyzed_rank *ranks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!is_assumed_before(ranks, i))
            analyze_report_print_assumed(&ranks[i].prediction);
}

static void print_meaning(const struct lull_analyzed_rank *ranks, size_t count,
                          const struct total *total)
{
    const struct lull_prediction *const first = &ranks[0].prediction;

    printf("\nNothing computes for %.1f ms. With feed-forward, %.1f ms of that would run at %.0f "
           "instead of %.0f MHz,\nwhich saves %.2f %% of the energy and slows no computation.\n",
           total->gap_ms, total->switchable[LULL_SWITCHING_FEED_FORWARD].gap_ms, first->low_mhz,
           first->high_mhz,
           100.0 * analyze_report_saving_ratio(total, LULL_SWITCHING_FEED_FORWARD));
    print_assumptions(ranks, count);
    printf("Power settles at once, and latencies are constant. The range is for a run whose search "
           "has settled. It starts at one steady\nclock that leaves the guard %.0f %% of the "
           "tolerance. It ends at two alternating clocks that use all of it, with all "
           "gaps\nlowered by perfect foresight; the likely value has %.0f %% of the gaps' share. A "
           "run saves less during its search, some 50 to\n400 iterations. `lull simulate` plays "
           "this job with varying latencies, heat, and the search.\n",
           100.0 * (1.0 - LULL_PREDICTION_PROVEN_SHARE), 100.0 * LULL_PREDICTION_GAPS_SHARE);
}

/* The levers of a training job: they need iterations that repeat. */
static void print_levers(const struct lull_analyzed_rank *ranks, size_t count,
                         const struct total *total)
{
    if (analyze_report_has_iterations(ranks, count))
        analyze_report_print_frontier(total);
    print_switchable(total);
    analyze_report_print_steady(total);
}

void lull_analyze_print_text(const struct lull_analyzed_rank *ranks, size_t count)
{
    const struct total total = sum_ranks(ranks, count);
    const bool is_server = lull_analyze_has_phases(ranks, count);
    char verdict[512];

    printf("%s\n", analyze_report_write_verdict(ranks, count, &total, verdict, sizeof(verdict)));
    lull_analyze_print_phases(ranks, count);
    if (!is_server)
        print_levers(ranks, count, &total);
    putchar('\n');
    for (size_t i = 0; i < count; i++) {
        char name[24];
        char file[512];

        lull_printable_write(ranks[i].file, file, sizeof(file));
        printf("rank %s: %s%s%s", lull_analyzed_rank_name(&ranks[i], name, sizeof(name)), file,
               ranks[i].gpu[0] != '\0' ? ", " : "", lull_printable(ranks[i].gpu).text);
        if (ranks[i].is_part)
            printf(", process %s", lull_printable(ranks[i].process).text);
        putchar('\n');
    }
    putchar('\n');
    print_ranks(ranks, count);
    print_timelines(ranks, count);
    print_sections(ranks, count);
    if (is_server) {
        putchar('\n');
        print_assumptions(ranks, count);
        return;
    }
    print_meaning(ranks, count, &total);
}
