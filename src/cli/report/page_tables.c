/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "cli/report/document.h"
#include "cli/report/html.h"
#include "cli/report/page_parts.h"
#include "cli/report/pictures.h"

/* ---- iterations -------------------------------------------------------------------------- */

static void write_part(FILE *out, const char *name, const json_t *part)
{
    const double iterations = lull_report_number(part, "iterations");

    if (!(iterations > 0.0))
        return; /* nothing is known, which is not 0 */
    lull_html_text(out, "<tr><th scope=\"row\">", name, "</th>");
    lull_html_number_cell(out, lull_html_figure(iterations, ""));
    lull_html_number_cell(out, lull_html_figure(lull_report_number(part, "iteration_ms"), "ms"));
    lull_html_number_cell(
        out, lull_html_figure(lull_report_number(part, "energy_per_iteration_j"), "J"));
    lull_html_number_cell(out, lull_html_figure(lull_report_number(part, "average_power_w"), "W"));
    fputs("</tr>\n", out);
}

static bool page_table_has_iterations(const json_t *report, const char *part)
{
    return lull_report_number(lull_report_at(report, part), "iterations") > 0.0;
}

void lull_report_write_iterations(FILE *out, const json_t *report)
{
    static const char *const heads[] = {"part",           "iterations", "each",
                                        "energy of each", "power",      NULL};

    const json_t *const comparison = lull_report_at(report, "comparison");
    const bool is_compared = page_table_has_iterations(comparison, "managed");

    if (!is_compared && !page_table_has_iterations(report, "managed")) {
        fputs("<p class=\"none\">Not known: no iteration was seen.</p>\n", out);
        return;
    }
    lull_html_begin_table(out, "Iterations of the job, energy of all its GPUs on this node", heads);
    if (is_compared) {
        write_part(out, "without Lull", lull_report_at(comparison, "unmanaged"));
        write_part(out, "with Lull", lull_report_at(comparison, "managed"));
    } else {
        write_part(out, lull_report_is(report, "settled") ? "settled" : "whole run, not settled",
                   lull_report_at(report, "managed"));
    }
    lull_html_end_table(out);
    fputs(is_compared
              ? "<p class=\"note\">Means over the pairs of runs: the time of whole runs, "
                "energy and power of their settled iterations.</p>\n"
              : "<p class=\"note\">The saving and the slowdown come from pairs of blocks within "
                "this run. <code>--compare</code> also runs the command without Lull.</p>\n",
          out);
}

/* ---- levers ------------------------------------------------------------------------------ */

/* Returns whether two levers share a row: both have no saving of their own. */
static bool shares_row(const json_t *a, const json_t *b)
{
    return lull_report_is_same_lever(a, b) &&
           lull_report_number(a, "sm_mhz") == lull_report_number(b, "sm_mhz") &&
           !isfinite(lull_report_number(a, "saving_ratio")) &&
           !isfinite(lull_report_number(b, "saving_ratio"));
}

/* Counts the levers that share the row of the one at `place`, it included; 0: an earlier one has
 * the row. */
static size_t count_shared(const json_t *levers, size_t place)
{
    const json_t *const lever = json_array_get(levers, place);
    size_t count = 1;

    for (size_t i = 0; i < lull_report_count(levers); i++) {
        if (i == place || !shares_row(lever, json_array_get(levers, i)))
            continue;
        if (i < place)
            return 0;
        count++;
    }
    return count;
}

static void write_lever_row(FILE *out, const json_t *lever, size_t count)
{
    const double saving = lull_report_number(lever, "saving_ratio");
    const char *const reason = lull_report_text(lever, "saving_reason");
    const char *const kind = lull_report_text(lever, "lever");
    const bool is_profile = kind != NULL && strcmp(kind, "power profile") == 0;

    fputs("<tr>", out);
    lull_html_text(out, "<th scope=\"row\">", kind, "</th>");
    lull_html_text(out, "<td>", lull_report_text(lever, "name"), "");
    if (count > 1)
        fprintf(out, " and %zu more", count - 1);
    fputs("</td>", out);
    if (isfinite(lull_report_number(lever, "sm_mhz")))
        lull_html_number_cell(out, lull_html_figure(lull_report_number(lever, "sm_mhz"), "MHz"));
    else
        lull_html_text(out, "<td>", is_profile ? "follows the profile" : "by a rank's waiting time",
                       "</td>");
    if (isfinite(saving))
        lull_html_number_cell(out, lull_html_percent(saving));
    else
        lull_html_text(out, "<td><em>", reason != NULL ? reason : "not known", "</em></td>");
    lull_html_text(out, "<td>", lull_report_text(lever, "verdict"), ": ");
    lull_html_text(out, "", lull_report_text(lever, "reason"), "</td></tr>\n");
}

