/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/html.h"

#include <math.h>
#include <stdlib.h>

#include "base/printable.h"
#include "cli/shared/picture.h"
#include "core/energy/gain.h"

static const char unknown[] = "not known";

/* ---- texts and figures ------------------------------------------------------------------- */

struct lull_amount lull_html_percent(double ratio)
{
    struct lull_amount amount;

    if (!isfinite(ratio))
        snprintf(amount.text, sizeof(amount.text), "%s", unknown);
    else if (ratio != 0.0 && fabs(ratio) < 0.00095)
        snprintf(amount.text, sizeof(amount.text), "%.2f %%", 100.0 * ratio);
    else
        snprintf(amount.text, sizeof(amount.text), "%.1f %%", 100.0 * ratio);
    return amount;
}

static const struct lull_amount not_proven = {"not proven"};

struct lull_amount lull_html_saved(double saving_ratio, double low_ratio, double high_ratio)
{
    const enum lull_gain_saving claim = lull_gain_judge_saving(saving_ratio, low_ratio, high_ratio);
    struct lull_amount amount = lull_html_percent(saving_ratio);

    if (claim == LULL_GAIN_SAVING_UNPROVEN)
        return not_proven;
    if (claim == LULL_GAIN_SAVING_NEGATIVE) /* a reader may take "-5 %" for a saving */
        snprintf(amount.text, sizeof(amount.text), "%.30s more used",
                 lull_html_percent(-saving_ratio).text);
    return amount;
}

struct lull_amount lull_html_slower(double slowdown_ratio, double upper_ratio, double allowed_ratio)
{
    if (lull_gain_judge_slowdown(slowdown_ratio, upper_ratio, allowed_ratio) ==
        LULL_GAIN_SLOWDOWN_UNPROVEN)
        return not_proven;
    return lull_html_percent(slowdown_ratio);
}

struct lull_amount lull_html_figure(double number, const char *unit)
{
    const char *const separator = *unit != '\0' ? " " : "";
    struct lull_amount amount;

    if (!isfinite(number))
        snprintf(amount.text, sizeof(amount.text), "%s", unknown);
    else if (fabs(number) >= 1000.0)
        snprintf(amount.text, sizeof(amount.text), "%.0f%s%.16s", number, separator, unit);
    else
        snprintf(amount.text, sizeof(amount.text), "%.4g%s%.16s", number, separator, unit);
    return amount;
}

struct lull_amount lull_html_range(double low_ratio, double high_ratio)
{
    struct lull_amount amount;

    if (isfinite(low_ratio) && isfinite(high_ratio))
        snprintf(amount.text, sizeof(amount.text), "%.1f to %.1f %%", 100.0 * low_ratio,
                 100.0 * high_ratio);
    else
        snprintf(amount.text, sizeof(amount.text), "%s", unknown);
    return amount;
}

void lull_html_text(FILE *out, const char *before, const char *text, const char *after)
{
    fputs(before, out);
    if (text == NULL)
        fprintf(out, "<em>%s</em>", unknown);
    else
        lull_printable_print(LULL_PRINTABLE_PAGE, text, out);
    fputs(after, out);
}

/* ---- tables ------------------------------------------------------------------------------ */

