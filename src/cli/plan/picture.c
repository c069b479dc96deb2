/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/picture.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/file.h"
#include "base/printable.h"
#include "cli/shared/picture.h"

/* All lengths are in pixels. */
static const double page_width = 1400.0;
static const double left = 72.0;
static const double right = 28.0;
static const double header = 84.0;
static const double waiting_header = 16.0; /* the header's second row, with clocks for waiting */
static const double caption_height = 30.0;
static const double panel_gap = 18.0;
static const double axis_height = 44.0;

enum { MAX_DETAILED = 6000 /* operations drawn one by one; more: in cells */ };

struct drawing {
    FILE *file;
    const struct lull_pipeline_problem *problem;
    struct lull_clock_colours colours;
    const struct lull_plan_waiting_points *waiting; /* the clocks of gaps */
    int64_t span_ns; /* the time axis shows this long from left to left + width */
    double left;     /* in pixels, like the next ones */
    double width;
    double top; /* the top of the first device's row */
    double row; /* the height of a row */

    /* The current plan, which set_plan sets. */
    const uint32_t *option;
    int64_t makespan_ns;
    int64_t *duration_ns; /* of every operation */
    int64_t *begin_ns;
    uint32_t *path; /* the critical operations, the last first */
    size_t path_length;
};

enum {
    MAX_CELLS = 24000,  /* of all devices of a plan */
    MIN_ROW_CELLS = 24, /* of a device */
    MAX_ROW_CELLS = 700,
    MAX_PATH_POINTS = 2000,
};

/* Returns whether operations are drawn one by one; otherwise in cells. */
static bool is_detailed_plan(const struct drawing *drawing)
{
    return drawing->problem->graph->op_count <= MAX_DETAILED;
}

/* The clock of an operation, 0 if it has none. */
static uint32_t plan_picture_clock_of(const struct drawing *drawing, size_t op)
{
    return lull_pipeline_point_of(drawing->problem, drawing->option, op)->sm_mhz;
}

static double plan_picture_x_of(const struct drawing *drawing, int64_t time_ns)
{
    return drawing->left + drawing->width * (double)time_ns / (double)drawing->span_ns;
}

static double plan_picture_y_of(const struct drawing *drawing, uint32_t device)
{
    return drawing->top + drawing->row * device;
}

/* ---- the plan in time -------------------------------------------------------------------- */

/* The operation that this one waited for, the sender where there is a choice; -1 if there is none.
 */
static int64_t critical_before(const struct drawing *drawing, uint32_t op)
{
    const struct lull_pipeline_graph *const graph = drawing->problem->graph;
    int64_t found = -1;

    for (uint32_t i = graph->first_in[op]; i < graph->first_in[op + 1]; i++) {
        const struct lull_pipeline_edge *const edge = &graph->edges[graph->in_edges[i]];

        if (drawing->begin_ns[edge->from] + drawing->duration_ns[edge->from] + edge->latency_ns ==
                drawing->begin_ns[op] &&
            (found < 0 || graph->ops[edge->from].device != graph->ops[op].device))
            found = edge->from;
    }
    return found;
}

/* Takes a plan, which has an option for every operation, and finds its times and critical path. */
static void set_plan(struct drawing *drawing, const uint32_t *option)
{
    const struct lull_pipeline_graph *const graph = drawing->problem->graph;
    int64_t op = 0;

    drawing->option = option;
    for (size_t i = 0; i < graph->op_count; i++)
        drawing->duration_ns[i] = lull_pipeline_point_of(drawing->problem, option, i)->time_ns;
    drawing->makespan_ns = lull_pipeline_earliest(graph, drawing->duration_ns, drawing->begin_ns);
    while (drawing->begin_ns[op] + drawing->duration_ns[op] != drawing->makespan_ns)
        op++;
    drawing->path_length = 0;
    for (; op >= 0; op = critical_before(drawing, (uint32_t)op))
        drawing->path[drawing->path_length++] = (uint32_t)op;
}

/* ---- gaps with a clock --------------------------------------------------------------------- */

/* The colour of gaps that wait at a point: the lower the clock, the darker. */
static uint32_t wait_rgb(const struct drawing *drawing, uint32_t point)
{
    static const uint32_t shades[] = {0x9fb6d6, 0xb4c6df, 0xc6d4e7, 0xd5dfed};
    uint32_t deeper = 0;

    for (size_t i = 0; i < drawing->waiting->count; i++)
        deeper += drawing->waiting->points[i].sm_mhz < drawing->waiting->points[point].sm_mhz;
    return shades[deeper < 3 ? deeper : 3];
}