static double highest_of(const json_t *report, double index)
{
    const json_t *const gpus = lull_report_at(report, "gpus");

    for (size_t i = 0; i < lull_report_count(gpus); i++)
        if (lull_report_number(json_array_get(gpus, i), "index") == index)
            return lull_report_number(json_array_get(gpus, i), "highest_sm_mhz");
    return (double)NAN;
}

static void write_descents(FILE *out, const json_t *report, const json_t *levers)
{
    bool is_any = false;

    for (size_t i = 0; i < lull_report_count(levers); i++)
        is_any =
            is_any || lull_report_count(lull_report_at(json_array_get(levers, i), "descent")) > 0;
    if (!is_any)
        return;
    fputs("<h3>Clocks tried for each lever</h3>\n<div class=\"figures\">", out);
    for (size_t i = 0; i < lull_report_count(levers); i++) {
        const json_t *const lever = json_array_get(levers, i);
        const json_t *const descent = lull_report_at(lever, "descent");
        const char *const name = lull_report_text(lever, "name");
        const char *const kind = lull_report_text(lever, "lever");
        char title[160];

        if (lull_report_count(descent) == 0)
            continue;
        snprintf(title, sizeof(title), "%.40s: %.100s", kind != NULL ? kind : "",
                 name != NULL ? name : "");
        lull_report_draw_descent(out, title, descent,
                                 highest_of(report, lull_report_number(lever, "gpu")));
    }
    fputs("</div>\n<p class=\"note\">Each step is a clock that was tried. Full circle: no "
          "slowdown. Cross: slowdown. Ring: undecided. Star: accepted clock. The search begins at "
          "the highest clock.</p>\n",
          out);
}

void lull_report_write_levers(FILE *out, const json_t *report)
{
    static const char *const heads[] = {"lever", "of", "clock", "saved", "verdict", NULL};
    const json_t *const levers = lull_report_at(report, "levers");

    if (lull_report_count(levers) == 0) {
        fputs("<p class=\"none\">No lever was found: nothing was managed.</p>\n", out);
        return;
    }
    lull_html_begin_table(out, "Levers, in parts of the job's energy", heads);
    for (size_t i = 0; i < lull_report_count(levers); i++) {
        const size_t shared = count_shared(levers, i);

        if (shared > 0)
            write_lever_row(out, json_array_get(levers, i), shared);
    }
    lull_html_end_table(out);
    write_descents(out, report, levers);
}

/* ---- GPUs -------------------------------------------------------------------------------- */

static const char *section_key(const json_t *section, const char *key)
{
    const char *const text = lull_report_text(section, key);

    return text != NULL ? text : "";
}

/* Returns whether the same is to be said of two sections. */
static bool page_table_is_same(const json_t *a, const json_t *b)
{
    return strcmp(section_key(a, "name"), section_key(b, "name")) == 0 &&
           strcmp(section_key(a, "verdict"), section_key(b, "verdict")) == 0 &&
           lull_report_number(a, "sm_mhz") == lull_report_number(b, "sm_mhz");
}

/* Writes a row for all sections that are like the one at `place`, unless one before it is. */
static void write_section(FILE *out, const json_t *sections, size_t place)
{
    const json_t *const section = json_array_get(sections, place);
    size_t count = 0;
    double ms = 0.0;
    char name[128];

    for (size_t i = 0; i < lull_report_count(sections); i++) {
        const json_t *const other = json_array_get(sections, i);

        if (!page_table_is_same(section, other))
            continue;
        if (i < place)
            return;
        count++;
        ms += lull_report_number(other, "mean_ms");
    }
    snprintf(name, sizeof(name), "%.100s", section_key(section, "name"));
    if (count > 1)
        snprintf(name, sizeof(name), "%zu x %.100s", count, section_key(section, "name"));
    fputs("<tr><td></td>", out);
    lull_html_cell(out, name);
    lull_html_number_cell(out, lull_html_figure(ms / (double)count, "ms"));
    lull_html_number_cell(out, lull_html_figure(lull_report_number(section, "sm_mhz"), "MHz"));
    lull_html_text(out, "<td>", lull_report_text(section, "verdict"), ": ");
    lull_html_text(out, "", lull_report_text(section, "reason"), "</td></tr>\n");
}

static void page_table_write_gpu(FILE *out, const json_t *gpu)
{
    const json_t *const steady = lull_report_at(gpu, "steady");
    const json_t *const sections = lull_report_at(gpu, "sections");
    const char *const trouble = lull_report_text(lull_report_at(gpu, "driver"), "trouble");

    lull_html_text(out, "<tr><th scope=\"row\">",
                   lull_html_figure(lull_report_number(gpu, "index"), "").text,
                   "</th><td colspan=\"4\">");
    lull_html_text(out, "", lull_report_text(gpu, "state"), "");
    if (trouble != NULL && trouble[0] != '\0')
        lull_html_text(out, "; driver: ", trouble, "");
    fputs("</td></tr>\n", out);
    if (steady != NULL) {
        fputs("<tr><td></td><td>whole iterations</td><td></td>", out);
        lull_html_number_cell(out, lull_html_figure(lull_report_number(steady, "sm_mhz"), "MHz"));
        lull_html_text(out, "<td>", lull_report_text(steady, "verdict"), ": ");
        lull_html_text(out, "", lull_report_text(steady, "reason"), "</td></tr>\n");
    }
    for (size_t i = 0; i < lull_report_count(sections); i++)
        write_section(out, sections, i);
}

