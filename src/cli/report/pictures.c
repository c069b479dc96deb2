/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/pictures.h"

#include <math.h>
#include <string.h>

#include "cli/report/html.h"

/* Intervals that are wider than this stretch no axis; they are drawn as far as the picture goes. */
static const double widest_ratio = 0.3;

enum { WIDTH = 460, HEIGHT = 300, TEXT_BYTES = 320 };

static void add_interval(struct lull_html_axis *axis, double low, double high)
{
    if (!(high - low < widest_ratio))
        return;
    lull_html_axis_add(axis, low);
    lull_html_axis_add(axis, high);
}

/* Writes why there is no picture. */
static void page_picture_write_none(FILE *out, const char *reason)
{
    lull_html_text(out, "<p class=\"none\">Not known: ", reason, ".</p>\n");
}

/* ---- frontier ---------------------------------------------------------------------------- */

static struct lull_html_chart begin_frontier(void)
{
    struct lull_html_chart chart = {.width = WIDTH, .height = HEIGHT};

    lull_html_axis_begin(&chart.x, "slower", true);
    lull_html_axis_begin(&chart.y, "energy saved", true);
    lull_html_axis_add(&chart.x, 0.0);
    lull_html_axis_add(&chart.y, 0.0);
    return chart;
}

/* Adds what a run's frontier needs to the axes; returns whether it has a point at all. */
static bool fit_frontier(struct lull_html_chart *chart, const json_t *report)
{
    const json_t *const points = lull_report_at(report, "frontier");
    const json_t *const tried = lull_report_at(report, "tried");
    const json_t *const verdict = lull_report_at(report, "verdict");
    bool is_any = false;

    for (size_t i = 0; i < lull_report_count(points); i++) {
        const json_t *const point = json_array_get(points, i);

        if (!isfinite(lull_report_number(point, "saving_ratio")))
            continue;
        is_any = true;
        lull_html_axis_add(&chart->x, lull_report_number(point, "slowdown_ratio"));
        lull_html_axis_add(&chart->y, lull_report_number(point, "saving_ratio"));
        add_interval(&chart->y, lull_report_number(point, "low_ratio"),
                     lull_report_number(point, "high_ratio"));
    }
    for (size_t i = 0; i < lull_report_count(tried); i++) {
        const json_t *const point = json_array_get(tried, i);

        if (!isfinite(lull_report_number(point, "saving_ratio")) ||
            !isfinite(lull_report_number(point, "slowdown_ratio")))
            continue;
        is_any = true;
        lull_html_axis_add(&chart->x, lull_report_number(point, "slowdown_ratio"));
        lull_html_axis_add(&chart->y, lull_report_number(point, "saving_ratio"));
        if (lull_report_is(point, "kept"))
            lull_html_axis_add(&chart->y, lull_report_number(verdict, "saving_ratio"));
    }
    return is_any;
}

static void page_picture_draw_curve(FILE *out, const struct lull_html_chart *chart,
                                    const json_t *points, unsigned series)
{
    bool is_first = true;

    fprintf(out, "<path class=\"curve series%u\" d=\"", series);
    for (size_t i = 0; i < lull_report_count(points); i++) {
        const json_t *const point = json_array_get(points, i);
        const double x = lull_report_number(point, "slowdown_ratio");
        const double y = lull_report_number(point, "saving_ratio");

        if (!isfinite(x) || !isfinite(y))
            continue;
        fprintf(out, "%c%.1f %.1f", is_first ? 'M' : 'L', lull_html_x(chart, x),
                lull_html_y(chart, y));
        is_first = false;
    }
    fputs("\"/>\n", out);
}

static void draw_budgets(FILE *out, const struct lull_html_chart *chart, const json_t *points)
{
    for (size_t i = 0; i < lull_report_count(points); i++) {
        const json_t *const point = json_array_get(points, i);
        const double x = lull_report_number(point, "slowdown_ratio");
        const double y = lull_report_number(point, "saving_ratio");
        const double low = lull_report_number(point, "low_ratio");
        const double high = lull_report_number(point, "high_ratio");
        const char *const source = lull_report_text(point, "source");
        char text[TEXT_BYTES];

        if (!isfinite(x) || !isfinite(y))
            continue;
        snprintf(text, sizeof(text), "at %s slowdown: %s saved (%s), %.20s",
                 lull_html_percent(x).text, lull_html_percent(y).text,
                 lull_html_range(low, high).text, source != NULL ? source : "");
        lull_html_draw_mark(out, chart,
                            source != NULL && strcmp(source, "measured") == 0 ? LULL_HTML_GOOD
                                                                              : LULL_HTML_OPEN,
                            (struct lull_html_place){x, y, low, high}, text);
    }
}

