/* Reports what an iteration cost, unmanaged and managed, in time and energy.
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>

#include "governor/report/report_fields.h"
#include "governor/report/report_parts.h"
#include "governor/run/run_statistics.h"

/* Geometric means over the pairs of runs that the slowdown and the saving come from, so that their
 * ratios are these figures. Sums of logarithms, and over how many pairs. */
struct compared_side {
    uint64_t iterations;
    uint32_t times;
    double log_ms; /* of whole runs */
    uint32_t energies;
    double log_j; /* of settled iterations... */
    double log_w;
};

/* Parts that both the document and the table show; all zero if there was no such run. */
struct parts {
    struct lull_run_statistics unmanaged;
    struct lull_run_statistics managed;
    struct lull_run_statistics descent;
    struct compared_side sides[2];                 /* unmanaged and managed, of a comparison */
    const struct lull_compared_run *unmanaged_run; /* NULL: there is none */
    struct lull_run_difference difference;         /* with a comparison only */
    struct lull_energy_saving saving; /* of one pair; its half width is NAN where it is not known,
                                         or where the interval over several pairs is better */
};

/* One pair does not show how pairs differ. Values known from other jobs are used instead. */
static void compute_uncertainty(const struct lull_report *report, struct parts *parts)
{
    const struct lull_compared_run *managed = lull_run_comparison_last(report->comparison, true);

    if (parts->difference.saving.pairs != 1 || parts->unmanaged_run == NULL || managed == NULL)
        return;
    if (!lull_run_statistics_saving(&parts->unmanaged, &managed->settled, &parts->saving))
        parts->saving.half_width_ratio = NAN;
}

static void run_report_add_pair(const struct lull_compared_run *pair, struct compared_side sides[2])
{
    double energies_j[2];

    for (int i = 0; i < 2; i++)
        energies_j[i] = lull_run_statistics_energy_per_iteration_j(&pair[i].settled);
    for (int i = 0; i < 2; i++) {
        struct compared_side *const side = &sides[pair[i].is_managed];

        side->iterations += pair[i].whole.iterations;
        if (pair[0].whole.iteration_ms > 0.0 && pair[1].whole.iteration_ms > 0.0) {
            side->times++;
            side->log_ms += log(pair[i].whole.iteration_ms);
        }
        if (energies_j[0] > 0.0 && energies_j[1] > 0.0) {
            side->energies++;
            side->log_j += log(energies_j[i]);
            side->log_w += log(pair[i].settled.average_power_w);
        }
    }
}

static void compute_sides(const struct lull_run_comparison *comparison,
                          struct compared_side sides[2])
{
    for (uint32_t i = 0; i + 1 < comparison->run_count; i += 2)
        if (comparison->runs[i].status == 0 && comparison->runs[i + 1].status == 0)
            run_report_add_pair(&comparison->runs[i], sides);
}

static double run_report_mean_of(double log_sum, uint32_t count)
{
    return count > 0 ? exp(log_sum / count) : (double)NAN;
}

static void compute_parts(const struct lull_report *report, struct parts *parts)
{
    *parts = (struct parts){.saving.half_width_ratio = NAN};
    if (report->managed != NULL) {
        lull_run_comparison_settled(report->managed, true, &parts->managed);
        lull_run_statistics_compute(report->managed, LULL_RUN_PART_DESCENT, &parts->descent);
    }
    if (report->comparison == NULL)
        return;
    parts->unmanaged_run = lull_run_comparison_last(report->comparison, false);
    if (parts->unmanaged_run != NULL)
        parts->unmanaged = parts->unmanaged_run->settled;
    lull_run_comparison_difference(report->comparison, report->confidence, &parts->difference);
    compute_sides(report->comparison, parts->sides);
    compute_uncertainty(report, parts);
}

struct lull_report_gain lull_run_report_gain(const struct lull_report *report)
{
    const struct lull_paired_change *saving;
    struct lull_report_gain gain = lull_report_no_gain(NULL);
    struct parts parts;

