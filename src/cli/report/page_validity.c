/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "cli/report/document.h"
#include "cli/report/html.h"
#include "cli/report/page_parts.h"

/* ---- what was not done ------------------------------------------------------------------- */

static bool is_undone(const json_t *lever)
{
    const char *const verdict = lull_report_text(lever, "verdict");

    return verdict == NULL || (strcmp(verdict, "lowered") != 0 && strcmp(verdict, "kept") != 0);
}

static bool is_same_text(const json_t *a, const json_t *b, const char *key)
{
    const char *const left = lull_report_text(a, key);
    const char *const right = lull_report_text(b, key);

    return left == right || (left != NULL && right != NULL && strcmp(left, right) == 0);
}

bool lull_report_is_same_lever(const json_t *a, const json_t *b)
{
    return is_same_text(a, b, "lever") && is_same_text(a, b, "verdict") &&
           is_same_text(a, b, "reason");
}

/* Writes a line for all levers that are like the one at `place`, unless one before it is. */
static void write_undone_lever(FILE *out, const json_t *levers, size_t place)
{
    const json_t *const lever = json_array_get(levers, place);
    size_t others = 0;

    for (size_t i = 0; i < lull_report_count(levers); i++) {
        if (i == place || !lull_report_is_same_lever(lever, json_array_get(levers, i)))
            continue;
        if (i < place)
            return;
        others++;
    }
    lull_html_text(out, "<li>", lull_report_text(lever, "lever"), ", ");
    lull_html_text(out, "", lull_report_text(lever, "name"), "");
    if (others > 0)
        fprintf(out, " and %zu more", others);
    lull_html_text(out, ": ", lull_report_text(lever, "verdict"), ": ");
    lull_html_text(out, "", lull_report_text(lever, "reason"), "</li>\n");
}

void lull_report_write_undone(FILE *out, const json_t *report)
{
    const json_t *const notes = lull_report_at(report, "notes");
    const json_t *const levers = lull_report_at(report, "levers");
    bool is_any = lull_report_count(notes) > 0;

    for (size_t i = 0; i < lull_report_count(levers); i++)
        is_any = is_any || is_undone(json_array_get(levers, i));
    if (!is_any) {
        fputs("<p>Nothing was left out.</p>\n", out);
        return;
    }
    fputs("<ul>\n", out);
    for (size_t i = 0; i < lull_report_count(notes); i++)
        lull_html_text(out, "<li>", json_string_value(json_array_get(notes, i)), "</li>\n");
    for (size_t i = 0; i < lull_report_count(levers); i++)
        if (is_undone(json_array_get(levers, i)))
            write_undone_lever(out, levers, i);
    fputs("</ul>\n", out);
}

/* ---- validity ---------------------------------------------------------------------------- */

static void page_validity_write_figure(FILE *out, const char *name, bool is_known, const char *why)
{
    lull_html_text(out, "<tr><th scope=\"row\">", name, "</th>");
    fprintf(out, "<td>%s</td>", is_known ? "known" : "<strong>not known</strong>");
    lull_html_cell(out, why);
    fputs("</tr>\n", out);
}

static void write_gain(FILE *out, const json_t *report)
{
    const json_t *const verdict = lull_report_at(report, "verdict");
    const bool has_saving = isfinite(lull_report_number(verdict, "saving_ratio"));
    const bool has_slowdown = isfinite(lull_report_number(verdict, "slowdown_ratio"));
    const char *const basis = lull_report_text(report, "slowdown_basis");

    page_validity_write_figure(out, "energy saved", has_saving,
                               lull_report_text(verdict, has_saving ? "basis" : "saving_reason"));
    if (has_slowdown && basis != NULL && strcmp(basis, "runs") == 0)
        page_validity_write_figure(out, "slower", true, "whole runs, with Lull and without");
    else if (has_slowdown)
        page_validity_write_figure(
            out, "slower", true,
            "iterations of this run, compared with its iterations at the highest clocks");
    else
        page_validity_write_figure(out, "slower", false,
                                   lull_report_text(verdict, "slowdown_reason"));
}

static void write_frontier(FILE *out, const json_t *report)
{
    const json_t *const points = lull_report_at(report, "frontier");
    const char *reason = "nothing was managed";
    size_t known = 0;
    char text[96];

    for (size_t i = 0; i < lull_report_count(points); i++) {
        const json_t *const point = json_array_get(points, i);

        if (isfinite(lull_report_number(point, "saving_ratio")))
            known++;
        else if (lull_report_text(point, "reason") != NULL)
            reason = lull_report_text(point, "reason");
    }
    snprintf(text, sizeof(text), "%zu of %zu tolerances have a result", known,
             lull_report_count(points));
    page_validity_write_figure(out, "savings at other tolerances", known > 0,
                               known > 0 ? text : reason);
}

