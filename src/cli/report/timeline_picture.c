/* Draws the last iterations of a run: a row for each GPU, with its sections as bands, its power and
 * its clock as lines, and a strip of the stretches at lowered clocks below.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cli/shared/picture.h"
#include "cli/report/html.h"
#include "cli/report/pictures.h"

enum { WIDTH = 940, LEFT = 92, RIGHT = 12, TOP = 8, ROW = 96, STRIP = 8, GAP = 16, AXIS = 34 };
/* A page with more rows would be too large to read. The caption says how many are not drawn. */
enum { MAX_ROWS = 16 };

struct timeline {
    FILE *out;
    double length_ms;
    double most_w;
    double max_mhz;
    struct lull_clock_colours colours; /* of lowered stretches */
};

static double timeline_picture_x_of(const struct timeline *timeline, double ms)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * fmin(fmax(ms / timeline->length_ms, 0.0), 1.0);
}

/* ---- scales ------------------------------------------------------------------------------ */

static void fit_gpu(struct timeline *timeline, const json_t *gpu)
{
    const json_t *const samples = lull_report_at(gpu, "samples");
    const json_t *const lowered = lull_report_at(gpu, "lowered");

    for (size_t i = 0; i < lull_report_count(samples); i++) {
        const json_t *const sample = json_array_get(samples, i);

        timeline->most_w = fmax(timeline->most_w, lull_report_number_at(sample, 1));
        timeline->max_mhz = fmax(timeline->max_mhz, lull_report_number_at(sample, 2));
    }
    for (size_t i = 0; i < lull_report_count(lowered); i++) {
        const double mhz = lull_report_number_at(json_array_get(lowered, i), 2);

        if (mhz >= 1.0 && mhz < 1e6)
            lull_clock_colours_add(&timeline->colours, (uint32_t)mhz);
    }
}

/* ---- rows -------------------------------------------------------------------------------- */

static void draw_spans(const struct timeline *timeline, const json_t *spans, double y,
                       double height, bool is_clock)
{
    double drawn = 0.0;

    for (size_t i = 0; i < lull_report_count(spans); i++) {
        const json_t *const span = json_array_get(spans, i);
        const double begin = lull_report_number_at(span, 0);
        const double end = lull_report_number_at(span, 1);
        const double mhz = lull_report_number_at(span, 2);
        const char *const name = json_string_value(json_array_get(span, 2));
        char text[96];

        /* A mark that ends within 0.1 pixel of the one before would not be visible. */
        if (!(end > begin) || timeline_picture_x_of(timeline, end) < drawn + 0.1)
            continue;
        drawn = timeline_picture_x_of(timeline, end);
        if (is_clock)
            snprintf(text, sizeof(text), "%.0f MHz, %.2f ms", mhz, end - begin);
        else
            snprintf(text, sizeof(text), "%.40s, %.2f ms", name != NULL ? name : "", end - begin);
        fprintf(timeline->out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.0f\" ",
                timeline_picture_x_of(timeline, begin), y,
                fmax(drawn - timeline_picture_x_of(timeline, begin), 0.2), height);
        if (is_clock && mhz >= 1.0 && mhz < 1e6)
            fprintf(timeline->out, "fill=\"#%06x\">",
                    timeline->colours
                        .shades[lull_clock_colours_shade(&timeline->colours, (uint32_t)mhz)]
                        .rgb);
        else
            fputs("class=\"band\">", timeline->out);
        lull_html_text(timeline->out, "<title>", text, "</title></rect>\n");
    }
}

/* Draws the values at `place` of the readings as steps: each holds until the next reading. */
static void timeline_picture_draw_steps(const struct timeline *timeline, const json_t *samples,
                                        size_t place, double bottom, double per_amount,
                                        const char *class)
{
    bool is_drawn = false;

    fprintf(timeline->out, "<path class=\"%s\" d=\"", class);
    for (size_t i = 0; i < lull_report_count(samples); i++) {
        const json_t *const sample = json_array_get(samples, i);
        const double ms = lull_report_number_at(sample, 0);
        const double x = timeline_picture_x_of(timeline, ms);
        const double value = lull_report_number_at(sample, place);

        if (!isfinite(value) || !isfinite(ms)) {
            is_drawn = false; /* a missing reading makes a gap in the line */
            continue;
        }
        if (is_drawn)
            fprintf(timeline->out, "H%.1fV%.1f", x, bottom - fmax(value, 0.0) * per_amount);
        else
            fprintf(timeline->out, "M%.1f %.1f", x, bottom - fmax(value, 0.0) * per_amount);
        is_drawn = true;
    }
    fputs("\"/>\n", timeline->out);
}