/* Draws the gaps that have a clock of their own, from the command to go down to the one to wake. */
static void draw_waits(const struct drawing *drawing, const struct lull_plan_waits *waits)
{
    for (uint32_t point = 0; point < drawing->waiting->count; point++) {
        bool is_open = false;

        for (size_t i = 0; i < waits->count; i++) {
            const struct lull_pipeline_wait *const wait = &waits->waits[i];
            const double begin = plan_picture_x_of(drawing, wait->begin_ns);

            if (wait->point != point)
                continue;
            if (!is_open)
                fprintf(drawing->file, "<path fill=\"#%06x\" d=\"", wait_rgb(drawing, point));
            is_open = true;
            fprintf(drawing->file, "M%.1f %.1fH%.1fv%.1fH%.1fz", begin,
                    plan_picture_y_of(drawing, wait->device) + drawing->row * 0.06,
                    plan_picture_x_of(drawing, wait->wake_ns), drawing->row * 0.88, begin);
        }
        if (is_open)
            fprintf(drawing->file, "\"/>\n");
    }
}

/* ---- operations one by one --------------------------------------------------------------- */

/* Forwards are drawn less tall than backwards, so that both can be distinguished at one clock. */
static void add_box(const struct drawing *drawing, size_t op)
{
    const struct lull_pipeline_op *const entry = &drawing->problem->graph->ops[op];
    const double inset =
        drawing->row *
        (lull_pipeline_class_of(drawing->problem, op)->kind == LULL_PIPELINE_FORWARD ? 0.2 : 0.06);
    const double begin = plan_picture_x_of(drawing, drawing->begin_ns[op]);
    const double width =
        plan_picture_x_of(drawing, drawing->begin_ns[op] + drawing->duration_ns[op]) - begin;

    fprintf(drawing->file, "M%.1f %.1fh%.1fv%.1fh%.1fz", begin,
            plan_picture_y_of(drawing, entry->device) + inset, width, drawing->row - 2.0 * inset,
            -width);
}

/* All operations of a shade share one path, which makes files of thousands of operations small. */
static void draw_operations(const struct drawing *drawing)
{
    const size_t count = drawing->problem->graph->op_count;

    for (uint32_t shade = 0; shade < drawing->colours.shade_count; shade++) {
        bool is_open = false;

        for (size_t op = 0; op < count; op++) {
            if (lull_clock_colours_shade(&drawing->colours, plan_picture_clock_of(drawing, op)) !=
                shade)
                continue;
            if (!is_open)
                fprintf(drawing->file,
                        "<path fill=\"#%06x\" stroke=\"#fff\" stroke-width=\".6\" d=\"",
                        drawing->colours.shades[shade].rgb);
            is_open = true;
            add_box(drawing, op);
        }
        if (is_open)
            fprintf(drawing->file, "\"/>\n");
    }
}

/* About how wide a micro-batch's number is, in pixels. */
static double width_of(uint32_t number)
{
    if (number < 10)
        return 7.0;
    return number < 100 ? 12.5 : 18.0;
}

/* Draws the numbers of micro-batches where they fit. */
static void draw_numbers(const struct drawing *drawing)
{
    const struct lull_pipeline_graph *const graph = drawing->problem->graph;

    if (drawing->row < 13.0)
        return;
    fprintf(drawing->file, "<g font-size=\"9.5\" text-anchor=\"middle\">\n");
    for (size_t op = 0; op < graph->op_count; op++) {
        const int64_t middle_ns = drawing->begin_ns[op] + drawing->duration_ns[op] / 2;
        const double width = plan_picture_x_of(drawing, drawing->duration_ns[op]) - drawing->left;
        const uint32_t number = graph->ops[op].microbatch;
        const uint32_t shade =
            lull_clock_colours_shade(&drawing->colours, plan_picture_clock_of(drawing, op));

        if (width < width_of(number) ||
            lull_pipeline_class_of(drawing->problem, op)->kind == LULL_PIPELINE_FIXED)
            continue;
        fprintf(drawing->file, "<text x=\"%.1f\" y=\"%.1f\"%s>%u</text>\n",
                plan_picture_x_of(drawing, middle_ns),
                plan_picture_y_of(drawing, graph->ops[op].device) + drawing->row * 0.5 + 3.4,
                drawing->colours.shades[shade].is_dark ? " fill=\"#fff\"" : "", number);
    }
    fprintf(drawing->file, "</g>\n");
}

