/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/page.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "cli/report/html.h"
#include "cli/report/page_parts.h"
#include "cli/report/pictures.h"
#include "core/energy/gain.h"

/* ---- a run's head ------------------------------------------------------------------------ */

static void page_write_command(FILE *out, const json_t *report)
{
    const json_t *const words = lull_report_at(report, "command");

    for (size_t i = 0; i < lull_report_count(words); i++)
        lull_html_text(out, i == 0 ? "" : " ", json_string_value(json_array_get(words, i)), "");
}

/* "4 x NVIDIA A100-SXM4-40GB": GPUs of one name; the first of them where names differ. */
static void write_machine(FILE *out, const json_t *report)
{
    const json_t *const gpus = lull_report_at(report, "gpus");
    const char *const name = lull_report_text(json_array_get(gpus, 0), "name");

    fprintf(out, "%zu GPU%s used", lull_report_count(gpus),
            lull_report_count(gpus) == 1 ? "" : "s");
    if (name != NULL)
        lull_html_text(out, " (", name, ")");
}

static void write_missing_right(FILE *out, const json_t *right)
{
    const char *const sentence = lull_report_text(right, "sentence");
    const char *const assumed = lull_report_text(right, "assumed");

    if (sentence != NULL)
        lull_html_text(out, "<p>", sentence, assumed != NULL ? ".\n" : "</p>\n");
    if (sentence != NULL && assumed != NULL)
        lull_html_text(out, "Assumed: ", assumed, "</p>\n");
}

static void page_write_head(FILE *out, const struct lull_report_document *document)
{
    const json_t *const report = document->root;
    const double wall_s = lull_report_number(report, "managed_wall_s");

    lull_html_text(out, "<h1>Run ", document->name, "</h1>\n<p class=\"kind\"><code>");
    page_write_command(out, report);
    fputs("</code><br>\n", out);
    write_machine(out, report);
    if (isfinite(wall_s))
        lull_html_text(out, ", ", lull_amount_time(wall_s).text, "");
    lull_html_text(out, ", exit status of the job ",
                   lull_html_figure(lull_report_number(report, "status"), "").text, "</p>\n");
    write_missing_right(out, lull_report_at(report, "missing_right"));
}

/* ---- the three lines at the end of a run ------------------------------------------------- */

/* A figure of the head, and how it is marked: "good", "bad" or "". */
struct headline {
    struct lull_amount figure;
    const char *mark;
};

static struct headline headline_of(const char *mark, const char *text)
{
    struct headline headline = {.mark = mark};

    snprintf(headline.figure.text, sizeof(headline.figure.text), "%s", text);
    return headline;
}

/* "11.4 % saved" */
static struct headline headline_of_ratio(const char *mark, double ratio, const char *word)
{
    struct headline headline = {.mark = mark};

    snprintf(headline.figure.text, sizeof(headline.figure.text), "%.30s %s",
             lull_html_percent(ratio).text, word);
    return headline;
}

static enum lull_gain_slowdown judge_time(const json_t *verdict)
{
    return lull_gain_judge_slowdown(lull_report_number(verdict, "slowdown_ratio"),
                                    lull_report_number(verdict, "slowdown_upper_ratio"),
                                    lull_report_number(verdict, "slowdown_allowed_ratio"));
}

static struct headline find_energy(const json_t *verdict)
{
    const double saving = lull_report_number(verdict, "saving_ratio");
    const double low = lull_report_number(verdict, "saving_low_ratio");
    const double high = lull_report_number(verdict, "saving_high_ratio");
    const enum lull_gain_slowdown time = judge_time(verdict);
    /* Green stands for a proof of both. */
    const char *const mark = time == LULL_GAIN_SLOWDOWN_WITHIN ? "good" : "";

    if (!lull_report_is(verdict, "lowered"))
        return headline_of("", "nothing saved");
    switch (lull_gain_judge_saving(saving, low, high)) {
    case LULL_GAIN_SAVING_PROVEN:
    case LULL_GAIN_SAVING_ESTIMATED:
        return headline_of_ratio(mark, saving, time == LULL_GAIN_SLOWDOWN_ABOVE ? "less" : "saved");
    case LULL_GAIN_SAVING_NEGATIVE:
        return headline_of("bad", lull_html_saved(saving, low, high).text);
    case LULL_GAIN_SAVING_UNPROVEN:
        return headline_of("", "saving not proven");
    default:
        return headline_of("", "not known");
    }
}

