/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve/live_parts.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "cli/report/document.h"
#include "cli/report/html.h"
#include "wire/live.h"

/* Returns whether a figure of a run is not known because nothing is lowered yet. */
static bool is_nothing_yet(const json_t *job, const char *key)
{
    const char *const reason = lull_report_text(lull_report_at(job, "unknown"), key);

    return reason != NULL && strcmp(reason, lull_live_unknown_text(LULL_LIVE_NOTHING_LOW)) == 0;
}

/* ---- what all runs save ------------------------------------------------------------------ */

/* Weighs each run's saving by its power; one that has lowered nothing saves nothing. NAN: not all
 * runs know theirs. */
static double find_saving(const json_t *jobs)
{
    double power_w = 0.0;
    double without_w = 0.0;
    size_t index;
    json_t *job;

    json_array_foreach((json_t *)jobs, index, job)
    {
        const bool is_nothing = is_nothing_yet(job, "saving_ratio");
        const double watts = lull_report_number(job, "power_w");
        const double saving = is_nothing ? 0.0 : lull_report_number(job, "saving_ratio");

        if (!isfinite(watts) || !isfinite(saving) || saving >= 1.0)
            return NAN;
        power_w += watts;
        without_w += watts / (1.0 - saving);
    }
    return 1.0 - power_w / without_w;
}

/* Counts the runs that have lowered nothing yet. */
static size_t count_nothing_yet(const json_t *jobs)
{
    size_t count = 0;
    size_t index;
    json_t *job;

    json_array_foreach((json_t *)jobs, index, job) count += is_nothing_yet(job, "saving_ratio");
    return count;
}

void lull_serve_write_saving_tile(FILE *out, const json_t *document)
{
    const json_t *const jobs = lull_report_at(document, "jobs");
    const size_t count = lull_report_count(jobs);
    const double saving = find_saving(jobs);
    const struct lull_amount percent = lull_html_percent(saving);
    char more[96];

    if (count == 0) {
        lull_serve_write_tile(out, "saving", "Saved now", "nothing", "no run is active");
        return;
    }
    if (count_nothing_yet(jobs) == count) {
        lull_serve_write_tile(out, "saving", "Saved now", "nothing yet",
                              lull_live_unknown_text(LULL_LIVE_NOTHING_LOW));
        return;
    }
    snprintf(more, sizeof(more), "%zu run%s active%s; the savings of some are not known yet", count,
             count == 1 ? "" : "s", count == 1 ? "es" : "");
    if (count == 1 && !isfinite(saving))
        snprintf(
            more, sizeof(more), "%.90s",
            lull_report_text(lull_report_at(json_array_get(jobs, 0), "unknown"), "saving_ratio"));
    if (isfinite(saving))
        snprintf(more, sizeof(more), "of the energy, by %zu run%s", count, count == 1 ? "" : "s");
    lull_serve_write_tile(out, "saving", "Saved now", isfinite(saving) ? percent.text : NULL, more);
}

/* ---- runs -------------------------------------------------------------------------------- */

/* Writes a cell with a figure, or why it is not known, and something small below it. */
static void live_job_write_figure(FILE *out, const json_t *job, const char *key, size_t index,
                                  const char *figure, const char *small)
{
    const bool is_known = isfinite(lull_report_number(job, key));

    fprintf(out, "<td data-live=\"%s-%zu\">", key, index);
    if (!is_known)
        figure = is_nothing_yet(job, key) ? "nothing yet" : NULL;
    lull_html_text(out, "", figure, "");
    lull_html_text(out, is_known ? "<small class=\"whole\">" : "<small>",
                   is_known ? small : lull_report_text(lull_report_at(job, "unknown"), key),
                   "</small></td>");
}

void lull_serve_write_saving(FILE *out, const json_t *job, size_t index)
{
    live_job_write_figure(out, job, "saving_ratio", index,
                          lull_html_percent(lull_report_number(job, "saving_ratio")).text,
                          "of the energy");
}

static void write_slowdown(FILE *out, const json_t *job, size_t index)
{
    char bound[128];

    snprintf(bound, sizeof(bound), "at most %s; %s allowed",
             lull_html_percent(lull_report_number(job, "slowdown_upper_ratio")).text,
             lull_html_percent(lull_report_number(job, "tolerance_ratio")).text);
    live_job_write_figure(out, job, "slowdown_ratio", index,
                          lull_html_percent(lull_report_number(job, "slowdown_ratio")).text, bound);
}

void lull_serve_write_troubles(FILE *out, const json_t *job)
{
    const char *const note = lull_report_text(job, "note");
    const char *const hang = lull_report_text(job, "hang");

    if (hang != NULL)
        lull_html_text(out, "<small class=\"trouble\">", hang, "</small>");
    if (lull_report_is(job, "paused"))
        fputs("<small class=\"trouble\">paused: full clocks</small>", out);
    if (lull_report_is(job, "lost_leases"))
        fputs("<small class=\"trouble\">its leases are lost: full clocks</small>", out);
    if (note != NULL && (hang == NULL || strcmp(note, hang) != 0))
        lull_html_text(out, "<small class=\"trouble\">", note, "</small>");
}