static void draw_path_outlined(const struct drawing *drawing)
{
    const struct lull_pipeline_graph *const graph = drawing->problem->graph;

    fprintf(drawing->file, "<path fill=\"none\" stroke=\"#111\" stroke-width=\"1.7\" "
                           "stroke-linejoin=\"round\" d=\"");
    for (size_t i = 0; i < drawing->path_length; i++)
        add_box(drawing, drawing->path[i]);
    /* Lines show where the path continues to another device. */
    for (size_t i = 1; i < drawing->path_length; i++) {
        const uint32_t op = drawing->path[i - 1];
        const uint32_t before = drawing->path[i];
        const int64_t end_ns = drawing->begin_ns[before] + drawing->duration_ns[before];

        if (graph->ops[op].device != graph->ops[before].device)
            fprintf(drawing->file, "M%.1f %.1fL%.1f %.1f", plan_picture_x_of(drawing, end_ns),
                    plan_picture_y_of(drawing, graph->ops[before].device) + drawing->row * 0.5,
                    plan_picture_x_of(drawing, drawing->begin_ns[op]),
                    plan_picture_y_of(drawing, graph->ops[op].device) + drawing->row * 0.5);
    }
    fprintf(drawing->file, "\"/>\n");
}

/* ---- in cells ---------------------------------------------------------------------------- */

struct drawing_cell {
    double busy_ns;
    double clock_ns; /* MHz times ns */
};

/* Adds one operation to the cells that it overlaps. */
static void fill_cells(const struct drawing *drawing, size_t op, double cell_ns, size_t cell_count,
                       struct drawing_cell *cells)
{
    const double begin = (double)drawing->begin_ns[op];
    const double end = begin + (double)drawing->duration_ns[op];

    for (size_t i = (size_t)(begin / cell_ns); i < cell_count && (double)i * cell_ns < end; i++) {
        const double part_ns =
            fmin(end, (double)(i + 1) * cell_ns) - fmax(begin, (double)i * cell_ns);

        cells[i].busy_ns += part_ns;
        cells[i].clock_ns += part_ns * plan_picture_clock_of(drawing, op);
    }
}

/* The shade of a cell's mean clock; -1 where the device mostly waits. */
static int64_t cell_shade(const struct drawing *drawing, const struct drawing_cell *cell,
                          double cell_ns)
{
    if (cell->busy_ns < 0.5 * cell_ns)
        return -1;
    return lull_clock_colours_shade(&drawing->colours,
                                    (uint32_t)(cell->clock_ns / cell->busy_ns + 0.5));
}

/* Neighbouring cells of one shade are drawn as one line. */
static void draw_cell_row(const struct drawing *drawing, uint32_t device, size_t cell_count,
                          struct drawing_cell *cells)
{
    const struct lull_pipeline_graph *const graph = drawing->problem->graph;
    const double cell_ns = (double)drawing->span_ns / (double)cell_count;
    const double width = drawing->width / (double)cell_count;

    for (size_t i = 0; i < cell_count; i++)
        cells[i] = (struct drawing_cell){0};
    for (uint32_t i = graph->first_on[device]; i < graph->first_on[device + 1]; i++)
        fill_cells(drawing, graph->on_device[i], cell_ns, cell_count, cells);
    for (size_t begin = 0, end; begin < cell_count; begin = end) {
        const int64_t shade = cell_shade(drawing, &cells[begin], cell_ns);

        for (end = begin + 1; end < cell_count; end++)
            if (cell_shade(drawing, &cells[end], cell_ns) != shade)
                break;
        if (shade >= 0)
            fprintf(drawing->file, "<path stroke=\"#%06x\" d=\"M%.1f %.1fh%.1f\"/>\n",
                    drawing->colours.shades[shade].rgb, drawing->left + width * (double)begin,
                    plan_picture_y_of(drawing, device) + drawing->row * 0.5,
                    width * (double)(end - begin));
    }
}

static int draw_cells(const struct drawing *drawing)
{
    const uint32_t devices = drawing->problem->graph->device_count;
    size_t cell_count = MAX_CELLS / devices;
    struct drawing_cell *cells;

    if (cell_count < MIN_ROW_CELLS)
        cell_count = MIN_ROW_CELLS;
    if (cell_count > MAX_ROW_CELLS)
        cell_count = MAX_ROW_CELLS;
    cells = calloc(cell_count, sizeof(*cells));
    if (cells == NULL)
        return -ENOMEM;
    fprintf(drawing->file, "<g stroke-width=\"%.2f\">\n", drawing->row * 0.9);
    for (uint32_t device = 0; device < devices; device++)
        draw_cell_row(drawing, device, cell_count, cells);
    fprintf(drawing->file, "</g>\n");
    free(cells);
    return 0;
}