static void draw_gpu(const struct timeline *timeline, const json_t *gpu, double top)
{
    const json_t *const samples = lull_report_at(gpu, "samples");
    const double bottom = top + ROW;

    draw_spans(timeline, lull_report_at(gpu, "sections"), top, ROW, false);
    draw_spans(timeline, lull_report_at(gpu, "lowered"), bottom + 3.0, STRIP, true);
    if (timeline->max_mhz > 0.0)
        timeline_picture_draw_steps(timeline, samples, 2, bottom, ROW / timeline->max_mhz, "clock");
    if (timeline->most_w > 0.0)
        timeline_picture_draw_steps(timeline, samples, 1, bottom, ROW / timeline->most_w, "power");
    fprintf(timeline->out, "<path class=\"line\" d=\"M%d %.1fH%d\"/>", LEFT, bottom, WIDTH - RIGHT);
    fprintf(timeline->out, "<text class=\"label strong\" x=\"4\" y=\"%.1f\">GPU %s</text>",
            top + 14.0, lull_html_figure(lull_report_number(gpu, "index"), "").text);
    fprintf(timeline->out, "<text class=\"label power-text\" x=\"4\" y=\"%.1f\">0-%.0f W</text>",
            top + 36.0, timeline->most_w);
    fprintf(timeline->out,
            "<text class=\"label clock-text\" x=\"4\" y=\"%.1f\">0-%.0f MHz</text>\n", top + 56.0,
            timeline->max_mhz);
}

static void draw_iterations(const struct timeline *timeline, const json_t *starts, double bottom)
{
    fputs("<path class=\"iteration\" d=\"", timeline->out);
    for (size_t i = 0; i < lull_report_count(starts); i++) {
        const double ms = lull_report_number_at(starts, i);

        if (isfinite(ms))
            fprintf(timeline->out, "M%.1f %dV%.1f", timeline_picture_x_of(timeline, ms), TOP,
                    bottom);
    }
    fputs("\"/>\n", timeline->out);
}

void lull_report_draw_timeline(FILE *out, const json_t *report)
{
    const json_t *const document = lull_report_at(report, "timeline");
    const json_t *const gpus = lull_report_at(document, "gpus");
    const size_t rows = lull_report_count(gpus) < MAX_ROWS ? lull_report_count(gpus) : MAX_ROWS;
    const double bottom = TOP + (double)rows * (ROW + STRIP + GAP);
    struct timeline timeline = {.out = out, .length_ms = lull_report_number(document, "length_ms")};
    double left_out = 0.0;

    if (rows == 0 || !(timeline.length_ms > 0.0)) {
        fputs("<p class=\"none\">Not known: no whole iteration was seen.</p>\n", out);
        return;
    }
    lull_clock_colours_init(&timeline.colours);
    for (size_t i = 0; i < rows; i++)
        fit_gpu(&timeline, json_array_get(gpus, i));
    /* The highest clock is always the warm end of the scale. */
    if (timeline.max_mhz >= 1.0 && timeline.max_mhz < 1e6)
        lull_clock_colours_add(&timeline.colours, (uint32_t)timeline.max_mhz);
    lull_clock_colours_finish(&timeline.colours);
    fprintf(out,
            "<figure><div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Timeline\">"
            "<svg class=\"wide\" viewBox=\"0 0 %d %.0f\" role=\"img\" aria-label=\"The last "
            "iterations: sections, clocks and power of each GPU\">\n",
            WIDTH, bottom + AXIS);
    draw_iterations(&timeline, lull_report_at(document, "iterations_ms"), bottom);
    for (size_t i = 0; i < rows; i++) {
        const json_t *const gpu = json_array_get(gpus, i);

        draw_gpu(&timeline, gpu, TOP + (double)i * (ROW + STRIP + GAP));
        left_out += fmax(lull_report_number(gpu, "left_out"), 0.0);
    }
    lull_picture_draw_time_axis(out, &(struct lull_picture_time_axis){LEFT, WIDTH - LEFT - RIGHT,
                                                                      TOP, bottom,
                                                                      timeline.length_ms * 1e-3});
    fputs("</svg></div>\n<figcaption>The last iterations of the run, each beginning at a dashed "
          "line. Bands are communication and other sections, the strip below a GPU the stretches "
          "at a lowered clock; power and clock are read from the driver ten times a second and may "
          "lag by 0.1 s.",
          out);
    if (rows < lull_report_count(gpus))
        fprintf(out, " %zu more GPUs are not drawn.", lull_report_count(gpus) - rows);
    if (left_out > 0.0)
        fprintf(out, " %.0f stretches are not drawn.", left_out);
    fputs("</figcaption></figure>\n", out);
}
