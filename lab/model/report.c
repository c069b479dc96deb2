/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/model/report.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "base/json_string.h"
#include "cli/shared/command.h"

struct lull_model_set_name lull_model_set_name(const char *gpu, const char *set)
{
    struct lull_model_set_name name;

    snprintf(name.text, sizeof(name.text), "%s%s%s", lull_printable(gpu).text,
             set[0] != '\0' ? "/" : "", lull_printable(set).text);
    return name;
}

/* ---- unknown results and reasons ----------------------------------------------------------- */

/* Why figures of a set are missing; null: none is. */
static const char *why_unknown(const struct lull_evaluated_set *set)
{
    if (!set->has_grid)
        return "nothing is evaluated: no two operating points were measured of most kernels";
    if (isnan(set->evaluation.time_error))
        return "errors are unknown: every operating point is one that the models are fitted from";
    if (set->grid.powered_count == 0)
        return "power and savings are unknown: no kernel has power at all operating points";
    return NULL;
}

/* Why the figures of the prior are missing; null: none is. */
static const char *why_prior_unknown(const struct lull_evaluated_set *set)
{
    if (!set->has_grid)
        return "nothing is evaluated";
    if (set->evaluation.prior.counters == 0)
        return "no prior: no counter is there for all kernels";
    if (isnan(set->evaluation.prior.time_error))
        return "no prior: there are fewer than four kernels";
    if (isnan(set->evaluation.prior.power_error))
        return "no prior of power: fewer than four kernels have power at all operating points";
    return NULL;
}

/* The realised share of the possible saving; NAN: no saving is possible, or it is unknown. */
static double model_report_share_of(const struct lull_pick_worth *worth, double saved_ratio)
{
    return worth->available_ratio > 0.0 ? saved_ratio / worth->available_ratio : NAN;
}

/* ---- for users ----------------------------------------------------------------------------- */

static void print_percent(double ratio, int width)
{
    if (isnan(ratio))
        printf(" %*s", width, "-");
    else
        printf(" %*.2f", width, 100.0 * ratio);
}

static void print_notes(const struct lull_evaluated_set *set, const char *name)
{
    const struct lull_grid *const grid = &set->grid;
    const char *const why = why_unknown(set);

    if (why != NULL)
        printf("%s: %s\n", name, why);
    for (uint32_t i = 0; i < grid->unhonoured_count; i++)
        printf("%s: %g MHz is left out: %u kernel%s slower there than that clock can make %s\n",
               name, grid->unhonoured[i].sm_mhz, grid->unhonoured[i].kernels,
               grid->unhonoured[i].kernels == 1 ? " is" : "s are",
               grid->unhonoured[i].kernels == 1 ? "it" : "them");
    if (grid->short_mhz > 0.0)
        printf("%s: %g MHz and above are left out: %u kernels gain less there than the clock says, "
               "as if the GPU did not reach it\n",
               name, grid->short_mhz, grid->short_kernels);
    if (grid->disturbed > 0)
        printf("%s: %u row%s left out: slower than a clock that other kernels prove; measure %s "
               "again\n",
               name, grid->disturbed, grid->disturbed == 1 ? " is" : "s are",
               grid->disturbed == 1 ? "it" : "them");
    if (grid->left_out > 0)
        printf("%s: %u kernel%s left out: not measured at all %u operating points\n", name,
               grid->left_out, grid->left_out == 1 ? " is" : "s are", grid->point_count);
    if (set->has_grid && set->evaluation.pick_within.slow_kernels > 0)
        printf("%s: within 5 %%, the pick of %u kernel%s slower than that when measured\n", name,
               set->evaluation.pick_within.slow_kernels,
               set->evaluation.pick_within.slow_kernels == 1 ? " is" : "s is");
}

/* Prints a second table of the sets with counters, if there are any. */
static void print_priors(const struct lull_evaluated_set *sets, size_t count)
{
    bool has_header = false;

    for (size_t i = 0; i < count; i++) {
        const struct lull_prior_worth *const prior = &sets[i].evaluation.prior;

        if (prior->counters == 0)
            continue;
        if (!has_header)
            printf("\n%-22s %8s %7s %7s %7s %7s\n", "% without a probe", "counters", "time", "kNN",
                   "power", "kNN");
        has_header = true;
        printf("%-22s %8u", lull_model_set_name(sets[i].set->gpu, sets[i].set->set).text,
               prior->counters);
        print_percent(prior->time_error, 7);
        print_percent(prior->time_neighbours_error, 7);
        print_percent(prior->power_error, 7);
        print_percent(prior->power_neighbours_error, 7);
        putchar('\n');
    }
    if (has_header)
        printf("from counters at the base (power: and the power there): mean error of what changes "
               "from the base\nto the other points; kNN: the three kernels with the nearest "
               "counters.\n\n");
}