/* A path of very many operations is thinned out: a line of more points than pixels shows nothing
 * more. */
static void draw_path_line(const struct drawing *drawing)
{
    const size_t stride = drawing->path_length / MAX_PATH_POINTS + 1;

    fprintf(drawing->file,
            "<polyline fill=\"none\" stroke=\"#111\" stroke-width=\"1.2\" points=\"");
    for (size_t i = 0; i < drawing->path_length; i += stride) {
        const uint32_t op = drawing->path[i];

        fprintf(drawing->file, "%.1f,%.1f ",
                plan_picture_x_of(drawing, drawing->begin_ns[op] + drawing->duration_ns[op] / 2),
                plan_picture_y_of(drawing, drawing->problem->graph->ops[op].device) +
                    drawing->row * 0.5);
    }
    fprintf(drawing->file, "\"/>\n");
}

/* Draws the plan's operations and its critical path. Error: -ENOMEM. */
static int draw_plan(const struct drawing *drawing)
{
    int result;

    if (is_detailed_plan(drawing)) {
        draw_operations(drawing);
        draw_path_outlined(drawing);
        draw_numbers(drawing);
        return 0;
    }
    result = draw_cells(drawing);
    draw_path_line(drawing);
    return result;
}

/* ---- a panel ----------------------------------------------------------------------------- */

static void plan_picture_draw_rows(const struct drawing *drawing, const char *caption)
{
    const uint32_t devices = drawing->problem->graph->device_count;
    const uint32_t stride = (uint32_t)ceil(12.0 / drawing->row);

    fprintf(drawing->file,
            "<text x=\"%.0f\" y=\"%.1f\" font-size=\"14\" font-weight=\"600\">%s</text>\n", left,
            drawing->top - 9.0, caption);
    fprintf(drawing->file, "<g fill=\"#e9e9ec\">\n");
    for (uint32_t device = 0; device < devices; device++)
        fprintf(drawing->file, "<path d=\"M%.1f %.1fH%.1fv%.1fH%.1fz\"/>\n", left,
                plan_picture_y_of(drawing, device) + drawing->row * 0.06,
                plan_picture_x_of(drawing, drawing->makespan_ns), drawing->row * 0.88, left);
    fprintf(drawing->file, "</g>\n<g font-size=\"11\" text-anchor=\"end\" fill=\"#444\">\n");
    for (uint32_t device = 0; device < devices; device += stride)
        fprintf(drawing->file, "<text x=\"%.0f\" y=\"%.1f\">%s%u</text>\n", left - 8.0,
                plan_picture_y_of(drawing, device) + drawing->row * 0.5 + 4.0,
                stride == 1 ? "stage " : "", device);
    fprintf(drawing->file, "</g>\n");
}

static void draw_end(const struct drawing *drawing)
{
    const double x = plan_picture_x_of(drawing, drawing->makespan_ns);
    const double bottom = plan_picture_y_of(drawing, drawing->problem->graph->device_count);

    fprintf(drawing->file,
            "<path stroke=\"#111\" stroke-dasharray=\"4 3\" d=\"M%.1f %.1fV%.1f\"/>\n", x,
            drawing->top - 4.0, bottom + 4.0);
}

static int plan_picture_draw_panel(struct drawing *drawing, const struct lull_plan_panel *panel)
{
    int result;

    set_plan(drawing, panel->option);
    plan_picture_draw_rows(drawing, panel->caption);
    if (panel->waits != NULL)
        draw_waits(drawing, panel->waits);
    result = draw_plan(drawing);
    draw_end(drawing);
    return result;
}

/* ---- what is around ---------------------------------------------------------------------- */

/* Explains the other marks, to the right of the clocks. */
static void draw_keys(const struct drawing *drawing, double x)
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
    const bool is_detailed = is_detailed_plan(drawing);

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
static void draw_waiting_keys(const struct drawing *drawing)
{
    double x = left;

    for (uint32_t i = 0; i < drawing->waiting->count; i++, x += 150.0)
        fprintf(drawing->file,
                "<rect x=\"%.0f\" y=\"70\" width=\"20\" height=\"14\" fill=\"#%06x\"/>"
                "<text x=\"%.0f\" y=\"81\">waits at %u MHz</text>\n",
                x, wait_rgb(drawing, i), x + 26.0, drawing->waiting->points[i].sm_mhz);
}