/* Describes the trial of a clock, for a tooltip or the table. */
static void describe_tried(const json_t *point, char *text, size_t size)
{
    snprintf(text, size, "%s%s: saves %s (%s), %s slower, %s pairs of blocks",
             lull_html_figure(lull_report_number(point, "sm_mhz"), "MHz").text,
             lull_report_is(point, "has_sections") ? " with lowered sections" : "",
             lull_html_percent(lull_report_number(point, "saving_ratio")).text,
             lull_html_range(lull_report_number(point, "saving_low_ratio"),
                             lull_report_number(point, "saving_high_ratio"))
                 .text,
             lull_html_percent(lull_report_number(point, "slowdown_ratio")).text,
             lull_html_figure(lull_report_number(point, "pairs"), "").text);
}

static void draw_tried(FILE *out, const struct lull_html_chart *chart, const json_t *report)
{
    const json_t *const tried = lull_report_at(report, "tried");

    for (size_t i = 0; i < lull_report_count(tried); i++) {
        const json_t *const point = json_array_get(tried, i);
        const double x = lull_report_number(point, "slowdown_ratio");
        const double y = lull_report_number(point, "saving_ratio");
        char text[TEXT_BYTES];

        if (!isfinite(x) || !isfinite(y) || lull_report_is(point, "kept"))
            continue;
        describe_tried(point, text, sizeof(text));
        lull_html_draw_mark(out, chart, LULL_HTML_TRIED, lull_html_at(x, y), text);
    }
}

/* The saving of the accepted clocks is that of the headline, which may be from a comparison of
 * whole runs. run: its name among several; "": there is one. */
static void draw_kept(FILE *out, const struct lull_html_chart *chart, const char *run,
                      const json_t *report)
{
    const json_t *const tried = lull_report_at(report, "tried");
    const json_t *const verdict = lull_report_at(report, "verdict");
    const double saving = lull_report_number(verdict, "saving_ratio");

    for (size_t i = 0; i < lull_report_count(tried); i++) {
        const json_t *const point = json_array_get(tried, i);
        const double slowdown = lull_report_number(point, "slowdown_ratio");
        char text[TEXT_BYTES];

        if (!isfinite(slowdown) || !isfinite(saving) || !lull_report_is(point, "kept"))
            continue;
        snprintf(text, sizeof(text), "%.60s%s%s%s: saves %s (%s), %s slower in blocks, kept", run,
                 run[0] != '\0' ? ": " : "",
                 lull_html_figure(lull_report_number(point, "sm_mhz"), "MHz").text,
                 lull_report_is(point, "has_sections") ? " with lowered sections" : "",
                 lull_html_percent(saving).text,
                 lull_html_range(lull_report_number(verdict, "saving_low_ratio"),
                                 lull_report_number(verdict, "saving_high_ratio"))
                     .text,
                 lull_html_percent(slowdown).text);
        lull_html_draw_mark(out, chart, LULL_HTML_CHOSEN, lull_html_at(slowdown, saving), text);
    }
}

static void write_frontier_row(FILE *out, const json_t *point)
{
    const char *const reason = lull_report_text(point, "reason");

    fputs("<tr>", out);
    lull_html_number_cell(out, lull_html_percent(lull_report_number(point, "slowdown_ratio")));
    lull_html_number_cell(out, lull_html_percent(lull_report_number(point, "saving_ratio")));
    lull_html_number_cell(out, lull_html_range(lull_report_number(point, "low_ratio"),
                                               lull_report_number(point, "high_ratio")));
    lull_html_cell(out, reason != NULL ? reason : lull_report_text(point, "source"));
    fputs("</tr>\n", out);
}

static void write_frontier_table(FILE *out, const json_t *points)
{
    static const char *const heads[] = {"at most slower", "saves", "95 % interval", "source", NULL};

    lull_html_begin_table(out, "Savings at other tolerances", heads);
    for (size_t i = 0; i < lull_report_count(points); i++)
        write_frontier_row(out, json_array_get(points, i));
    lull_html_end_table(out);
}

/* The reason that stands in the first point of a frontier, which has no point that is known. */
static const char *frontier_reason(const json_t *report)
{
    const char *const reason =
        lull_report_text(json_array_get(lull_report_at(report, "frontier"), 0), "reason");

    return reason != NULL ? reason : "no trial has compared clocks";
}

