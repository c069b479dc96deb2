/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve/live_parts.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/amount.h"
#include "cli/report/document.h"
#include "cli/report/html.h"
#include "wire/live.h"

/* Writes what a cell has of a figure or, where it is not known, the reason; below it two small
 * lines.
 */
static void write_figure(FILE *out, const json_t *serving, const char *key, const char *figure,
                         const char *small, const char *smaller)
{
    if (!isfinite(lull_report_number(serving, key))) {
        lull_html_text(out, "", NULL, "");
        lull_html_text(out, "<small>", lull_report_text(lull_report_at(serving, "unknown"), key),
                       "</small>");
        return;
    }
    lull_html_text(out, "<span class=\"whole\">", figure, "</span>");
    lull_html_text(out, "<small class=\"whole\">", small, "</small>");
    lull_html_text(out, "<small class=\"whole\">", smaller, "</small>");
}

static void write_load(FILE *out, const json_t *serving, size_t index)
{
    char figure[64];
    char waiting[64];
    char rate[64];

    snprintf(figure, sizeof(figure), "%.0f running", lull_report_number(serving, "running"));
    snprintf(waiting, sizeof(waiting), "%s waiting",
             lull_html_figure(lull_report_number(serving, "waiting"), "").text);
    snprintf(rate, sizeof(rate), "%s",
             lull_html_figure(lull_report_number(serving, "tokens_per_s"), "tokens/s").text);
    fprintf(out, "<td data-live=\"running-%zu\">", index);
    write_figure(out, serving, "running", figure, waiting, rate);
    fputs("</td>", out);
}

/* The median of a latency, its 99 % quantile, and the objective's bound. */
static void write_latency(FILE *out, const json_t *serving, size_t index, const char *const keys[3])
{
    const double bound_ms = lull_report_number(serving, keys[2]);
    char quantile[64];
    char bound[64] = "no bound";

    snprintf(quantile, sizeof(quantile), "p99 %s",
             lull_html_figure(lull_report_number(serving, keys[1]), "ms").text);
    if (isfinite(bound_ms))
        snprintf(bound, sizeof(bound), "bound %s", lull_html_figure(bound_ms, "ms").text);
    fprintf(out, "<td data-live=\"%s-%zu\">", keys[0], index);
    write_figure(out, serving, keys[0],
                 lull_html_figure(lull_report_number(serving, keys[0]), "ms").text, quantile,
                 bound);
    fputs("</td>", out);
}

static void write_misses(FILE *out, const json_t *serving, size_t index)
{
    const double added = lull_report_number(serving, "missed_bound_ratio");
    char requests[64];
    char bound[96] = "added by Lull: not known";

    snprintf(
        requests, sizeof(requests), "of %s requests",
        lull_amount_count((uint64_t)fmax(fmin(lull_report_number(serving, "requests"), 1e15), 0.0))
            .text);
    if (isfinite(added))
        snprintf(bound, sizeof(bound), "added by Lull: at most %s", lull_html_percent(added).text);
    fprintf(out, "<td data-live=\"missed_ratio-%zu\">", index);
    write_figure(out, serving, "missed_ratio",
                 lull_html_percent(lull_report_number(serving, "missed_ratio")).text, requests,
                 bound);
    fputs("</td>", out);
}

static double find_most(const float *values)
{
    double most = 0.0;

    for (uint32_t i = 0; i < LULL_SERVE_SECONDS; i++)
        most = fmax(most, (double)values[i]);
    return most;
}

static void write_energy(FILE *out, const json_t *job, size_t index,
                         const struct lull_serve_history *history)
{
    const json_t *const serving = lull_report_at(job, "serving");
    const char *const name = lull_report_text(job, "name");
    const float *const values = name != NULL ? lull_serve_history_of(history, name) : NULL;

    fprintf(out, "<td data-live=\"j_per_output_token-%zu\">", index);
    write_figure(
        out, serving, "j_per_output_token",
        lull_html_figure(lull_report_number(serving, "j_per_output_token"), "J").text,
        lull_html_figure(lull_report_number(serving, "j_per_request"), "J per request").text,
        lull_html_figure(lull_report_number(job, "power_w"), "W").text);
    if (values != NULL && find_most(values) > 0.0)
        lull_serve_draw_minute(out, values, history->next, find_most(values));
    fputs("</td>", out);
}

static void write_mode(FILE *out, const json_t *job, size_t index)
{
    const json_t *const serving = lull_report_at(job, "serving");
    const char *const mode = lull_report_text(serving, "mode");
    const char *const reason = lull_report_text(serving, "reason");
    const double parked_s = lull_report_number(serving, "parked_now_s");
    const bool is_blind =
        mode != NULL && strcmp(mode, lull_live_mode_text(LULL_LIVE_MODE_BLIND)) == 0;

    fprintf(out, "<td data-live=\"mode-%zu\"><span class=\"%s\">", index,
            is_blind ? "trouble" : "");
    lull_html_text(out, "", mode, "</span>");
    if (isfinite(parked_s))
        lull_html_text(out, " for ", lull_amount_time(fmax(parked_s, 0.0)).text, "");
    lull_html_text(out, "<small class=\"whole\">",
                   lull_html_figure(lull_report_number(serving, "clock_mhz"), "MHz").text,
                   "</small>");
    if (reason != NULL)
        lull_html_text(out, "<small>", reason, "</small>");
    lull_serve_write_troubles(out, job);
    fputs("</td>", out);
}

static void write_server(FILE *out, const json_t *job, size_t index,
                         const struct lull_serve_history *history)
{
    static const char *const ttft[] = {"ttft_p50_ms", "ttft_p99_ms", "ttft_bound_ms"};
    static const char *const tpot[] = {"tpot_p50_ms", "tpot_p99_ms", "tpot_bound_ms"};
    const json_t *const serving = lull_report_at(job, "serving");

    lull_serve_write_name(out, job, index);
    write_mode(out, job, index);
    write_load(out, serving, index);
    write_latency(out, serving, index, ttft);
    write_latency(out, serving, index, tpot);
    write_misses(out, serving, index);
    write_energy(out, job, index, history);
    lull_serve_write_saving(out, job, index);
    fputs("</tr>\n", out);
}

bool lull_serve_is_server(const json_t *job)
{
    return lull_report_at(job, "serving") != NULL;
}

void lull_serve_write_servers(FILE *out, const json_t *document,
                              const struct lull_serve_history *history)
{
    static const char *const heads[] = {"server",      "on",        "clocks", "requests",
                                        "first token", "per token", "missed", "energy per token",
                                        "saved",       NULL};
    const json_t *const jobs = lull_report_at(document, "jobs");
    bool has_begun = false;
    size_t index;
    json_t *job;

    json_array_foreach((json_t *)jobs, index, job)
    {
        if (!lull_serve_is_server(job))
            continue;
        if (!has_begun) {
            fputs("<section><h2>Servers</h2>\n", out);
            lull_html_begin_table(out,
                                  "Latencies are medians of the last minute; the curve is the "
                                  "energy per output token",
                                  heads);
        }
        has_begun = true;
        write_server(out, job, index, history);
    }
    if (!has_begun)
        return;
    lull_html_end_table(out);
    fputs("</section>\n", out);
}
