/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/drawing.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

enum {
    MOST_CELLS = 24000,   /* of all devices of a plan */
    LEAST_ROW_CELLS = 24, /* of a device */
    MOST_ROW_CELLS = 700,
    MOST_PATH_POINTS = 2000,
};

bool lull_plan_drawing_is_detailed(const struct lull_plan_drawing *drawing)
{
    return drawing->problem->graph->op_count <= LULL_PLAN_MOST_DETAILED;
}

uint32_t lull_plan_drawing_clock(const struct lull_plan_drawing *drawing, size_t op)
{
    return lull_pipeline_class_of(drawing->problem, op)->points[drawing->option[op]].sm_mhz;
}

double lull_plan_drawing_x(const struct lull_plan_drawing *drawing, int64_t time_ns)
{
    return drawing->left + drawing->width * (double)time_ns / (double)drawing->span_ns;
}

double lull_plan_drawing_y(const struct lull_plan_drawing *drawing, uint32_t device)
{
    return drawing->top + drawing->row * device;
}

/* ---- the plan in time -------------------------------------------------------------------- */

/* The operation that this one waited for, the sender where there is a choice; -1 if there is none.
 */
static int64_t critical_before(const struct lull_plan_drawing *drawing, uint32_t op)
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

void lull_plan_drawing_set(struct lull_plan_drawing *drawing, const uint32_t *option)
{
    const struct lull_pipeline_graph *const graph = drawing->problem->graph;
    int64_t op = 0;

    drawing->option = option;
    for (size_t i = 0; i < graph->op_count; i++)
        drawing->duration_ns[i] =
            lull_pipeline_class_of(drawing->problem, i)->points[option[i]].time_ns;
    drawing->makespan_ns = lull_pipeline_earliest(graph, drawing->duration_ns, drawing->begin_ns);
    while (drawing->begin_ns[op] + drawing->duration_ns[op] != drawing->makespan_ns)
        op++;
    drawing->path_length = 0;
    for (; op >= 0; op = critical_before(drawing, (uint32_t)op))
        drawing->path[drawing->path_length++] = (uint32_t)op;
}

/* ---- gaps with a clock --------------------------------------------------------------------- */

uint32_t lull_plan_drawing_wait_rgb(const struct lull_plan_drawing *drawing, uint32_t point)
{
    static const uint32_t shades[] = {0x9fb6d6, 0xb4c6df, 0xc6d4e7, 0xd5dfed};
    uint32_t deeper = 0;

    for (size_t i = 0; i < drawing->waiting->count; i++)
        deeper += drawing->waiting->points[i].sm_mhz < drawing->waiting->points[point].sm_mhz;
    return shades[deeper < 3 ? deeper : 3];
}

void lull_plan_drawing_draw_waits(const struct lull_plan_drawing *drawing,
                                  const struct lull_plan_waits *waits)
{
    for (uint32_t point = 0; point < drawing->waiting->count; point++) {
        bool is_open = false;

        for (size_t i = 0; i < waits->count; i++) {
            const struct lull_pipeline_wait *const wait = &waits->waits[i];
            const double begin = lull_plan_drawing_x(drawing, wait->begin_ns);

            if (wait->point != point)
                continue;
            if (!is_open)
                fprintf(drawing->file, "<path fill=\"#%06x\" d=\"",
                        lull_plan_drawing_wait_rgb(drawing, point));
            is_open = true;
            fprintf(drawing->file, "M%.1f %.1fH%.1fv%.1fH%.1fz", begin,
                    lull_plan_drawing_y(drawing, wait->device) + drawing->row * 0.06,
                    lull_plan_drawing_x(drawing, wait->wake_ns), drawing->row * 0.88, begin);
        }
        if (is_open)
            fprintf(drawing->file, "\"/>\n");
    }
}

/* ---- operations one by one --------------------------------------------------------------- */

static void add_box(const struct lull_plan_drawing *drawing, size_t op)
{
    const struct lull_pipeline_op *const entry = &drawing->problem->graph->ops[op];
    const double inset =
        drawing->row *
        (lull_pipeline_class_of(drawing->problem, op)->kind == LULL_PIPELINE_FORWARD ? 0.2 : 0.06);
    const double begin = lull_plan_drawing_x(drawing, drawing->begin_ns[op]);
    const double width =
        lull_plan_drawing_x(drawing, drawing->begin_ns[op] + drawing->duration_ns[op]) - begin;

    fprintf(drawing->file, "M%.1f %.1fh%.1fv%.1fh%.1fz", begin,
            lull_plan_drawing_y(drawing, entry->device) + inset, width, drawing->row - 2.0 * inset,
            -width);
}