    compute_parts(report, &parts);
    saving = &parts.difference.saving;
    gain.basis = saving->pairs >= 2 ? "pairs of runs" : "one run of each kind";
    gain.saving_ratio = saving->ratio;
    gain.low_ratio = saving->lower_ratio;
    gain.high_ratio = saving->upper_ratio;
    if (isfinite(parts.saving.half_width_ratio)) {
        gain.low_ratio = saving->ratio - parts.saving.half_width_ratio;
        gain.high_ratio = saving->ratio + parts.saving.half_width_ratio;
    }
    gain.slowdown_ratio = parts.difference.slowdown.ratio;
    gain.slowdown_upper_ratio = parts.difference.slowdown.upper_ratio;
    if (!isfinite(gain.saving_ratio))
        gain.saving_reason = "no pair of runs has ended well with a known energy per iteration";
    if (!isfinite(gain.slowdown_ratio))
        gain.slowdown_reason = "no pair of runs has ended well with iterations in both";
    return gain;
}

/* ---- report.json ------------------------------------------------------------------------- */

static json_t *statistics_json(const struct lull_run_statistics *statistics)
{
    const bool has_energy = statistics->has_energy;
    json_t *object = json_object();

    lull_field_integer(object, "iterations", (json_int_t)statistics->iterations);
    lull_field_integer(object, "warming_iterations", (json_int_t)statistics->warming);
    lull_field_known(object, "iteration_ms", statistics->iteration_ms, statistics->iterations > 0);
    lull_field_known(object, "energy_j", statistics->energy_j, has_energy);
    lull_field_known(object, "energy_uncertainty_j",
                     lull_energy_sum_uncertainty_j(&statistics->measured),
                     has_energy && statistics->has_uncertainty);
    lull_field_known(object, "average_power_w", statistics->average_power_w, has_energy);
    lull_field_known(object, "energy_per_iteration_j",
                     lull_run_statistics_energy_per_iteration_j(statistics), has_energy);
    lull_field_number(object, "span_s", statistics->span_s);
    return object;
}

static json_t *compared_run_json(const struct lull_compared_run *run)
{
    const struct lull_run_statistics *whole = &run->whole;
    const struct lull_run_statistics *settled = &run->settled;
    json_t *object = json_object();

    lull_field_boolean(object, "managed", run->is_managed);
    lull_field_integer(object, "status", run->status);
    lull_field_number(object, "wall_s", run->wall_s);
    lull_field_integer(object, "iterations", (json_int_t)whole->iterations);
    lull_field_known(object, "iteration_ms", whole->iteration_ms, whole->iterations > 0);
    lull_field_known(object, "energy_per_iteration_j",
                     lull_run_statistics_energy_per_iteration_j(whole), whole->has_energy);
    lull_field_integer(object, "settled_iterations", (json_int_t)settled->iterations);
    lull_field_known(object, "settled_iteration_ms", settled->iteration_ms,
                     settled->iterations > 0);
    lull_field_known(object, "settled_energy_per_iteration_j",
                     lull_run_statistics_energy_per_iteration_j(settled), settled->has_energy);
    return object;
}

static json_t *mean_json(const struct compared_side *side)
{
    json_t *object = json_object();

    lull_field_integer(object, "iterations", (json_int_t)side->iterations);
    lull_field_number(object, "iteration_ms", run_report_mean_of(side->log_ms, side->times));
    lull_field_number(object, "energy_per_iteration_j",
                      run_report_mean_of(side->log_j, side->energies));
    lull_field_number(object, "average_power_w", run_report_mean_of(side->log_w, side->energies));
    return object;
}

