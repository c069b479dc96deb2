/* The part of a run's page about the server that was managed. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/report/document.h"
#include "cli/report/html.h"
#include "cli/report/page_parts.h"

bool lull_report_has_serving(const json_t *report)
{
    return lull_report_at(report, "serving") != NULL;
}

bool lull_report_keeps_objective(const json_t *report)
{
    const json_t *const serving = lull_report_at(report, "serving");
    const double share = lull_report_number(lull_report_at(serving, "objective"), "share_ratio");

    return lull_report_number(serving, "missed_bound_ratio") < (1.0 - share) / 2.0;
}

/* ---- requests and latencies -------------------------------------------------------------- */

static void write_latency(FILE *out, const json_t *serving, const char *name, const char *key)
{
    const json_t *const latency = lull_report_at(serving, key);
    const double bound_ms = lull_report_number(lull_report_at(serving, "objective"), key);

    lull_html_text(out, "<tr><th scope=\"row\">", name, "</th>");
    lull_html_number_cell(out, lull_html_figure(lull_report_number(latency, "p50"), "ms"));
    lull_html_number_cell(out, lull_html_figure(lull_report_number(latency, "p99"), "ms"));
    lull_html_number_cell(out, lull_html_figure(lull_report_number(latency, "predicted"), "ms"));
    lull_html_cell(out, isfinite(bound_ms) ? lull_html_figure(bound_ms, "ms").text : "none");
    fputs("</tr>\n", out);
}

static void write_latencies(FILE *out, const json_t *serving)
{
    static const char *const heads[] = {"latency",        "median", "99 %",
                                        "predicted 99 %", "bound",  NULL};

    lull_html_begin_table(out, "Latencies of the requests of the whole run", heads);
    write_latency(out, serving, "time to first token", "ttft_ms");
    write_latency(out, serving, "time per output token", "tpot_ms");
    lull_html_end_table(out);
}

static struct lull_amount format_count(double count)
{
    if (!(count >= 0.0 && count < 1e15))
        return lull_html_figure((double)NAN, "");
    return lull_amount_count((uint64_t)count);
}

static struct lull_amount format_joules(double joules)
{
    return isfinite(joules) && fabs(joules) >= 1000.0 ? lull_amount_energy(joules)
                                                      : lull_html_figure(joules, "J");
}

static struct lull_amount format_time(double seconds)
{
    return isfinite(seconds) ? lull_amount_time(seconds) : lull_html_figure(seconds, "s");
}

/* A row of a name and a figure or, where that is not known, the reason. */
static void write_figure(FILE *out, const char *name, double value, struct lull_amount figure,
                         const char *reason)
{
    lull_html_text(out, "<tr><th scope=\"row\">", name, "</th>");
    if (isfinite(value) || reason == NULL)
        lull_html_number_cell(out, figure);
    else
        lull_html_text(out, "<td><em>", reason, "</em></td>");
    fputs("</tr>\n", out);
}

static void write_figures(FILE *out, const json_t *serving)
{
    static const char *const heads[] = {"figure", "value", NULL};
    static const struct {
        const char *name;
        const char *key;
        struct lull_amount (*format)(double value);
        const char *reason; /* NULL: it has none of its own */
    } rows[] = {
        {"requests that finished", "requests", format_count, NULL},
        {"requests that were judged", "judged_requests", format_count, NULL},
        {"steps that were judged in their place", "judged_steps", format_count, NULL},
        {"missed the objective", "missed_ratio", lull_html_percent, NULL},
        {"added by lowered clocks, upper 95 % bound", "missed_bound_ratio", lull_html_percent,
         NULL},
        {"prompt tokens", "prompt_tokens", format_count, NULL},
        {"output tokens", "output_tokens", format_count, NULL},
        {"energy per output token", "j_per_output_token", format_joules,
         "j_per_output_token_reason"},
        {"energy per request", "j_per_request", format_joules, "j_per_request_reason"},
        {"parked, mean over the GPUs", "parked_s", format_time, NULL},
        {"saved (estimate)", "saved_j", format_joules, "saved_reason"},
    };

    lull_html_begin_table(out, "Requests and energy of all GPUs of the server, idle time included",
                          heads);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const double value = lull_report_number(serving, rows[i].key);

        write_figure(out, rows[i].name, value, rows[i].format(value),
                     rows[i].reason != NULL ? lull_report_text(serving, rows[i].reason) : NULL);
    }
    lull_html_end_table(out);
}

/* ---- modes and GPUs ---------------------------------------------------------------------- */

static void write_modes(FILE *out, const json_t *serving)
{
    static const char *const heads[] = {"mode", "time", "of the run", NULL};
    const json_t *const modes = lull_report_at(serving, "modes_s");
    double whole_s = 0.0;
    const char *mode;
    json_t *value;

    json_object_foreach((json_t *)modes, mode, value) whole_s +=
        fmax(lull_report_number(modes, mode), 0.0);
    if (!(whole_s > 0.0))
        return;
    lull_html_begin_table(out, "How the clocks were chosen", heads);
    json_object_foreach((json_t *)modes, mode, value)
    {
        const double seconds = lull_report_number(modes, mode);

        if (!(seconds > 0.0))
            continue;
        lull_html_text(out, "<tr><th scope=\"row\">", mode, "</th>");
        lull_html_number_cell(out, lull_amount_time(seconds));
        lull_html_number_cell(out, lull_html_percent(seconds / whole_s));
        fputs("</tr>\n", out);
    }
    lull_html_end_table(out);
}

static void write_parked(FILE *out, const json_t *serving)
{
    static const char *const heads[] = {"GPU",    "parked at", "times parked",
                                        "in all", "saved",     "delay of the first work at most",
                                        NULL};
    const json_t *const gpus = lull_report_at(serving, "gpus");

    if (lull_report_count(gpus) == 0 || !(lull_report_number(serving, "parks") > 0.0))
        return;
    lull_html_begin_table(out, "Parked GPUs", heads);
    for (size_t i = 0; i < lull_report_count(gpus) && i < LULL_REPORT_MAX_GPUS; i++) {
        const json_t *const gpu = json_array_get(gpus, i);

        lull_html_text(out, "<tr><th scope=\"row\">",
                       lull_html_figure(lull_report_number(gpu, "index"), "").text, "</th>");
        lull_html_number_cell(out, lull_html_figure(lull_report_number(gpu, "park_mhz"), "MHz"));
        lull_html_number_cell(out, lull_html_figure(lull_report_number(gpu, "parks"), ""));
        lull_html_number_cell(out, format_time(lull_report_number(gpu, "parked_s")));
        lull_html_number_cell(out, format_joules(lull_report_number(gpu, "saved_j")));
        lull_html_number_cell(out,
                              lull_html_figure(lull_report_number(gpu, "first_work_ms"), "ms"));
        fputs("</tr>\n", out);
    }
    lull_html_end_table(out);
}

void lull_report_write_serving(FILE *out, const json_t *report)
{
    const json_t *const serving = lull_report_at(report, "serving");
    const char *const engine = lull_report_text(serving, "engine");
    const char *const metrics = lull_report_text(serving, "metrics");
    const char *const reason = lull_report_text(serving, "reason");

    lull_html_text(out, "<p>", engine != NULL ? engine : "Server", "");
    if (metrics != NULL)
        lull_html_text(out, ", metrics from ", metrics, "");
    if (reason != NULL)
        lull_html_text(out, "; at the end: ", reason, "");
    fputs("</p>\n", out);
    write_figures(out, serving);
    write_latencies(out, serving);
    write_modes(out, serving);
    write_parked(out, serving);
}