static void plan_picture_draw_header(const struct drawing *drawing, const char *title)
{
    fprintf(drawing->file, "<text x=\"%.0f\" y=\"30\" font-size=\"18\" font-weight=\"600\">", left);
    lull_printable_print(LULL_PRINTABLE_PAGE, title, drawing->file);
    fprintf(drawing->file, "</text>\n<g font-size=\"12\" fill=\"#333\">\n");
    draw_waiting_keys(drawing);
    draw_keys(drawing, lull_clock_colours_draw(&drawing->colours, drawing->file, left, 48.0));
    fprintf(drawing->file, "</g>\n");
}

static int plan_picture_draw(struct drawing *drawing, const char *title,
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
    plan_picture_draw_header(drawing, title);
    for (size_t i = 0; i < panel_count && result == 0; i++) {
        drawing->top = top + panel_height * (double)i + caption_height;
        result = plan_picture_draw_panel(drawing, &panels[i]);
    }
    lull_picture_draw_time_axis(drawing->file,
                                &(struct lull_picture_time_axis){drawing->left, drawing->width,
                                                                 top + caption_height, bottom,
                                                                 (double)drawing->span_ns * 1e-9});
    fprintf(drawing->file, "</svg>\n");
    return result;
}

/* ---- all together ------------------------------------------------------------------------ */

/* All panels share one time axis, so that their lengths can be compared. */
static int64_t plan_picture_span_of(struct drawing *drawing, const struct lull_plan_panel *panels,
                                    size_t count)
{
    int64_t span_ns = 1;

    for (size_t i = 0; i < count; i++) {
        set_plan(drawing, panels[i].option);
        if (drawing->makespan_ns > span_ns)
            span_ns = drawing->makespan_ns;
    }
    return span_ns;
}

/* All panels share their colours, so that a shade means the same clock in each. */
static void plan_picture_find_colours(struct drawing *drawing, const struct lull_plan_panel *panels,
                                      size_t count)
{
    lull_clock_colours_init(&drawing->colours);
    for (size_t i = 0; i < count; i++) {
        drawing->option = panels[i].option;
        for (size_t op = 0; op < drawing->problem->graph->op_count; op++)
            lull_clock_colours_add(&drawing->colours, plan_picture_clock_of(drawing, op));
    }
    lull_clock_colours_finish(&drawing->colours);
}

/* Content that lull_file_write_with() writes. */
struct plan_picture {
    struct drawing *drawing;
    const char *title;
    const struct lull_plan_panel *panels;
    size_t panel_count;
};

static int plan_picture_write(const void *context, FILE *file)
{
    const struct plan_picture *const picture = context;
    struct drawing *const drawing = picture->drawing;

    drawing->file = file;
    drawing->span_ns = plan_picture_span_of(drawing, picture->panels, picture->panel_count);
    plan_picture_find_colours(drawing, picture->panels, picture->panel_count);
    return plan_picture_draw(drawing, picture->title, picture->panels, picture->panel_count);
}

int lull_plan_picture_write(const char *path, const char *title,
                            const struct lull_pipeline_problem *problem,
                            const struct lull_plan_waiting_points *waiting,
                            const struct lull_plan_panel *panels, size_t panel_count,
                            struct lull_error *err)
{
    const size_t count = problem->graph->op_count;
    struct lull_memory memory = {0};
    struct drawing drawing = {
        .problem = problem,
        .waiting = waiting,
        .left = left,
        .width = page_width - left - right,
        .row = fmin(26.0, fmax(2.0, 600.0 / problem->graph->device_count)),
        .duration_ns = lull_memory_take(&memory, count, sizeof(*drawing.duration_ns)),
        .begin_ns = lull_memory_take(&memory, count, sizeof(*drawing.begin_ns)),
        .path = lull_memory_take(&memory, count, sizeof(*drawing.path)),
    };
    const struct plan_picture picture = {&drawing, title, panels, panel_count};
    int result;

    if (memory.has_failed)
        result = lull_error_set(err, -ENOMEM, "%s: no memory for the picture", path);
    else
        result = lull_file_write_with(path, plan_picture_write, &picture, err);
    lull_memory_free(&memory);
    return result;
}