/* Green stands for a proof. */
static struct headline find_latency(const json_t *report)
{
    const double missed = lull_report_number(lull_report_at(report, "serving"), "missed_ratio");

    if (!isfinite(missed))
        return headline_of("", "not known");
    return headline_of_ratio(lull_report_keeps_objective(report) ? "good" : "", missed, "missed");
}

static struct headline find_time(const json_t *verdict, const char *line)
{
    static const char not_slower[] = "not slower";
    const double slowdown = lull_report_number(verdict, "slowdown_ratio");

    if (line != NULL && strncmp(line, not_slower, strlen(not_slower)) == 0)
        return headline_of("good", not_slower);
    if (!lull_report_is(verdict, "lowered"))
        return headline_of("", "highest clocks kept");
    switch (judge_time(verdict)) {
    case LULL_GAIN_SLOWDOWN_ABOVE:
        return headline_of_ratio("bad", slowdown, "slower");
    case LULL_GAIN_SLOWDOWN_WITHIN:
        return headline_of_ratio("good", slowdown, "slower");
    case LULL_GAIN_SLOWDOWN_UNBOUNDED:
        return headline_of_ratio("", fmax(slowdown, 0.0), "slower");
    case LULL_GAIN_SLOWDOWN_UNPROVEN:
        return headline_of("", "bound not proven");
    default:
        return headline_of("", "not known");
    }
}

static void write_answer(FILE *out, const char *name, const struct headline *headline,
                         const char *line)
{
    lull_html_text(out, "<dl class=\"answer\"><dt>", name, "</dt>");
    if (headline != NULL) {
        fprintf(out, "<dd class=\"big %s\">", headline->mark);
        lull_html_text(out, "", headline->figure.text, "</dd>");
    }
    lull_html_text(out, headline != NULL ? "<dd>" : "<dd class=\"step\">", line, "</dd></dl>\n");
}

/* Writes the lines that the terminal has at the end of the run, and the sentence with the clocks.
 */
static void write_answers(FILE *out, const json_t *report)
{
    const json_t *const verdict = lull_report_at(report, "verdict");
    const char *const sentence = lull_report_text(verdict, "sentence");
    const char *const lowered = lull_report_text(verdict, "lowered_line");
    const char *const basis = lull_report_text(verdict, "basis");
    const char *const energy = lull_report_text(verdict, "energy_line");
    const char *const time = lull_report_text(verdict, "time_line");
    const struct headline energy_headline = find_energy(verdict);
    const bool is_server = lull_report_has_serving(report);
    const struct headline time_headline =
        is_server ? find_latency(report) : find_time(verdict, time);

    if (sentence == NULL) {
        fputs("<p>The report of this run has no verdict: it was written by an older lull</p>\n",
              out);
        return;
    }
    if (energy == NULL) {
        lull_html_text(out, "<p>", sentence, "</p>\n");
    } else {
        fputs("<div class=\"answers\">\n", out);
        write_answer(out, "Energy", &energy_headline, energy);
        write_answer(out, is_server ? "Latency" : "Time", &time_headline, time);
        write_answer(out, "Next", NULL, lull_report_text(verdict, "next_line"));
        fputs("</div>\n", out);
    }
    if (lowered != NULL)
        lull_html_text(out, "<p>Lowered: ", lowered, ".</p>\n");
    if (basis != NULL)
        lull_html_text(out, "<p class=\"note\">Source of the saving: ", basis, ".</p>\n");
}

static void write_tile(FILE *out, const char *name, const char *figure, const char *small)
{
    lull_html_text(out, "<dl class=\"tile\"><dt>", name, "</dt>");
    lull_html_text(out, "<dd class=\"big\">", figure, "</dd>");
    if (small != NULL)
        lull_html_text(out, "<dd class=\"small\">", small, "</dd>");
    fputs("</dl>\n", out);
}