static json_t *comparison_json(const struct lull_run_comparison *comparison,
                               const struct parts *parts)
{
    const struct lull_run_difference *difference = &parts->difference;
    json_t *object;
    json_t *runs;

    if (comparison == NULL)
        return json_null();
    object = json_object();
    runs = json_array();
    for (uint32_t i = 0; i < comparison->run_count; i++)
        json_array_append_new(runs, compared_run_json(&comparison->runs[i]));
    lull_field_integer(object, "pairs_wanted", comparison->pairs_wanted);
    lull_field_integer(object, "pairs", difference->pairs_done);
    lull_field_text(object, "no_bound_reason", lull_run_difference_no_bound(difference));
    lull_field_json(object, "unmanaged", mean_json(&parts->sides[0]));
    lull_field_json(object, "managed", mean_json(&parts->sides[1]));
    lull_field_json(object, "runs", runs);
    return object;
}

/* Names of the terms of a saving's interval in the document. */
static const char *const term_names[LULL_ENERGY_TERMS] = {
    [LULL_ENERGY_TERM_READINGS] = "readings_ratio", [LULL_ENERGY_TERM_RUNS] = "runs_ratio",
    [LULL_ENERGY_TERM_OFFSET] = "offset_ratio",     [LULL_ENERGY_TERM_LEVEL] = "level_ratio",
    [LULL_ENERGY_TERM_SAMPLING] = "sampling_ratio",
};

static json_t *saving_terms_json(const struct lull_energy_saving *saving)
{
    json_t *object;

    if (!isfinite(saving->half_width_ratio))
        return json_null();
    object = json_object();
    for (int i = 0; i < LULL_ENERGY_TERMS; i++)
        lull_field_number(object, term_names[i], saving->terms[i]);
    return object;
}

static void run_report_add_saving(const struct parts *parts, bool is_compared, json_t *root)
{
    const struct lull_paired_change *saving = &parts->difference.saving;

    lull_field_known(root, "saving_ratio", saving->ratio, is_compared);
    lull_field_number(root, "saving_uncertainty_ratio", parts->saving.half_width_ratio);
    lull_field_json(root, "saving_terms", saving_terms_json(&parts->saving));
    lull_field_known(root, "saving_lower_ratio", saving->lower_ratio, is_compared);
    lull_field_known(root, "saving_upper_ratio", saving->upper_ratio, is_compared);
    lull_field_json(root, "oracle_saving_ratio", json_null());
}

/* Results of the guard for this run. */
static json_t *guard_json(const struct lull_report *report)
{
    struct lull_controller_view now = {.rarest_excluded = NAN};
    json_t *object = json_object();

    if (report->managed != NULL)
        now = lull_controller_look(lull_control_controller(report->managed));
    lull_field_boolean(object, "proven", now.is_proven);
    lull_field_integer(object, "pairs", (json_int_t)now.slowdown.pairs);
    lull_field_known(object, "slowdown_ratio", now.slowdown.slowdown_ratio,
                     now.slowdown.pairs >= 2);
    lull_field_known(object, "slowdown_upper_ratio", now.slowdown.upper_ratio,
                     now.slowdown.pairs >= 2);
    lull_field_number(object, "confidence_ratio", report->confidence);
    lull_field_known(object, "rarest_excluded_ratio", now.rarest_excluded, now.is_proven);
    if (report->managed != NULL)
        lull_field_integer(object, "seed", (json_int_t)now.seed);
    else
        lull_field_json(object, "seed", json_null());
    return object;
}

/* Adds the slowdown of the run as a whole: against other runs, or, without a comparison, against
 * the iterations at the reference within it. */
static void add_slowdown(const struct lull_report *report, const struct parts *parts, json_t *root)
{
    struct lull_whole_slowdown whole = {NAN, INFINITY};
    const bool is_compared = report->comparison != NULL;

    if (is_compared)
        whole = (struct lull_whole_slowdown){parts->difference.slowdown.ratio,
                                             parts->difference.slowdown.upper_ratio};
    else if (report->managed != NULL && report->limits == NULL)
        whole = lull_controller_look(lull_control_controller(report->managed)).whole;
    lull_field_text(root, "slowdown_basis", is_compared ? "runs" : "guard");
    lull_field_number(root, "slowdown_ratio", whole.ratio);
    lull_field_number(root, "slowdown_upper_ratio", whole.upper_ratio);
    lull_field_number(root, "confidence_ratio", report->confidence);
    lull_field_json(root, "guard", guard_json(report));
}

