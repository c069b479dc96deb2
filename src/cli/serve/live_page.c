/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve/live_page.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "cli/report/html.h"
#include "cli/report/document.h"
#include "cli/report/page_parts.h"
#include "cli/serve/files.h"
#include "cli/serve/live_parts.h"

static const char style[] =
    "body{max-width:76rem}.top{display:flex;flex-wrap:wrap;gap:.2rem 1rem;align-items:baseline;"
    "justify-content:space-between}.top h1{margin:.3rem 0 .6rem}.top p{margin:0;color:var(--soft);"
    "font-size:.9rem}button{font:inherit;color:var(--ink);background:var(--card);border:1px solid "
    "var(--rule);border-radius:.4rem;padding:.15rem .7rem}\n"
    "table.gpus td{vertical-align:middle}svg.bar{width:9rem;height:1.3rem}svg.spark{width:9rem;"
    "height:1.9rem}.track{fill:var(--grid)}.now{fill:var(--blue)}.lease{fill:var(--band)}"
    ".lock{stroke:var(--star);stroke-width:2}.spark path{stroke:var(--power);stroke-width:1.6;"
    "fill:none;vector-effect:non-scaling-stroke}td small,th small{color:var(--soft);"
    "display:block;line-height:1.35;font-weight:400}.whole,thead "
    "th{white-space:nowrap}.trouble{color:var(--"
    "bad);font-weight:600}.well{color:"
    "var(--good)}nav a{margin-right:1rem}\n"
    "@media (max-width:30rem){svg.bar,svg.spark{width:6.5rem}.tiles{grid-template-columns:1fr 1fr}"
    "td{min-width:4.5rem}.sentence{min-width:15rem}th code{display:inline-block;"
    "min-width:8rem}.tile{padding:.5rem .6rem}.tile dd.big{font-size:1.15rem}}\n";

void lull_serve_page_write_head(FILE *out, const char *hostname)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
          "<noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>\n",
          out);
    lull_html_text(out, "<title>Lull on ", hostname, "</title>\n<style>\n");
    fprintf(out, "%s%s</style></head>\n<body><header class=\"top\">", lull_report_page_style,
            style);
    lull_html_text(out, "<h1>Lull on ", hostname, "</h1>\n");
    fputs("<p><span id=\"state\" role=\"status\">as of when this page was loaded</span> "
          "<button id=\"pause\" type=\"button\" hidden>Pause</button></p></header>\n<main>\n",
          out);
}

void lull_serve_page_write_foot(FILE *out, const char *nonce)
{
    fputs("</main>\n<footer><nav aria-label=\"Other forms of the same\">"
          "<a href=\"/metrics\">metrics for Prometheus</a>"
          "<a href=\"/api/v1/node\">this node as JSON</a>"
          "<a href=\"/api/v1/runs\">its runs as JSON</a>"
          "<a href=\"/api/v1/openapi.json\">the API</a></nav></footer>\n",
          out);
    fprintf(out, "<script nonce=\"%s\">\n%s</script></body></html>\n", nonce, lull_serve_page_js);
}

/* ---- tiles ------------------------------------------------------------------------------- */

static void write_power_tile(FILE *out, const json_t *document)
{
    const double power_w = lull_report_number(document, "power_w");
    const size_t count = lull_report_count(lull_report_at(document, "gpus"));
    const double known = lull_report_number(document, "power_gpus");
    char more[96];

    snprintf(more, sizeof(more), "%.0f of %zu GPU%s report%s it", known, count,
             count == 1 ? "" : "s", count == 1 ? "s" : "");
    if (known == (double)count)
        snprintf(more, sizeof(more), "%zu GPU%s together", count, count == 1 ? "" : "s");
    lull_serve_write_tile(out, "power", "Power of the GPUs",
                          isfinite(power_w) ? lull_amount_power(power_w).text : NULL, more);
}

static void write_leases_tile(FILE *out, const json_t *document)
{
    size_t leased = 0;
    size_t locked = 0;
    size_t known = 0;
    size_t index;
    json_t *gpu;
    char text[64];
    char more[64];

    json_array_foreach(lull_report_at(document, "gpus"), index, gpu)
    {
        const json_t *const daemon = lull_report_at(gpu, "daemon");

        known += daemon != NULL;
        leased += lull_report_at(daemon, "lease") != NULL;
        locked += lull_report_at(daemon, "applied_sm_mhz") != NULL;
    }
    snprintf(text, sizeof(text), "%zu of %zu", leased, known);
    snprintf(more, sizeof(more), "%zu with a lowered clock now", locked);
    lull_serve_write_tile(out, "leases", "GPUs leased", known > 0 ? text : NULL,
                          known > 0 ? more : lull_report_text(document, "daemon_reason"));
}