void lull_report_draw_frontier(FILE *out, const json_t *report)
{
    const json_t *const points = lull_report_at(report, "frontier");
    struct lull_html_chart chart = begin_frontier();

    if (!fit_frontier(&chart, report)) {
        page_picture_write_none(out, frontier_reason(report));
        return;
    }
    lull_html_axis_finish(&chart.x);
    lull_html_axis_finish(&chart.y);
    fputs("<div class=\"beside\"><figure>", out);
    lull_html_begin_chart(out, &chart, "Energy saved over slowdown");
    lull_html_draw_mark(out, &chart, LULL_HTML_OPEN, lull_html_at(0.0, 0.0),
                        "the job at its highest clocks");
    page_picture_draw_curve(out, &chart, points, 0);
    draw_budgets(out, &chart, points);
    draw_tried(out, &chart, report);
    draw_kept(out, &chart, "", report);
    lull_html_end_chart(out, &chart);
    fputs("<figcaption>Full circles: measured. Rings: predicted. Diamonds: clocks that were tried. "
          "Star: accepted. Bars: 95 % intervals. Where the accepted clock is the best for a "
          "tolerance, the figures are those of the headline. Other bars cover all clocks that may "
          "be the best.</figcaption></figure>\n",
          out);
    write_frontier_table(out, points);
    fputs("</div>\n", out);
}

void lull_report_draw_frontiers(FILE *out, const struct lull_report_document *documents,
                                size_t count)
{
    /* As .series1 and so on of the page's style. */
    static const char *const lines[] = {"solid", "dashed", "dotted", "dash-dotted"};
    struct lull_html_chart chart = begin_frontier();
    bool is_any = false;

    for (size_t i = 0; i < count; i++)
        is_any = fit_frontier(&chart, documents[i].root) || is_any;
    if (!is_any)
        return;
    lull_html_axis_finish(&chart.x);
    lull_html_axis_finish(&chart.y);
    fputs("<figure>", out);
    lull_html_begin_chart(out, &chart, "Frontiers of all runs");
    for (size_t i = 0; i < count; i++) {
        page_picture_draw_curve(out, &chart, lull_report_at(documents[i].root, "frontier"),
                                (unsigned)(i % 4));
        draw_kept(out, &chart, documents[i].name, documents[i].root);
    }
    lull_html_end_chart(out, &chart);
    fputs("<figcaption>One line per run; stars are accepted clocks: ", out);
    for (size_t i = 0; i < count; i++) {
        lull_html_text(out, i == 0 ? "" : "; ", documents[i].name, "");
        fprintf(out, ", %s", lines[i % (sizeof(lines) / sizeof(lines[0]))]);
    }
    fputs(".</figcaption></figure>\n", out);
}

/* ---- valleys ----------------------------------------------------------------------------- */

static void draw_valley(FILE *out, const json_t *gpu)
{
    const json_t *const valley = lull_report_at(gpu, "valley");
    struct lull_html_chart chart = {.width = WIDTH, .height = 240};
    char title[TEXT_BYTES];

    lull_html_axis_begin(&chart.x, "SM clock, MHz", false);
    lull_html_axis_begin(&chart.y, "energy per iteration", true);
    lull_html_axis_add(&chart.x, lull_report_number(gpu, "highest_sm_mhz"));
    lull_html_axis_add(&chart.y, 1.0);
    for (size_t i = 0; i < lull_report_count(valley); i++) {
        const json_t *const point = json_array_get(valley, i);

        lull_html_axis_add(&chart.x, lull_report_number(point, "sm_mhz"));
        lull_html_axis_add(&chart.y, 1.0 - lull_report_number(point, "saving_ratio"));
        add_interval(&chart.y, 1.0 - lull_report_number(point, "saving_high_ratio"),
                     1.0 - lull_report_number(point, "saving_low_ratio"));
    }
    lull_html_axis_finish(&chart.x);
    lull_html_axis_finish(&chart.y);
    snprintf(title, sizeof(title), "GPU %s",
             lull_html_figure(lull_report_number(gpu, "index"), "").text);
    lull_html_text(out, "<figure><figcaption>", title, "</figcaption>");
    lull_html_begin_chart(out, &chart, title);
    fprintf(out, "<path class=\"reference\" d=\"M%.1f %.1fH%.1f\"/>\n",
            lull_html_x(&chart, chart.x.low), lull_html_y(&chart, 1.0),
            lull_html_x(&chart, chart.x.high));
    for (size_t i = 0; i < lull_report_count(valley); i++) {
        const json_t *const point = json_array_get(valley, i);
        const double saving = lull_report_number(point, "saving_ratio");
        const double mhz = lull_report_number(point, "sm_mhz");
        char text[TEXT_BYTES];

        if (!isfinite(saving) || !isfinite(mhz))
            continue;
        describe_tried(point, text, sizeof(text));
        lull_html_draw_mark(
            out, &chart, lull_report_is(point, "kept") ? LULL_HTML_CHOSEN : LULL_HTML_GOOD,
            (struct lull_html_place){mhz, 1.0 - saving,
                                     1.0 - lull_report_number(point, "saving_high_ratio"),
                                     1.0 - lull_report_number(point, "saving_low_ratio")},
            text);
    }
    lull_html_end_chart(out, &chart);
    fputs("</figure>\n", out);
}