static void live_job_write_verdict(FILE *out, const json_t *job, size_t index)
{
    const char *const learning = lull_report_text(job, "learning");

    fprintf(out, "<td data-live=\"verdict-%zu\">", index);
    lull_html_text(out, "", lull_report_text(job, "verdict"), "");
    if (learning != NULL)
        lull_html_text(out, "<small>", learning, "</small>");
    lull_serve_write_troubles(out, job);
    fputs("</td>", out);
}

void lull_serve_write_name(FILE *out, const json_t *job, size_t index)
{
    static const struct {
        const char *key;
        const char *before;
    } rows[] = {{"title", "<small>"},
                {"slurm_job", "<small>Slurm job "},
                {"pod", "<small>pod "},
                {"pod_namespace", "<small>in "}};

    lull_html_text(out, "<tr><th scope=\"row\"><code>", lull_report_text(job, "command"),
                   "</code>");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (lull_report_text(job, rows[i].key) != NULL)
            lull_html_text(out, rows[i].before, lull_report_text(job, rows[i].key), "</small>");
    fprintf(out, "</th><td data-live=\"run-%zu\">%zu GPU%s<small class=\"whole\">", index,
            lull_report_count(lull_report_at(job, "gpus")),
            lull_report_count(lull_report_at(job, "gpus")) == 1 ? "" : "s");
    lull_html_text(out, "for ", lull_amount_time(fmax(lull_report_number(job, "run_s"), 0.0)).text,
                   "</small></td>");
}

static void live_job_write(FILE *out, const json_t *job, size_t index)
{
    char iterations[48];

    lull_serve_write_name(out, job, index);
    snprintf(iterations, sizeof(iterations), "%.0f so far", lull_report_number(job, "iterations"));
    live_job_write_figure(out, job, "iteration_ms", index,
                          lull_html_figure(lull_report_number(job, "iteration_ms"), "ms").text,
                          iterations);
    live_job_write_figure(
        out, job, "power_w", index, lull_html_figure(lull_report_number(job, "power_w"), "W").text,
        lull_html_figure(lull_report_number(job, "energy_j") * 1e-3, "kJ so far").text);
    lull_serve_write_saving(out, job, index);
    write_slowdown(out, job, index);
    live_job_write_verdict(out, job, index);
    fputs("</tr>\n", out);
}

void lull_serve_write_jobs(FILE *out, const json_t *document)
{
    static const char *const heads[] = {"command", "on",     "iteration", "power",
                                        "saved",   "slower", "guard",     NULL};
    const json_t *const jobs = lull_report_at(document, "jobs");
    size_t servers = 0;
    size_t index;
    json_t *job;

    json_array_foreach((json_t *)jobs, index, job) servers += lull_serve_is_server(job);
    if (servers > 0 && servers == lull_report_count(jobs))
        return;
    fputs("<section><h2>Active runs</h2>\n", out);
    if (lull_report_count(jobs) == 0) {
        fputs("<p class=\"none\">No job runs under <code>lull run</code> now: GPUs are at the "
              "clocks that their driver chooses.</p></section>\n",
              out);
        return;
    }
    lull_html_begin_table(out, "Reported by their governors", heads);
    json_array_foreach((json_t *)jobs, index, job) if (!lull_serve_is_server(job))
        live_job_write(out, job, index);
    lull_html_end_table(out);
    fputs("</section>\n", out);
}

/* ---- what a GPU does --------------------------------------------------------------------- */

/* Returns whether a run may speak for a GPU: where lulld has leased it, only runs of that user do.
 */
static bool is_of_owner(const json_t *job, const json_t *gpu)
{
    const double owner =
        lull_report_number(lull_report_at(lull_report_at(gpu, "daemon"), "lease"), "uid");

    return !isfinite(owner) || lull_report_number(job, "uid") == owner;
}

/* Finds what a run publishes about a GPU. NULL: no run uses it. */
static const json_t *find_work(const json_t *document, const json_t *of_node)
{
    const char *const uuid = lull_report_text(of_node, "uuid");
    size_t of_job;
    size_t index;
    json_t *job;
    json_t *gpu;

    json_array_foreach(lull_report_at(document, "jobs"), of_job, job)
    {
        if (!is_of_owner(job, of_node))
            continue;
        json_array_foreach(lull_report_at(job, "gpus"), index, gpu)
        {
            const char *const own = lull_report_text(gpu, "uuid");

            if (uuid != NULL && own != NULL && strcmp(own, uuid) == 0)
                return gpu;
        }
    }
    return NULL;
}

void lull_serve_write_work(FILE *out, const json_t *document, const json_t *gpu, size_t index)
{
    const json_t *const work = find_work(document, gpu);
    const double ranks = lull_report_number(work, "ranks");
    const char *const section = lull_report_text(work, "section");
    const char *const name = lull_report_text(work, "section_name");

    fprintf(out, "<td data-live=\"work-%zu\">", index);
    if (work == NULL) {
        fputs("no run<br></td>", out);
        return;
    }
    lull_html_text(out, "", section, "");
    if (name != NULL && section != NULL && strcmp(name, section) != 0)
        lull_html_text(out, " (", name, ")");
    lull_html_text(out, "<small>", lull_report_text(work, "state"), "");
    fprintf(out, ", %.0f rank%s</small></td>", ranks, ranks == 1.0 ? "" : "s");
}