static void write_cost_tile(FILE *out, const json_t *report)
{
    const json_t *const cost = lull_report_at(report, "cost");
    const char *const currency = lull_report_text(cost, "currency");
    const double money = lull_report_number(cost, "money");
    const double co2_g = lull_report_number(cost, "co2_g");
    const double kwh = lull_report_number(cost, "energy_kwh");
    char price[96] = "";

    if (isfinite(money))
        snprintf(price, sizeof(price), "%s",
                 lull_html_figure(money, currency != NULL ? currency : "").text);
    if (isfinite(co2_g))
        snprintf(price + strlen(price), sizeof(price) - strlen(price), "%s%.4g g of CO2",
                 price[0] != '\0' ? ", " : "", co2_g);
    if (isfinite(kwh))
        write_tile(out, "Energy of the GPUs, whole run", lull_html_figure(kwh, "kWh").text,
                   price[0] != '\0' ? price
                                    : "use --price-per-kwh and --co2-g-per-kwh to see the cost");
    else
        write_tile(out, "Energy of the GPUs, whole run", NULL, lull_report_text(cost, "reason"));
}

static void write_settled_tile(FILE *out, const json_t *report)
{
    const double after = lull_report_number(report, "settled_after_iterations");
    const double managed = lull_report_number(lull_report_at(report, "managed"), "iterations");
    char text[96] = "the run ended during the clock search";

    if (isfinite(after))
        snprintf(text, sizeof(text), "%.0f iterations ran with the last result",
                 isfinite(managed) ? managed : 0.0);
    write_tile(out, "Settled first after",
               isfinite(after) ? lull_html_figure(after, "iterations").text : "not yet", text);
}

static void write_token_tile(FILE *out, const json_t *report)
{
    const json_t *const serving = lull_report_at(report, "serving");
    const double token_j = lull_report_number(serving, "j_per_output_token");

    write_tile(out, "Energy per output token",
               isfinite(token_j) ? lull_html_figure(token_j, "J").text : NULL,
               isfinite(token_j) ? "all GPUs of the server, idle time included"
                                 : lull_report_text(serving, "j_per_output_token_reason"));
}

/* ---- a run ------------------------------------------------------------------------------- */

static void page_write_run(FILE *out, const struct lull_report_document *document, size_t index)
{
    const json_t *const report = document->root;
    static const struct {
        const char *title;
        void (*write)(FILE *out, const json_t *report);
        enum { OF_ALL, OF_JOBS, OF_SERVERS } kind;
    } parts[] = {
        {"Server", lull_report_write_serving, OF_SERVERS},
        {"Energy and time", lull_report_write_iterations, OF_JOBS},
        {"Savings at other tolerances", lull_report_draw_frontier, OF_JOBS},
        {"Savings of each lever", lull_report_write_levers, OF_JOBS},
        {"The last iterations", lull_report_draw_timeline, OF_JOBS},
        {"Energy of each GPU over its clock", lull_report_draw_valleys, OF_JOBS},
        {"GPUs and sections", lull_report_write_gpus, OF_ALL},
        {"Energy of the whole run", lull_report_write_energy, OF_ALL},
        {"What was not done, and the reason", lull_report_write_undone, OF_ALL},
        {"Source of each figure", lull_report_write_validity, OF_ALL},
    };
    const bool is_server = lull_report_has_serving(report);

    fprintf(out, "<section class=\"run\" id=\"run-%zu\">\n", index + 1);
    page_write_head(out, document);
    write_answers(out, report);
    fputs("<div class=\"tiles\">\n", out);
    write_cost_tile(out, report);
    (is_server ? write_token_tile : write_settled_tile)(out, report);
    fputs("</div>\n", out);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (parts[i].kind == (is_server ? OF_JOBS : OF_SERVERS))
            continue;
        lull_html_text(out, "<section class=\"part\"><h2>", parts[i].title, "</h2>\n");
        parts[i].write(out, report);
        fputs("</section>\n", out);
    }
    fputs("</section>\n", out);
}

/* ---- several runs ------------------------------------------------------------------------ */

static struct lull_amount page_saving(const json_t *report)
{
    const json_t *const verdict = lull_report_at(report, "verdict");

    return lull_html_saved(lull_report_number(verdict, "saving_ratio"),
                           lull_report_number(verdict, "saving_low_ratio"),
                           lull_report_number(verdict, "saving_high_ratio"));
}

static struct lull_amount saved_range(const json_t *report)
{
    const json_t *const verdict = lull_report_at(report, "verdict");