void lull_report_draw_valleys(FILE *out, const json_t *report)
{
    const json_t *const gpus = lull_report_at(report, "gpus");
    bool is_any = false;

    fputs("<div class=\"figures\">", out);
    for (size_t i = 0; i < lull_report_count(gpus) && i < LULL_REPORT_MAX_GPUS; i++) {
        const json_t *const gpu = json_array_get(gpus, i);

        if (lull_report_count(lull_report_at(gpu, "valley")) == 0)
            continue;
        is_any = true;
        draw_valley(out, gpu);
    }
    fputs("</div>\n", out);
    if (!is_any)
        page_picture_write_none(out, "no trial has measured the energy of a GPU at a lower clock");
    else
        fputs("<p class=\"note\">Energy per iteration of each GPU alone, 100 % at the highest "
              "clocks, over the steady clock, with the accepted clocks in sections and gaps. The "
              "star is the accepted clock.</p>\n",
              out);
}

/* ---- descents ---------------------------------------------------------------------------- */

static enum lull_html_mark mark_of(const json_t *step)
{
    const char *const verdict = lull_report_text(step, "verdict");

    if (lull_report_is(step, "kept"))
        return LULL_HTML_CHOSEN;
    if (verdict != NULL && strcmp(verdict, "not degraded") == 0)
        return LULL_HTML_GOOD;
    if (verdict != NULL && strcmp(verdict, "degraded") == 0)
        return LULL_HTML_BAD;
    return LULL_HTML_OPEN;
}

static void describe_step(const json_t *step, char *text, size_t size)
{
    const char *const verdict = lull_report_text(step, "verdict");
    const char *const number = lull_report_text(step, "step");

    snprintf(text, size, "%s: %.20s, %s slower in %s pairs (%.8s)",
             lull_html_figure(lull_report_number(step, "sm_mhz"), "MHz").text,
             verdict != NULL ? verdict : "",
             lull_html_percent(lull_report_number(step, "slowdown_ratio")).text,
             lull_html_figure(lull_report_number(step, "pairs"), "").text,
             number != NULL ? number : "");
}

static void page_picture_draw_steps(FILE *out, const struct lull_html_chart *chart,
                                    const json_t *descent, double highest_mhz)
{
    for (size_t i = 0; i < lull_report_count(descent); i++) {
        const json_t *const step = json_array_get(descent, i);
        const double mhz = lull_report_number(step, "sm_mhz");
        char text[TEXT_BYTES];

        if (!isfinite(mhz))
            continue;
        describe_step(step, text, sizeof(text));
        lull_html_draw_mark(out, chart, mark_of(step), lull_html_at((double)(i + 1), mhz), text);
    }
    if (isfinite(highest_mhz))
        lull_html_draw_mark(out, chart, LULL_HTML_OPEN, lull_html_at(0.0, highest_mhz),
                            "the highest clock, where the search begins (S221)");
}

void lull_report_draw_descent(FILE *out, const char *name, const json_t *descent,
                              double highest_mhz)
{
    struct lull_html_chart chart = {.width = WIDTH, .height = 240};
    bool has_line = false;

    lull_html_axis_begin(&chart.x, "step", false);
    lull_html_axis_begin(&chart.y, "MHz", false);
    lull_html_axis_add(&chart.x, 0.0);
    lull_html_axis_add(&chart.x, (double)lull_report_count(descent));
    lull_html_axis_add(&chart.y, highest_mhz);
    for (size_t i = 0; i < lull_report_count(descent); i++)
        lull_html_axis_add(&chart.y, lull_report_number(json_array_get(descent, i), "sm_mhz"));
    lull_html_axis_finish(&chart.x);
    lull_html_axis_finish(&chart.y);
    lull_html_text(out, "<figure><figcaption>", name, "</figcaption>");
    lull_html_begin_chart(out, &chart, name);
    fputs("<path class=\"curve series0\" d=\"", out);
    if (isfinite(highest_mhz)) {
        fprintf(out, "M%.1f %.1f", lull_html_x(&chart, 0.0), lull_html_y(&chart, highest_mhz));
        has_line = true;
    }
    for (size_t i = 0; i < lull_report_count(descent); i++) {
        const double mhz = lull_report_number(json_array_get(descent, i), "sm_mhz");

        if (!isfinite(mhz))
            continue;
        fprintf(out, "%c%.1f %.1f", has_line ? 'L' : 'M', lull_html_x(&chart, (double)(i + 1)),
                lull_html_y(&chart, mhz));
        has_line = true;
    }
    fputs("\"/>\n", out);
    page_picture_draw_steps(out, &chart, descent, highest_mhz);
    lull_html_end_chart(out, &chart);
    fputs("</figure>\n", out);
}
