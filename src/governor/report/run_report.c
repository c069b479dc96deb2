/* Reports what an iteration cost, unmanaged and managed, in time and energy.
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>

#include "governor/report/report_fields.h"
#include "governor/report/report_parts.h"
#include "governor/run/run_statistics.h"

/* Settled iterations speak for the managed run; if it never settled, all of its iterations do. */
static enum lull_run_part managed_part(const struct lull_control *managed)
{
    return lull_control_has_settled(managed) ? LULL_RUN_PART_SETTLED : LULL_RUN_PART_ALL;
}

/* The parts that both the document and the table show; all zero where there was no such run. */
struct parts {
    struct lull_run_statistics unmanaged;
    struct lull_run_statistics managed;
    struct lull_run_statistics descent;
};

static void compute_parts(const struct lull_report *report, struct parts *parts)
{
    *parts = (struct parts){0};
    if (report->unmanaged != NULL)
        lull_run_statistics_compute(report->unmanaged, LULL_RUN_PART_ALL, &parts->unmanaged);
    if (report->managed == NULL)
        return;
    lull_run_statistics_compute(report->managed, managed_part(report->managed), &parts->managed);
    lull_run_statistics_compute(report->managed, LULL_RUN_PART_DESCENT, &parts->descent);
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

/* Slowdown against the unmanaged run, or, without one, as the guard saw it in this run. */
static void add_slowdown(const struct lull_report *report, const struct parts *parts, json_t *root)
{
    struct lull_guard_estimate guard = {.slowdown_ratio = NAN, .upper_ratio = INFINITY};
    json_t *object = json_object();
    double slowdown = NAN;
    double upper = NAN;
    bool is_judged;
    bool is_known;

    if (report->managed != NULL)
        lull_controller_slowdown(lull_control_controller(report->managed), &guard);
    is_judged = guard.pairs >= 2;
    if (report->unmanaged != NULL) {
        is_known = lull_run_statistics_slowdown(&parts->unmanaged, &parts->managed,
                                                report->confidence, &slowdown, &upper);
    } else {
        is_known = is_judged;
        slowdown = guard.slowdown_ratio;
        upper = guard.upper_ratio;
    }
    lull_field_known(root, "slowdown_ratio", slowdown, is_known);
    lull_field_known(root, "slowdown_upper95_ratio", upper, is_known);
    lull_field_integer(object, "pairs", (json_int_t)guard.pairs);
    lull_field_known(object, "slowdown_ratio", guard.slowdown_ratio, is_judged);
    lull_field_known(object, "slowdown_upper95_ratio", guard.upper_ratio, is_judged);
    lull_field_json(root, "guard", object);
}

/* Returns what the whole managed run, learning and descent included, cost in time per iteration. */
static double whole_run_slowdown(const struct lull_report *report)
{
    struct lull_run_statistics unmanaged;
    struct lull_run_statistics managed;

    if (report->unmanaged == NULL || report->managed == NULL)
        return NAN;
    lull_run_statistics_compute(report->unmanaged, LULL_RUN_PART_WHOLE, &unmanaged);
    lull_run_statistics_compute(report->managed, LULL_RUN_PART_WHOLE, &managed);
    if (unmanaged.iterations == 0 || managed.iterations == 0)
        return NAN;
    return managed.iteration_ms / unmanaged.iteration_ms - 1.0;
}

void lull_run_report_add(const struct lull_report *report, json_t *root)
{
    const bool has_settled =
        report->managed != NULL && managed_part(report->managed) == LULL_RUN_PART_SETTLED;
    struct parts parts;
    double saving;
    double uncertainty;

    compute_parts(report, &parts);
    lull_field_json(root, "unmanaged",
                    report->unmanaged != NULL ? statistics_json(&parts.unmanaged) : json_null());
    lull_field_json(root, "managed", statistics_json(&parts.managed));
    lull_field_json(root, "descent", statistics_json(&parts.descent));
    lull_field_boolean(root, "settled", has_settled);
    if (has_settled)
        lull_field_integer(
            root, "settled_after_iterations",
            (json_int_t)lull_controller_settled_after(lull_control_controller(report->managed)));
    else
        lull_field_json(root, "settled_after_iterations", json_null());
    lull_run_statistics_saving(&parts.unmanaged, &parts.managed, &saving, &uncertainty);
    lull_field_number(root, "saving_ratio", saving);
    lull_field_number(root, "saving_uncertainty_ratio", uncertainty);
    lull_field_json(root, "oracle_saving_ratio", json_null());
    add_slowdown(report, &parts, root);
    lull_field_number(root, "whole_run_slowdown_ratio", whole_run_slowdown(report));
}

/* ---- the table --------------------------------------------------------------------------- */

static void print_statistics(FILE *out, const char *name,
                             const struct lull_run_statistics *statistics)
{
    fprintf(out, "  %-10s %9" PRIu64 " %12.2f %14.2f %12.1f\n", name, statistics->iterations,
            statistics->iteration_ms, lull_run_statistics_energy_per_iteration_j(statistics),
            statistics->average_power_w);
}

void lull_run_report_print(const struct lull_report *report, FILE *out)
{
    struct parts parts;
    double saving;
    double uncertainty;
    double slowdown;
    double upper;

    compute_parts(report, &parts);
    fprintf(out, "\n  %-10s %9s %12s %14s %12s\n", "", "iterations", "ms/iteration", "J/iteration",
            "average W");
    if (report->unmanaged != NULL)
        print_statistics(out, "unmanaged", &parts.unmanaged);
    print_statistics(out, "descent", &parts.descent);
    print_statistics(out, "managed", &parts.managed);
    lull_run_statistics_saving(&parts.unmanaged, &parts.managed, &saving, &uncertainty);
    if (isfinite(saving))
        fprintf(out, "  energy saved %.2f %%", saving * 100.0);
    if (isfinite(saving) && isfinite(uncertainty))
        fprintf(out, " +- %.2f", uncertainty * 100.0);
    if (report->unmanaged != NULL &&
        lull_run_statistics_slowdown(&parts.unmanaged, &parts.managed, report->confidence,
                                     &slowdown, &upper))
        fprintf(out, ", slowdown %+.2f %% (at most %.2f %% at %.0f %% confidence)",
                slowdown * 100.0, upper * 100.0, report->confidence * 100.0);
    fprintf(out, "\n");
}