static void write_gpu_energy(FILE *out, const json_t *gpu)
{
    const bool is_known = isfinite(lull_report_number(gpu, "energy_j"));
    const char *const source = lull_report_text(gpu, "source");
    const char *const reason = lull_report_text(gpu, "reason");
    const double check = lull_report_number(gpu, "power_check_ratio");
    char name[48];
    char text[128];

    snprintf(name, sizeof(name), "energy of GPU %.20s",
             lull_html_figure(lull_report_number(gpu, "index"), "").text);
    if (!is_known)
        snprintf(text, sizeof(text), "%.120s", reason != NULL ? reason : "not known");
    else if (source != NULL && strcmp(source, "counter") == 0 && isfinite(check))
        snprintf(text, sizeof(text), "its counter; polled power deviates by %s",
                 lull_html_percent(check).text);
    else if (source != NULL && strcmp(source, "counter") == 0)
        snprintf(text, sizeof(text), "its counter");
    else
        snprintf(text, sizeof(text), "polled power (no counter)");
    page_validity_write_figure(out, name, is_known, text);
}

static void write_node(FILE *out, const json_t *energy)
{
    const json_t *const run = lull_report_at(energy, "run");
    const char *const reason = lull_report_text(energy, "node_reason");

    page_validity_write_figure(out, "energy of processors", lull_report_at(run, "cpu") != NULL,
                               lull_report_at(run, "cpu") != NULL ? "RAPL" : reason);
    page_validity_write_figure(out, "energy of memory", lull_report_at(run, "dram") != NULL,
                               lull_report_at(run, "dram") != NULL ? "RAPL" : reason);
}

/* Writes whether a figure is known that is the energy times a price. */
static void write_priced(FILE *out, const json_t *cost, const char *name, const char *key,
                         const char *how)
{
    const bool is_known = isfinite(lull_report_number(cost, key));
    const char *why = lull_report_text(cost, "reason");

    if (is_known)
        why = how;
    else if (why == NULL)
        why = "no price is configured: --price-per-kwh, --co2-g-per-kwh or lull.conf";
    page_validity_write_figure(out, name, is_known, why);
}

static void write_cost(FILE *out, const json_t *report)
{
    const json_t *const cost = lull_report_at(report, "cost");

    write_priced(out, cost, "money", "money", "kWh of the GPUs times the price");
    write_priced(out, cost, "CO2", "co2_g", "kWh of the GPUs times grams of a kWh");
}

static void page_validity_write_events(FILE *out, const json_t *report)
{
    const json_t *const gpus = lull_report_at(report, "gpus");
    double lost = 0.0;
    char text[96];

    for (size_t i = 0; i < lull_report_count(gpus); i++)
        lost += fmax(lull_report_number(json_array_get(gpus, i), "events_lost"), 0.0);
    snprintf(text, sizeof(text), lost > 0.0 ? "%.0f events of the job were lost" : "none were lost",
             lost);
    page_validity_write_figure(out, "events of the job", lull_report_count(gpus) > 0,
                               lull_report_count(gpus) > 0 ? text : "no rank was detected");
}

void lull_report_write_validity(FILE *out, const json_t *report)
{
    static const char *const heads[] = {"figure", "state", "from, or why not", NULL};
    const json_t *const energy = lull_report_at(report, "energy");
    const json_t *const gpus = lull_report_at(lull_report_at(energy, "run"), "gpus");
    const double gain = lull_report_number(energy, "gain_uncertainty_ratio");

    lull_html_begin_table(out, "Every figure of this page, and its source", heads);
    write_gain(out, report);
    write_frontier(out, report);
    for (size_t i = 0; i < lull_report_count(gpus) && i < LULL_REPORT_MAX_GPUS; i++)
        write_gpu_energy(out, json_array_get(gpus, i));
    write_node(out, energy);
    write_cost(out, report);
    page_validity_write_events(out, report);
    lull_html_end_table(out);
    if (isfinite(gain))
        fprintf(out,
                "<p class=\"note\">Each GPU's sensor may be off by %.0f %% in all of its figures "
                "alike; ratios such as the saving are not touched by that.</p>\n",
                100.0 * gain);
}