static void draw_operations(const struct lull_plan_drawing *drawing)
{
    const size_t count = drawing->problem->graph->op_count;

    for (uint32_t shade = 0; shade < drawing->colours.shade_count; shade++) {
        bool is_open = false;

        for (size_t op = 0; op < count; op++) {
            if (lull_clock_colours_shade(&drawing->colours, lull_plan_drawing_clock(drawing, op)) !=
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
static void draw_numbers(const struct lull_plan_drawing *drawing)
{
    const struct lull_pipeline_graph *const graph = drawing->problem->graph;

    if (drawing->row < 13.0)
        return;
    fprintf(drawing->file, "<g font-size=\"9.5\" text-anchor=\"middle\">\n");
    for (size_t op = 0; op < graph->op_count; op++) {
        const int64_t middle_ns = drawing->begin_ns[op] + drawing->duration_ns[op] / 2;
        const double width = lull_plan_drawing_x(drawing, drawing->duration_ns[op]) - drawing->left;
        const uint32_t number = graph->ops[op].microbatch;
        const uint32_t shade =
            lull_clock_colours_shade(&drawing->colours, lull_plan_drawing_clock(drawing, op));

        if (width < width_of(number) ||
            lull_pipeline_class_of(drawing->problem, op)->kind == LULL_PIPELINE_FIXED)
            continue;
        fprintf(drawing->file, "<text x=\"%.1f\" y=\"%.1f\"%s>%u</text>\n",
                lull_plan_drawing_x(drawing, middle_ns),
                lull_plan_drawing_y(drawing, graph->ops[op].device) + drawing->row * 0.5 + 3.4,
                drawing->colours.shades[shade].is_dark ? " fill=\"#fff\"" : "", number);
    }
    fprintf(drawing->file, "</g>\n");
}

static void draw_path_outlined(const struct lull_plan_drawing *drawing)
{
    const struct lull_pipeline_graph *const graph = drawing->problem->graph;

    fprintf(drawing->file, "<path fill=\"none\" stroke=\"#111\" stroke-width=\"1.7\" "
                           "stroke-linejoin=\"round\" d=\"");
    for (size_t i = 0; i < drawing->path_length; i++)
        add_box(drawing, drawing->path[i]);
    /* Lines show where the path goes on to another device. */
    for (size_t i = 1; i < drawing->path_length; i++) {
        const uint32_t op = drawing->path[i - 1];
        const uint32_t before = drawing->path[i];
        const int64_t end_ns = drawing->begin_ns[before] + drawing->duration_ns[before];

        if (graph->ops[op].device != graph->ops[before].device)
            fprintf(drawing->file, "M%.1f %.1fL%.1f %.1f", lull_plan_drawing_x(drawing, end_ns),
                    lull_plan_drawing_y(drawing, graph->ops[before].device) + drawing->row * 0.5,
                    lull_plan_drawing_x(drawing, drawing->begin_ns[op]),
                    lull_plan_drawing_y(drawing, graph->ops[op].device) + drawing->row * 0.5);
    }
    fprintf(drawing->file, "\"/>\n");
}

/* ---- in cells ---------------------------------------------------------------------------- */

struct drawing_cell {
    double busy_ns;
    double clock_ns; /* MHz times ns */
};

/* Adds one operation to the cells that it overlaps. */
static void fill_cells(const struct lull_plan_drawing *drawing, size_t op, double cell_ns,
                       size_t cell_count, struct drawing_cell *cells)
{
    const double begin = (double)drawing->begin_ns[op];
    const double end = begin + (double)drawing->duration_ns[op];

    for (size_t i = (size_t)(begin / cell_ns); i < cell_count && (double)i * cell_ns < end; i++) {
        const double part_ns =
            fmin(end, (double)(i + 1) * cell_ns) - fmax(begin, (double)i * cell_ns);

        cells[i].busy_ns += part_ns;
        cells[i].clock_ns += part_ns * lull_plan_drawing_clock(drawing, op);
    }
}

/* The shade of a cell's mean clock; -1 where the device mostly waits. */
static int64_t cell_shade(const struct lull_plan_drawing *drawing, const struct drawing_cell *cell,
                          double cell_ns)
{
    if (cell->busy_ns < 0.5 * cell_ns)
        return -1;
    return lull_clock_colours_shade(&drawing->colours,
                                    (uint32_t)(cell->clock_ns / cell->busy_ns + 0.5));
}

static void draw_cell_row(const struct lull_plan_drawing *drawing, uint32_t device,
                          size_t cell_count, struct drawing_cell *cells)
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
                    lull_plan_drawing_y(drawing, device) + drawing->row * 0.5,
                    width * (double)(end - begin));
    }
}

static int draw_cells(const struct lull_plan_drawing *drawing)
{
    const uint32_t devices = drawing->problem->graph->device_count;
    size_t cell_count = MOST_CELLS / devices;
    struct drawing_cell *cells;

    if (cell_count < LEAST_ROW_CELLS)
        cell_count = LEAST_ROW_CELLS;
    if (cell_count > MOST_ROW_CELLS)
        cell_count = MOST_ROW_CELLS;
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

static void draw_path_line(const struct lull_plan_drawing *drawing)
{
    const size_t stride = drawing->path_length / MOST_PATH_POINTS + 1;

    fprintf(drawing->file,
            "<polyline fill=\"none\" stroke=\"#111\" stroke-width=\"1.2\" points=\"");
    for (size_t i = 0; i < drawing->path_length; i += stride) {
        const uint32_t op = drawing->path[i];

        fprintf(drawing->file, "%.1f,%.1f ",
                lull_plan_drawing_x(drawing, drawing->begin_ns[op] + drawing->duration_ns[op] / 2),
                lull_plan_drawing_y(drawing, drawing->problem->graph->ops[op].device) +
                    drawing->row * 0.5);
    }
    fprintf(drawing->file, "\"/>\n");
}

int lull_plan_drawing_draw(const struct lull_plan_drawing *drawing)
{
    int result;

    if (lull_plan_drawing_is_detailed(drawing)) {
        draw_operations(drawing);
        draw_path_outlined(drawing);
        draw_numbers(drawing);
        return 0;
    }
    result = draw_cells(drawing);
    draw_path_line(drawing);
    return result;
}