void lull_model_report_print(const struct lull_evaluated_set *sets, size_t count)
{
    printf("%-22s %7s %6s %7s %7s %7s %7s %7s %7s %7s %7s %7s\n", "%", "kernels", "points", "time",
           "alone", "power", "ends", "saving", "picked", "within", "picked", "kept");
    for (size_t i = 0; i < count; i++) {
        const struct lull_evaluated_set *const set = &sets[i];
        const struct lull_evaluation *const evaluation = &set->evaluation;

        printf("%-22s %7u %6u", lull_model_set_name(set->set->gpu, set->set->set).text,
               set->grid.kernel_count, set->grid.point_count);
        print_percent(evaluation->time_error, 7);
        print_percent(evaluation->online.time_error, 7);
        print_percent(evaluation->power_error, 7);
        print_percent(evaluation->power_ends_error, 7);
        print_percent(evaluation->pick.available_ratio, 7);
        print_percent(model_report_share_of(&evaluation->pick, evaluation->pick.realised_ratio), 7);
        print_percent(evaluation->pick_within.available_ratio, 7);
        print_percent(
            model_report_share_of(&evaluation->pick_within, evaluation->pick_within.realised_ratio),
            7);
        print_percent(
            model_report_share_of(&evaluation->pick_within, evaluation->pick_within.kept_ratio), 7);
        putchar('\n');
    }
    for (size_t i = 0; i < count; i++)
        print_notes(&sets[i], lull_model_set_name(sets[i].set->gpu, sets[i].set->set).text);
    print_priors(sets, count);
    printf("time, power: mean error away from the probes (ends and middle of the clocks); alone: "
           "from these probes only;\n"
           "ends: power from probes at the ends. saving: what the clock of least energy saves; "
           "within: at most 5 %% slower;\n"
           "picked: the part of it that the predicted clock realises; kept: where a pick that is "
           "slower "
           "than 5 %% counts as nothing.\n");
}

/* ---- the document -------------------------------------------------------------------------- */

static json_t *ratio_json(double ratio)
{
    return isnan(ratio) ? json_null() : json_real(ratio);
}

static json_t *unhonoured_json(const struct lull_grid *grid)
{
    json_t *const clocks = json_object();
    char key[32];

    for (uint32_t i = 0; i < grid->unhonoured_count; i++) {
        snprintf(key, sizeof(key), "%g", grid->unhonoured[i].sm_mhz);
        json_object_set_new(clocks, key, json_integer(grid->unhonoured[i].kernels));
    }
    return clocks;
}

static json_t *clock_json(const struct lull_evaluated_set *set, bool is_memory)
{
    const struct lull_grid_point *base;

    if (!set->has_grid)
        return json_null();
    base = &set->grid.points[set->grid.base];
    return json_real(is_memory ? base->mem_mhz : base->sm_mhz);
}

static json_t *model_report_set_json(const struct lull_evaluated_set *set)
{
    const struct lull_evaluation *const evaluation = &set->evaluation;
    const struct lull_prior_worth *const prior = &evaluation->prior;
    const char *const why = why_unknown(set);

    return json_pack(
        "{s:o, s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, "
        "s:o, s:o, s:I, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "gpu", lull_json_string(set->set->gpu), "set", lull_json_string(set->set->set), "kernels",
        (json_int_t)set->grid.kernel_count, "points", (json_int_t)set->grid.point_count,
        "left_out_kernels", (json_int_t)set->grid.left_out, "base_sm_mhz", clock_json(set, false),
        "base_mem_mhz", clock_json(set, true), "time_mape_heldout_ratio",
        ratio_json(evaluation->time_error), "time_mape_alone_ratio",
        ratio_json(evaluation->online.time_error), "power_mape_heldout_ratio",
        ratio_json(evaluation->power_error), "power_mape_loko_ratio",
        ratio_json(evaluation->power_ends_error), "available_ratio",
        ratio_json(evaluation->pick.available_ratio), "pick_share_ratio",
        ratio_json(model_report_share_of(&evaluation->pick, evaluation->pick.realised_ratio)),
        "available_within5_ratio", ratio_json(evaluation->pick_within.available_ratio),
        "pick_share_within5_ratio",
        ratio_json(model_report_share_of(&evaluation->pick_within,
                                         evaluation->pick_within.realised_ratio)),
        "pick_kept_within5_ratio",
        ratio_json(
            model_report_share_of(&evaluation->pick_within, evaluation->pick_within.kept_ratio)),
        "pick_within5_slow_kernels", (json_int_t)evaluation->pick_within.slow_kernels, "unhonoured",
        unhonoured_json(&set->grid), "short_sm_mhz",
        ratio_json(set->grid.short_mhz > 0.0 ? set->grid.short_mhz : NAN), "disturbed_rows",
        (json_int_t)set->grid.disturbed, "why_null", lull_json_string_or_null(why), "counters",
        (json_int_t)prior->counters, "time_mape_prior_ratio", ratio_json(prior->time_error),
        "time_mape_neighbours_ratio", ratio_json(prior->time_neighbours_error),
        "power_mape_prior_ratio", ratio_json(prior->power_error), "power_mape_neighbours_ratio",
        ratio_json(prior->power_neighbours_error), "why_prior_null",
        lull_json_string_or_null(why_prior_unknown(set)), "pick_share_online_ratio",
        ratio_json(model_report_share_of(&evaluation->pick, evaluation->online.realised_ratio)),
        "pick_kept_within5_online_ratio",
        ratio_json(model_report_share_of(&evaluation->pick_within, evaluation->online.kept_ratio)),
        "online_inside_ratio", ratio_json(evaluation->online.inside_ratio), "online_width_ratio",
        ratio_json(evaluation->online.width_ratio));
}

int lull_model_report_print_json(const struct lull_evaluated_set *sets, size_t count)
{
    json_t *const array = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, model_report_set_json(&sets[i]));
    return lull_cli_print_json(json_pack("{s:o}", "sets", array), 0);
}
