/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/picture.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/file.h"
#include "cli/picture/picture.h"
#include "cli/plan/drawing.h"

/* All lengths are in pixels. */
static const double page_width = 1400.0;
static const double left = 72.0;
static const double right = 28.0;
static const double header = 84.0;
static const double waiting_header = 16.0; /* the header's second row, with clocks for waiting */
static const double caption_height = 30.0;
static const double panel_gap = 18.0;
static const double axis_height = 44.0;

/* ---- a panel ----------------------------------------------------------------------------- */

static void draw_rows(const struct lull_plan_drawing *drawing, const char *caption)
{
    const uint32_t devices = drawing->problem->graph->device_count;
    const uint32_t stride = (uint32_t)ceil(12.0 / drawing->row);

    fprintf(drawing->file,
            "<text x=\"%.0f\" y=\"%.1f\" font-size=\"14\" font-weight=\"600\">%s</text>\n", left,
            drawing->top - 9.0, caption);
    fprintf(drawing->file, "<g fill=\"#e9e9ec\">\n");
    for (uint32_t device = 0; device < devices; device++)
        fprintf(drawing->file, "<path d=\"M%.1f %.1fH%.1fv%.1fH%.1fz\"/>\n", left,
                lull_plan_drawing_y(drawing, device) + drawing->row * 0.06,
                lull_plan_drawing_x(drawing, drawing->makespan_ns), drawing->row * 0.88, left);
    fprintf(drawing->file, "</g>\n<g font-size=\"11\" text-anchor=\"end\" fill=\"#444\">\n");
    for (uint32_t device = 0; device < devices; device += stride)
        fprintf(drawing->file, "<text x=\"%.0f\" y=\"%.1f\">%s%u</text>\n", left - 8.0,
                lull_plan_drawing_y(drawing, device) + drawing->row * 0.5 + 4.0,
                stride == 1 ? "stage " : "", device);
    fprintf(drawing->file, "</g>\n");
}

static void draw_end(const struct lull_plan_drawing *drawing)
{
    const double x = lull_plan_drawing_x(drawing, drawing->makespan_ns);
    const double bottom = lull_plan_drawing_y(drawing, drawing->problem->graph->device_count);

    fprintf(drawing->file,
            "<path stroke=\"#111\" stroke-dasharray=\"4 3\" d=\"M%.1f %.1fV%.1f\"/>\n", x,
            drawing->top - 4.0, bottom + 4.0);
}

static int draw_panel(struct lull_plan_drawing *drawing, const struct lull_plan_panel *panel)
{
    int result;

    lull_plan_drawing_set(drawing, panel->option);
    draw_rows(drawing, panel->caption);
    if (panel->waits != NULL)
        lull_plan_drawing_draw_waits(drawing, panel->waits);
    result = lull_plan_drawing_draw(drawing);
    draw_end(drawing);
    return result;
}

/* ---- what is around ---------------------------------------------------------------------- */

/* Explains the other marks, to the right of the clocks. */
static void draw_keys(const struct lull_plan_drawing *drawing, double x)
{
    static const struct {
        const char *what;
        const char *fill;
        int height;
        double space;
        bool is_detail;
    } keys[] = {
        {"forward", "#999", 8, 86.0, true},
        {"backward", "#999", 14, 98.0, true},
        {"waits", "#e9e9ec", 14, 74.0, false},
    };
    const bool is_detailed = lull_plan_drawing_is_detailed(drawing);

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (keys[i].is_detail && !is_detailed)
            continue;
        fprintf(drawing->file,
                "<rect x=\"%.0f\" y=\"%d\" width=\"20\" height=\"%d\" fill=\"%s\"/>"
                "<text x=\"%.0f\" y=\"59\">%s</text>\n",
                x, 55 - keys[i].height / 2, keys[i].height, keys[i].fill, x + 26.0, keys[i].what);
        x += keys[i].space;
    }
    if (is_detailed)
        fprintf(drawing->file,
                "<rect x=\"%.0f\" y=\"48\" width=\"20\" height=\"14\" fill=\"none\" "
                "stroke=\"#111\" stroke-width=\"1.7\"/>",
                x);
    else
        fprintf(drawing->file, "<path stroke=\"#111\" stroke-width=\"1.7\" d=\"M%.0f 55h20\"/>", x);
    fprintf(drawing->file, "<text x=\"%.0f\" y=\"59\">critical path%s</text>\n", x + 26.0,
            is_detailed ? "" : "; colours are means of neighbouring operations");
}

/* Explains clocks for waiting, in a row of their own under the title. */
static void draw_waiting_keys(const struct lull_plan_drawing *drawing)
{
    double x = left;

    for (uint32_t i = 0; i < drawing->waiting->count; i++, x += 150.0)
        fprintf(drawing->file,
                "<rect x=\"%.0f\" y=\"70\" width=\"20\" height=\"14\" fill=\"#%06x\"/>"
                "<text x=\"%.0f\" y=\"81\">waits at %u MHz</text>\n",
                x, lull_plan_drawing_wait_rgb(drawing, i), x + 26.0,
                drawing->waiting->points[i].sm_mhz);
}