void lull_report_write_gpus(FILE *out, const json_t *report)
{
    static const char *const heads[] = {"GPU", "section", "length", "clock kept", "verdict", NULL};
    const json_t *const gpus = lull_report_at(report, "gpus");

    if (lull_report_count(gpus) == 0) {
        fputs("<p class=\"none\">No GPU was used by a rank that was seen.</p>\n", out);
        return;
    }
    lull_html_begin_table(out, "What was decided, a row for each kind of section", heads);
    for (size_t i = 0; i < lull_report_count(gpus) && i < LULL_REPORT_MAX_GPUS; i++)
        page_table_write_gpu(out, json_array_get(gpus, i));
    lull_html_end_table(out);
}

/* ---- energy ------------------------------------------------------------------------------ */

static void write_energy_row(FILE *out, const char *name, const json_t *part, const char *source)
{
    const double energy_j = lull_report_number(part, "energy_j");

    lull_html_text(out, "<tr><th scope=\"row\">", name, "</th>");
    lull_html_number_cell(out, lull_html_figure(energy_j * 1e-3, "kJ"));
    lull_html_number_cell(out,
                          lull_html_figure(lull_report_number(part, "uncertainty_j") * 1e-3, "kJ"));
    lull_html_cell(out, source);
    fputs("</tr>\n", out);
}

static void write_energy_gpu(FILE *out, const json_t *gpu)
{
    const char *const source = lull_report_text(gpu, "source");
    const char *const reason = lull_report_text(gpu, "reason");
    const double resets = lull_report_number(gpu, "counter_resets");
    const double estimated_s = lull_report_number(gpu, "estimated_seconds");
    const double refused = lull_report_number(gpu, "power_refused");
    char name[32];
    char text[256];

    snprintf(name, sizeof(name), "GPU %.20s",
             lull_html_figure(lull_report_number(gpu, "index"), "").text);
    snprintf(text, sizeof(text), "%s",
             source != NULL && strcmp(source, "power") == 0 ? "polled power (no counter)"
                                                            : "its energy counter");
    if (!isfinite(lull_report_number(gpu, "energy_j")))
        snprintf(text, sizeof(text), "%.120s", reason != NULL ? reason : "not known");
    if (resets > 0.0)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), ", which was reset %.0f times",
                 resets);
    if (estimated_s > 0.0)
        snprintf(text + strlen(text), sizeof(text) - strlen(text),
                 "; polled power stood in for %.0f s", estimated_s);
    if (refused > 0.0)
        snprintf(text + strlen(text), sizeof(text) - strlen(text),
                 "; power readings outside its possible range: %.0f", refused);
    write_energy_row(out, name, gpu, text);
}

void lull_report_write_energy(FILE *out, const json_t *report)
{
    static const char *const heads[] = {"of", "energy", "+- (95 %)", "from", NULL};
    const json_t *const energy = lull_report_at(report, "energy");
    const json_t *const run = lull_report_at(energy, "run");
    const json_t *const gpus = lull_report_at(run, "gpus");
    const char *const node_reason = lull_report_text(energy, "node_reason");
    const char *const basis = lull_report_text(lull_report_at(report, "cost"), "basis");

    if (run == NULL) {
        fputs("<p class=\"none\">Not known: no GPU was measured.</p>\n", out);
        return;
    }
    lull_html_begin_table(out, "Energy from the command's start to its end", heads);
    if (lull_report_at(energy, "unmanaged_run") != NULL)
        write_energy_row(out, "run without Lull", lull_report_at(energy, "unmanaged_run"),
                         "all GPUs that the job may use");
    write_energy_row(out, "this run", run, "all GPUs that the job may use");
    for (size_t i = 0; i < lull_report_count(gpus) && i < LULL_REPORT_MAX_GPUS; i++)
        write_energy_gpu(out, json_array_get(gpus, i));
    if (lull_report_at(run, "cpu") != NULL)
        write_energy_row(out, "processors", lull_report_at(run, "cpu"), "RAPL");
    if (lull_report_at(run, "dram") != NULL)
        write_energy_row(out, "memory", lull_report_at(run, "dram"), "RAPL");
    lull_html_end_table(out);
    if (node_reason != NULL)
        lull_html_text(out, "<p class=\"note\">Excludes CPU and DRAM energy: ", node_reason,
                       ".</p>\n");
    if (basis != NULL)
        lull_html_text(out, "<p class=\"note\">kWh and costs are of ", basis, ".</p>\n");
}