void lull_run_report_add(const struct lull_report *report, json_t *root)
{
    const bool has_settled = report->managed != NULL && lull_control_has_settled(report->managed);
    const bool is_compared = report->comparison != NULL;
    struct parts parts;

    compute_parts(report, &parts);
    lull_field_number(root, "unmanaged_wall_s",
                      parts.unmanaged_run != NULL ? parts.unmanaged_run->wall_s : NAN);
    lull_field_number(root, "managed_wall_s", report->managed_s);
    lull_field_json(root, "unmanaged",
                    parts.unmanaged_run != NULL ? statistics_json(&parts.unmanaged) : json_null());
    lull_field_json(root, "managed", statistics_json(&parts.managed));
    lull_field_json(root, "descent", statistics_json(&parts.descent));
    lull_field_boolean(root, "settled", has_settled);
    if (has_settled)
        lull_field_integer(
            root, "settled_after_iterations",
            (json_int_t)lull_controller_look(lull_control_controller(report->managed))
                .settled_after);
    else
        lull_field_json(root, "settled_after_iterations", json_null());
    run_report_add_saving(&parts, is_compared, root);
    add_slowdown(report, &parts, root);
    lull_field_json(root, "comparison", comparison_json(report->comparison, &parts));
}

/* ---- the table --------------------------------------------------------------------------- */

static void run_report_print_row(FILE *out, const char *name, uint64_t iterations,
                                 double iteration_ms, double energy_j, double power_w)
{
    fprintf(out, "  %-10s %9" PRIu64, name, iterations);
    if (isfinite(iteration_ms))
        fprintf(out, " %12.2f", iteration_ms);
    else
        fprintf(out, " %12s", "-");
    if (isfinite(energy_j))
        fprintf(out, " %14.2f %12.1f\n", energy_j, power_w);
    else
        fprintf(out, " %14s %12s\n", "-", "-");
}

static void print_heads(FILE *out)
{
    fprintf(out, "\n  %-10s %9s %12s %14s %12s\n", "", "iterations", "ms/iteration", "J/iteration",
            "average W");
}

static void print_side(FILE *out, const char *name, const struct compared_side *side)
{
    run_report_print_row(out, name, side->iterations, run_report_mean_of(side->log_ms, side->times),
                         run_report_mean_of(side->log_j, side->energies),
                         run_report_mean_of(side->log_w, side->energies));
}

/* Both sides of a comparison, with the figures that the slowdown and the saving come from. */
static void print_sides(FILE *out, const struct parts *parts)
{
    if (parts->difference.pairs_done == 0)
        return;
    print_heads(out);
    print_side(out, "unmanaged", &parts->sides[0]);
    print_side(out, "managed", &parts->sides[1]);
    fprintf(out, "  (ms of whole runs; J and W of their settled iterations)\n");
}

/* The iterations of a run without a comparison. There is one row only. Parts of one run differ in
 * temperature and in what was tried, and several rows would look like a comparison. */
static void print_part(FILE *out, const struct lull_report *report, const struct parts *parts)
{
    const struct lull_run_statistics *part = &parts->managed;
    const bool is_settled = lull_control_has_settled(report->managed);

    if (part->iterations == 0)
        return; /* unknown is not 0 */
    print_heads(out);
    /* Both exclude the iterations in which the GPUs warmed up. */
    run_report_print_row(
        out, is_settled ? "settled" : "once warm", part->iterations, part->iteration_ms,
        part->has_energy ? lull_run_statistics_energy_per_iteration_j(part) : (double)NAN,
        part->average_power_w);
}

/* A sensor synchronous with the iterations is reported if its uncertainty exceeds this. */
static const double reported_sampling_ratio = 0.02;