static void draw_header(const struct lull_plan_drawing *drawing, const char *title)
{
    fprintf(drawing->file, "<text x=\"%.0f\" y=\"30\" font-size=\"18\" font-weight=\"600\">", left);
    lull_picture_write_text(drawing->file, title);
    fprintf(drawing->file, "</text>\n<g font-size=\"12\" fill=\"#333\">\n");
    draw_waiting_keys(drawing);
    draw_keys(drawing, lull_clock_colours_draw(&drawing->colours, drawing->file, left, 48.0));
    fprintf(drawing->file, "</g>\n");
}

static int draw(struct lull_plan_drawing *drawing, const char *title,
                const struct lull_plan_panel *panels, size_t panel_count)
{
    const double rows = drawing->row * drawing->problem->graph->device_count;
    const double panel_height = caption_height + rows + panel_gap;
    const double top = header + (drawing->waiting->count > 0 ? waiting_header : 0.0);
    const double bottom = top + panel_height * (double)panel_count;
    int result = 0;

    fprintf(drawing->file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
            "height=\"%.0f\" font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            page_width, bottom + axis_height, page_width, bottom + axis_height);
    draw_header(drawing, title);
    for (size_t i = 0; i < panel_count && result == 0; i++) {
        drawing->top = top + panel_height * (double)i + caption_height;
        result = draw_panel(drawing, &panels[i]);
    }
    lull_picture_draw_time_axis(drawing->file,
                                &(struct lull_picture_time_axis){drawing->left, drawing->width,
                                                                 top + caption_height, bottom,
                                                                 (double)drawing->span_ns * 1e-9});
    fprintf(drawing->file, "</svg>\n");
    return result;
}

/* ---- all together ------------------------------------------------------------------------ */

static int64_t span_of(struct lull_plan_drawing *drawing, const struct lull_plan_panel *panels,
                       size_t count)
{
    int64_t span_ns = 1;

    for (size_t i = 0; i < count; i++) {
        lull_plan_drawing_set(drawing, panels[i].option);
        if (drawing->makespan_ns > span_ns)
            span_ns = drawing->makespan_ns;
    }
    return span_ns;
}

static void find_colours(struct lull_plan_drawing *drawing, const struct lull_plan_panel *panels,
                         size_t count)
{
    lull_clock_colours_init(&drawing->colours);
    for (size_t i = 0; i < count; i++) {
        drawing->option = panels[i].option;
        for (size_t op = 0; op < drawing->problem->graph->op_count; op++)
            lull_clock_colours_add(&drawing->colours, lull_plan_drawing_clock(drawing, op));
    }
    lull_clock_colours_finish(&drawing->colours);
}

static int write_text(struct lull_plan_drawing *drawing, const char *path, const char *title,
                      const struct lull_plan_panel *panels, size_t panel_count,
                      struct lull_error *err)
{
    char *text = NULL;
    size_t size = 0;
    int result;

    drawing->file = open_memstream(&text, &size);
    if (drawing->file == NULL)
        return -ENOMEM;
    drawing->span_ns = span_of(drawing, panels, panel_count);
    find_colours(drawing, panels, panel_count);
    result = draw(drawing, title, panels, panel_count);
    if (fclose(drawing->file) != 0 && result == 0)
        result = -ENOMEM;
    if (result == 0)
        result = lull_file_write_atomic(path, text, size, 0644, err);
    free(text);
    return result;
}

int lull_plan_picture_write(const char *path, const char *title,
                            const struct lull_pipeline_problem *problem,
                            const struct lull_plan_waiting_points *waiting,
                            const struct lull_plan_panel *panels, size_t panel_count,
                            struct lull_error *err)
{
    const size_t count = problem->graph->op_count;
    struct lull_memory memory = {0};
    struct lull_plan_drawing drawing = {
        .problem = problem,
        .waiting = waiting,
        .left = left,
        .width = page_width - left - right,
        .row = fmin(26.0, fmax(2.0, 600.0 / problem->graph->device_count)),
        .duration_ns = lull_memory_take(&memory, count, sizeof(*drawing.duration_ns)),
        .begin_ns = lull_memory_take(&memory, count, sizeof(*drawing.begin_ns)),
        .path = lull_memory_take(&memory, count, sizeof(*drawing.path)),
    };
    int result = -ENOMEM;

    if (!memory.has_failed)
        result = write_text(&drawing, path, title, panels, panel_count, err);
    lull_memory_free(&memory);
    if (result == -ENOMEM)
        return lull_error_set(err, result, "%s: no memory for the picture", path);
    return result;
}