void lull_html_begin_table(FILE *out, const char *caption, const char *const *heads)
{
    fputs("<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"", out);
    lull_printable_print(LULL_PRINTABLE_PAGE, caption, out);
    fputs("\"><table><caption><span>", out);
    lull_printable_print(LULL_PRINTABLE_PAGE, caption, out);
    fputs("</span></caption>\n<thead><tr>", out);
    for (; *heads != NULL; heads++)
        lull_html_text(out, "<th scope=\"col\">", *heads, "</th>");
    fputs("</tr></thead>\n<tbody>\n", out);
}

void lull_html_end_table(FILE *out)
{
    fputs("</tbody></table></div>\n", out);
}

void lull_html_cell(FILE *out, const char *text)
{
    lull_html_text(out, "<td>", text, "</td>");
}

void lull_html_number_cell(FILE *out, struct lull_amount amount)
{
    lull_html_text(out, "<td class=\"number\">", amount.text, "</td>");
}

/* ---- axes -------------------------------------------------------------------------------- */

enum { LEFT = 58, RIGHT = 14, TOP = 14, BOTTOM = 46 };

void lull_html_axis_begin(struct lull_html_axis *axis, const char *name, bool is_percent)
{
    *axis = (struct lull_html_axis){INFINITY, -INFINITY, name, is_percent};
}

void lull_html_axis_add(struct lull_html_axis *axis, double value)
{
    if (!isfinite(value))
        return;
    axis->low = fmin(axis->low, value);
    axis->high = fmax(axis->high, value);
}

void lull_html_axis_finish(struct lull_html_axis *axis)
{
    double margin;

    if (axis->low > axis->high)
        axis->low = axis->high = 0.0;
    margin = 0.06 * (axis->high - axis->low);
    if (!(margin > 1e-6 * fmax(fabs(axis->high), fabs(axis->low))))
        margin = fmax(1e-3 * fabs(axis->high), axis->is_percent ? 0.001 : 1.0);
    axis->low -= margin;
    axis->high += margin;
}

double lull_html_x(const struct lull_html_chart *chart, double value)
{
    return LEFT +
           (chart->width - LEFT - RIGHT) * (value - chart->x.low) / (chart->x.high - chart->x.low);
}

double lull_html_y(const struct lull_html_chart *chart, double value)
{
    return chart->height - BOTTOM -
           (chart->height - TOP - BOTTOM) * (value - chart->y.low) / (chart->y.high - chart->y.low);
}

/* The first mark of an axis, and the number of marks. */
static int html_find_marks(const struct lull_html_axis *axis, double about, double *first_out,
                           double *tick_out)
{
    const double tick = lull_picture_tick(axis->high - axis->low, about);
    const double first = ceil(axis->low / tick) * tick;

    *first_out = first;
    *tick_out = tick;
    return (int)fmin(floor((axis->high - first) / tick) + 1.0, 4.0 * about);
}

static void html_write_label(FILE *out, const struct lull_html_axis *axis, double value,
                             double tick)
{
    /* A value that is nearly 0 beside the distance of the marks is shown as 0. */
    if (fabs(value) < 1e-9 * tick)
        value = 0.0;
    if (axis->is_percent)
        fprintf(out, "%.4g %%", 100.0 * value);
    else
        fprintf(out, "%.6g", value);
}

static void draw_x(FILE *out, const struct lull_html_chart *chart)
{
    const double bottom = chart->height - BOTTOM;
    double first;
    double tick;
    const int count =
        html_find_marks(&chart->x, (chart->width - LEFT - RIGHT) / 75.0, &first, &tick);

    for (int i = 0; i < count; i++) {
        const double x = lull_html_x(chart, first + i * tick);

        fprintf(out,
                "<path class=\"grid\" d=\"M%.1f %dV%.1f\"/><text class=\"label\" x=\"%.1f\" "
                "y=\"%.1f\" text-anchor=\"middle\">",
                x, TOP, bottom, x, bottom + 18.0);
        html_write_label(out, &chart->x, first + i * tick, tick);
        fputs("</text>\n", out);
    }
    fprintf(out,
            "<path class=\"line\" d=\"M%d %.1fH%.1f\"/><text class=\"label\" x=\"%.1f\" "
            "y=\"%.1f\" text-anchor=\"end\">",
            LEFT, bottom, chart->width - RIGHT, chart->width - RIGHT, chart->height - 8.0);
    lull_html_text(out, "", chart->x.name, "</text>\n");
}

static void draw_y(FILE *out, const struct lull_html_chart *chart)
{
    double first;
    double tick;
    const int count =
        html_find_marks(&chart->y, (chart->height - TOP - BOTTOM) / 40.0, &first, &tick);

    for (int i = 0; i < count; i++) {
        const double y = lull_html_y(chart, first + i * tick);

        fprintf(out,
                "<path class=\"grid\" d=\"M%d %.1fH%.1f\"/><text class=\"label\" x=\"%d\" "
                "y=\"%.1f\" text-anchor=\"end\">",
                LEFT, y, chart->width - RIGHT, LEFT - 6, y + 4.0);
        html_write_label(out, &chart->y, first + i * tick, tick);
        fputs("</text>\n", out);
    }
    fprintf(out,
            "<path class=\"line\" d=\"M%d %dV%.1f\"/><text class=\"label\" x=\"%d\" "
            "y=\"%.1f\">",
            LEFT, TOP, chart->height - BOTTOM, 4, chart->height - 8.0);
    lull_html_text(out, "&#8593; ", chart->y.name, "</text>\n");
}

void lull_html_begin_chart(FILE *out, struct lull_html_chart *chart, const char *title)
{
    chart->words = open_memstream(&chart->words_text, &chart->words_size);
    fprintf(out, "<svg class=\"chart\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"",
            chart->width, chart->height);
    lull_html_text(out, "", title, "\">\n");
    draw_y(out, chart);
    draw_x(out, chart);
}

void lull_html_end_chart(FILE *out, struct lull_html_chart *chart)
{
    fputs("</svg>\n", out);
    if (chart->words == NULL)
        return;
    if (fclose(chart->words) == 0 && chart->words_size > 0)
        fprintf(out, "<details><summary>In words</summary><ul>\n%s</ul></details>\n",
                chart->words_text);
    free(chart->words_text);
}

/* ---- marks ------------------------------------------------------------------------------- */

static const struct {
    const char *class;
    const char *path; /* around 0, 0 */
} marks[LULL_HTML_MARKS] = {
    [LULL_HTML_GOOD] = {"good", "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z"},
    [LULL_HTML_BAD] = {"bad", "M-5-5L5 5M5-5L-5 5"},
    [LULL_HTML_OPEN] = {"open", "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z"},
    [LULL_HTML_TRIED] = {"tried", "M0-4.5L4.5 0 0 4.5-4.5 0z"},
    [LULL_HTML_CHOSEN] = {"chosen",
                          "M0-9L2.1-2.9 8.6-2.8 3.4 1.1 5.3 7.3 0 3.6-5.3 7.3-3.4 1.1-8.6-2.8"
                          "-2.1-2.9z"},
};

void lull_html_draw_mark(FILE *out, const struct lull_html_chart *chart, enum lull_html_mark mark,
                         struct lull_html_place at, const char *tooltip)
{
    fputs("<g>", out);
    lull_html_text(out, "<title>", tooltip, "</title>");
    if (chart->words != NULL)
        lull_html_text(chart->words, "<li>", tooltip, "</li>\n");
    if (isfinite(at.low) && isfinite(at.high))
        fprintf(out, "<path class=\"interval\" d=\"M%.1f %.1fV%.1f\"/>", lull_html_x(chart, at.x),
                lull_html_y(chart, fmax(at.low, chart->y.low)),
                lull_html_y(chart, fmin(at.high, chart->y.high)));
    fprintf(out, "<path class=\"%s\" transform=\"translate(%.1f %.1f)\" d=\"%s\"/></g>\n",
            marks[mark].class, lull_html_x(chart, at.x), lull_html_y(chart, at.y),
            marks[mark].path);
}