/* A reader may take "-5 %" for a saving or a loss. */
static void print_less(FILE *out, double saving_ratio)
{
    fprintf(out, "%.2f %% %s", 100.0 * fabs(saving_ratio), saving_ratio < 0.0 ? "more" : "less");
}

static void print_saving(FILE *out, const struct lull_report *report, const struct parts *parts)
{
    const bool has_settled = report->managed != NULL && lull_control_has_settled(report->managed);
    const struct lull_paired_change *saving = &parts->difference.saving;
    const double sampling = parts->saving.terms[LULL_ENERGY_TERM_SAMPLING];

    if (!isfinite(saving->ratio))
        return;
    fprintf(out, "  energy per iteration, managed against unmanaged, %s: ",
            has_settled ? "once settled" : "the search not finished");
    print_less(out, saving->ratio);
    if (saving->pairs >= 2) {
        fprintf(out, " (from ");
        print_less(out, saving->lower_ratio);
        fprintf(out, " to ");
        print_less(out, saving->upper_ratio);
        fprintf(out, ")");
    }
    if (isfinite(parts->saving.half_width_ratio))
        fprintf(
            out,
            " +- %.2f (95 %%; one run of each kind; run-to-run differences are from other jobs)",
            parts->saving.half_width_ratio * 100.0);
    fprintf(out, "\n");
    if (isfinite(parts->saving.half_width_ratio) && sampling > reported_sampling_ratio)
        fprintf(out,
                "    +- %.2f of it because the GPUs' power sensors may be synchronised with the "
                "iterations; use longer runs, another batch size or --compare-pairs\n",
                sampling * 100.0);
}

static void print_slowdown(FILE *out, const struct parts *parts)
{
    const struct lull_paired_change *slowdown = &parts->difference.slowdown;

    if (!isfinite(slowdown->ratio))
        return;
    fprintf(out, "  slowdown of the run as a whole: %+.2f %%", slowdown->ratio * 100.0);
    if (slowdown->pairs >= 2)
        fprintf(out, " (at most %.2f %%)", slowdown->upper_ratio * 100.0);
    fprintf(out, "\n");
}

/* Prints the result of the comparison, and its confidence. */
static void print_difference(FILE *out, const struct lull_report *report, const struct parts *parts)
{
    const char *reason = lull_run_difference_no_bound(&parts->difference);

    print_saving(out, report, parts);
    print_slowdown(out, parts);
    if (reason == NULL)
        fprintf(out, "  over %u pairs of runs, at %g %% confidence\n",
                parts->difference.slowdown.pairs, report->confidence * 100.0);
    else
        fprintf(out, "  no run-to-run bound: %s\n", reason);
}

/* Prints what the guard guarantees about accepted clocks, and what it does not. */
static void print_guard(FILE *out, const struct lull_report *report)
{
    struct lull_controller_view now;

    if (report->managed == NULL || report->limits != NULL)
        return; /* under a power limit the controller only observes, and compares nothing */
    now = lull_controller_look(lull_control_controller(report->managed));
    if (report->comparison == NULL && isfinite(now.whole.upper_ratio))
        fprintf(out,
                "  slowdown of the run as a whole, by its own iterations at the highest clocks: "
                "%+.2f %% (at most %.2f %%, at %g %% confidence)\n",
                now.whole.ratio * 100.0, now.whole.upper_ratio * 100.0, report->confidence * 100.0);
    if (now.is_proven && now.rarest_excluded < 1.0)
        fprintf(out, "  cannot be ruled out yet: slowdowns rarer than one in %.0f iterations\n",
                1.0 / now.rarest_excluded);
}

void lull_run_report_print(const struct lull_report *report, FILE *out)
{
    struct parts parts;

    compute_parts(report, &parts);
    if (report->comparison == NULL) {
        print_part(out, report, &parts);
    } else {
        print_sides(out, &parts);
        print_difference(out, report, &parts);
    }
    print_guard(out, report);
    fprintf(out, "\n");
}