    return lull_html_range(lull_report_number(verdict, "saving_low_ratio"),
                           lull_report_number(verdict, "saving_high_ratio"));
}

static struct lull_amount page_slowdown(const json_t *report)
{
    const json_t *const verdict = lull_report_at(report, "verdict");

    return lull_html_slower(lull_report_number(verdict, "slowdown_ratio"),
                            lull_report_number(verdict, "slowdown_upper_ratio"),
                            lull_report_number(verdict, "slowdown_allowed_ratio"));
}

static struct lull_amount slower_bound(const json_t *report)
{
    return lull_html_percent(
        lull_report_number(lull_report_at(report, "verdict"), "slowdown_upper_ratio"));
}

static struct lull_amount page_iteration_ms(const json_t *report)
{
    return lull_html_figure(lull_report_number(lull_report_at(report, "managed"), "iteration_ms"),
                            "ms");
}

static struct lull_amount iteration_j(const json_t *report)
{
    return lull_html_figure(
        lull_report_number(lull_report_at(report, "managed"), "energy_per_iteration_j"), "J");
}

static struct lull_amount page_energy_kwh(const json_t *report)
{
    return lull_html_figure(lull_report_number(lull_report_at(report, "cost"), "energy_kwh"),
                            "kWh");
}

/* The steady clock, from the lowest to the highest of the run's GPUs. */
static struct lull_amount steady_mhz(const json_t *report)
{
    const json_t *const gpus = lull_report_at(report, "gpus");
    struct lull_amount amount;
    double low = INFINITY;
    double high = -INFINITY;

    for (size_t i = 0; i < lull_report_count(gpus); i++) {
        const double mhz =
            lull_report_number(lull_report_at(json_array_get(gpus, i), "steady"), "sm_mhz");

        if (!isfinite(mhz))
            continue;
        low = fmin(low, mhz);
        high = fmax(high, mhz);
    }
    if (!(low < high))
        return lull_html_figure(low, "MHz");
    snprintf(amount.text, sizeof(amount.text), "%.0f to %.0f MHz", low, high);
    return amount;
}

static void write_comparison(FILE *out, const struct lull_report_page *page)
{
    static const char *const heads[] = {
        "run",          "saved",        "95 % interval", "slower",    "at most",
        "steady clock", "an iteration", "energy of it",  "whole run", NULL};
    static struct lull_amount (*const figures[])(const json_t *report) = {
        page_saving, saved_range,       page_slowdown, slower_bound,
        steady_mhz,  page_iteration_ms, iteration_j,   page_energy_kwh};

    lull_html_begin_table(out, "Runs side by side", heads);
    for (size_t i = 0; i < page->count; i++) {
        fprintf(out, "<tr><th scope=\"row\"><a href=\"#run-%zu\">", i + 1);
        lull_html_text(out, "", page->documents[i].name, "</a></th>");
        for (size_t f = 0; f < sizeof(figures) / sizeof(figures[0]); f++)
            lull_html_number_cell(out, figures[f](page->documents[i].root));
        fputs("</tr>\n", out);
    }
    lull_html_end_table(out);
}

int lull_report_page_write(const void *context, FILE *out)
{
    const struct lull_report_page *const page = context;

    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
          "'unsafe-inline'\">\n"
          "<title>Lull: ",
          out);
    lull_html_text(out, "", page->count == 1 ? page->documents[0].name : "several runs",
                   "</title>\n<style>\n");
    fprintf(out, "%s</style></head>\n<body><main>\n", lull_report_page_style);
    if (page->count > 1) {
        fprintf(out, "<h1>%zu runs side by side</h1>\n", page->count);
        write_comparison(out, page);
        lull_report_draw_frontiers(out, page->documents, page->count);
    }
    for (size_t i = 0; i < page->count; i++)
        page_write_run(out, &page->documents[i], i);
    fputs("</main></body></html>\n", out);
    return 0;
}

int lull_report_page_add(const char *folder, struct lull_error *err)
{
    struct lull_report_document document;
    struct lull_report_page page = {&document, 1};
    char path[PATH_MAX];
    int result = lull_report_document_open(folder, &document, err);

    if (result < 0)
        return result;
    snprintf(path, sizeof(path), "%s/report.html", folder);
    result = lull_file_write_with(path, lull_report_page_write, &page, err);
    lull_report_document_close(&document);
    return result;
}