static void write_daemon_tile(FILE *out, const json_t *document)
{
    const char *const reason = lull_report_text(document, "daemon_reason");
    const char *const driver = lull_report_text(document, "driver_version");
    const char *const vendor = lull_report_text(document, "vendor");
    char more[96] = "no driver is open";

    if (vendor != NULL)
        snprintf(more, sizeof(more), "%s driver %s", vendor, driver != NULL ? driver : "not known");
    lull_serve_write_tile(out, "daemon", "lulld",
                          lull_report_is(document, "daemon_up") ? "answers" : "does not answer",
                          reason != NULL ? reason : more);
}

/* ---- runs -------------------------------------------------------------------------------- */

static void live_page_write_run(FILE *out, const json_t *run)
{
    const time_t when = (time_t)lull_report_number(run, "time_s");
    struct tm parts;
    char text[48] = "";

    if (localtime_r(&when, &parts) != NULL)
        strftime(text, sizeof(text), "%d %b %Y %H:%M", &parts);
    lull_html_text(out, "<tr><th class=\"whole\" scope=\"row\"><a href=\"",
                   lull_report_text(run, "address"), "\">");
    lull_html_text(out, "", lull_report_text(run, "name"), "</a></th>");
    lull_html_text(out, "<td class=\"whole\">", text, "</td>");
    lull_html_text(out, "<td class=\"sentence\">", lull_report_text(run, "sentence"), "</td>");
    lull_html_number_cell(out, lull_html_saved(lull_report_number(run, "saving_ratio"),
                                               lull_report_number(run, "saving_low_ratio"),
                                               lull_report_number(run, "saving_high_ratio")));
    lull_html_number_cell(out, lull_html_slower(lull_report_number(run, "slowdown_ratio"),
                                                lull_report_number(run, "slowdown_upper_ratio"),
                                                lull_report_number(run, "slowdown_allowed_ratio")));
    lull_html_number_cell(out, lull_html_figure(lull_report_number(run, "energy_kwh"), "kWh"));
    fputs("</tr>\n", out);
}

static void write_runs(FILE *out, const json_t *runs)
{
    static const char *const heads[] = {"run",    "ended",  "result", "saved",
                                        "slower", "energy", NULL};
    size_t index;
    json_t *run;

    fputs("<section><h2>Last runs</h2>\n", out);
    if (json_array_size(runs) == 0) {
        fputs("<p class=\"none\">No report of a run is in the folder that <code>lull serve "
              "--runs</code> names.</p></section>\n",
              out);
        return;
    }
    lull_html_begin_table(out, "The last runs of this node, the newest first", heads);
    json_array_foreach((json_t *)runs, index, run) live_page_write_run(out, run);
    lull_html_end_table(out);
    fputs("</section>\n", out);
}

/* ---- the whole --------------------------------------------------------------------------- */

/* Writes what the number of rows depends on: with the same shape, only cells differ. */
static void write_shape(FILE *out, const json_t *document, const json_t *runs)
{
    const char *const last = lull_report_text(json_array_get(runs, 0), "name");
    size_t index;
    json_t *job;

    fprintf(out, "<div id=\"live\" data-shape=\"%zu gpus, %zu runs",
            lull_report_count(lull_report_at(document, "gpus")), json_array_size(runs));
    lull_html_text(out, ", last ", last != NULL ? last : "none", "");
    json_array_foreach(lull_report_at(document, "jobs"), index, job)
        lull_html_text(out, ", job ", lull_report_text(job, "name"), "");
    fputs("\">\n", out);
}

void lull_serve_page_write_live(FILE *out, const json_t *document, const json_t *runs,
                                const struct lull_serve_history *history)
{
    write_shape(out, document, runs);
    fputs("<div class=\"tiles\">\n", out);
    write_power_tile(out, document);
    write_leases_tile(out, document);
    lull_serve_write_saving_tile(out, document);
    write_daemon_tile(out, document);
    fputs("</div>\n", out);
    lull_serve_write_servers(out, document, history);
    lull_serve_write_jobs(out, document);
    lull_serve_write_gpus(out, document, history);
    write_runs(out, runs);
    fputs("</div>\n", out);
}
