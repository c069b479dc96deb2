/*
 * Pictures of a dataset: valleys.svg, the energy of each kernel's launch over the SM clock, a panel
 * for each kernel; sensitivity.svg, how much of each kernel's time follows the SM clock, and what
 * its cheapest clock saves. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/printable.h"
#include "cli/shared/picture.h"
#include "lab/sweep/curves.h"
#include "lab/sweep/files.h"

/* All lengths are in pixels. */
enum { COLUMNS = 4 };
static const double panel_width = 236.0;
static const double panel_height = 172.0;
static const double gap = 26.0;
static const double margin = 58.0;
static const double header = 64.0;
static const double footer = 50.0;

/* Energies above this multiple of that at the highest clock are cut off, because only the minimum
 * matters. */
static const double max_ratio = 1.6;

static const char style[] =
    "<style>text{font-family:system-ui,sans-serif;fill:#333}.small{font-size:11px}"
    ".title{font-size:13px;font-weight:600}.head{font-size:16px;font-weight:600}"
    ".axis{stroke:#999;fill:none}.grid{stroke:#0000001a;fill:none}.ground{fill:#fff}"
    ".curve{fill:none;stroke:#2c6fbb;stroke-width:2}.lower{fill:none;stroke:#2c6fbb;"
    "stroke-opacity:.35;stroke-width:1.5}.point{fill:#2c6fbb}.best{fill:#c0392b}"
    ".bubble{fill:#2c6fbb;fill-opacity:.45;stroke:#2c6fbb}"
    "@media (prefers-color-scheme:dark){text{fill:#ddd}.ground{fill:#1c1c1e}.axis{stroke:#777}"
    ".grid{stroke:#ffffff26}}</style>\n";

static void begin_picture(FILE *file, double width, double height)
{
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "viewBox=\"0 0 %.0f %.0f\">\n%s<rect class=\"ground\" width=\"100%%\" "
            "height=\"100%%\"/>\n",
            width, height, width, height, style);
}

static void __attribute__((format(printf, 6, 7)))
sweep_plot_write_label(FILE *file, double x, double y, const char *class, const char *anchor,
                       const char *format, ...)
{
    char text[256];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    fprintf(file, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", class, x, y,
            anchor);
    lull_printable_print(LULL_PRINTABLE_PAGE, text, file);
    fputs("</text>\n", file);
}

/* ---- drawing ------------------------------------------------------------------------------- */

static bool has_power(const struct lull_sweep_curve *curve)
{
    for (size_t i = 0; i < curve->count; i++)
        if (curve->points[i].power_w.count == 0)
            return false;
    return curve->count > 1;
}

static const struct lull_sweep_curve_point *top_of(const struct lull_sweep_curve *curve)
{
    return &curve->points[curve->count - 1];
}

static const struct lull_sweep_curve_point *cheapest_of(const struct lull_sweep_curve *curve)
{
    const struct lull_sweep_curve_point *best = top_of(curve);

    for (size_t i = 0; i < curve->count; i++)
        if (lull_sweep_energy_j(&curve->points[i]) < lull_sweep_energy_j(best))
            best = &curve->points[i];
    return best;
}

static bool is_same_kernel(const struct lull_sweep_curve *a, const struct lull_sweep_curve *b)
{
    return strcmp(a->first->kernel, b->first->kernel) == 0 &&
           strcmp(a->first->arg, b->first->arg) == 0 &&
           strcmp(a->first->suite, b->first->suite) == 0 &&
           strcmp(a->first->unit, b->first->unit) == 0 &&
           a->first->mem_set_mhz == b->first->mem_set_mhz;
}

/* Returns whether a curve is the one of its kernel at the highest power limit. */
static bool is_main(const struct lull_sweep_curves *curves, const struct lull_sweep_curve *curve)
{
    for (size_t i = 0; i < curves->count; i++) {
        const struct lull_sweep_curve *const other = &curves->curves[i];

        if (other != curve && has_power(other) && is_same_kernel(other, curve) &&
            other->first->limit_set_w > curve->first->limit_set_w)
            return false;
    }
    return has_power(curve);
}

static size_t count_main(const struct lull_sweep_curves *curves)
{
    size_t count = 0;

    for (size_t i = 0; i < curves->count; i++)
        count += is_main(curves, &curves->curves[i]);
    return count;
}

/* ---- valleys ------------------------------------------------------------------------------- */

struct panel {
    double left;
    double top;
    double min_mhz;
    double max_mhz;
    double min_ratio;
    double base_j; /* of a launch at the highest clock and power limit */
};

static double sweep_plot_x_of(const struct panel *panel, double mhz)
{
    return panel->left +
           panel_width * (mhz - panel->min_mhz) / fmax(panel->max_mhz - panel->min_mhz, 1.0);
}

static double sweep_plot_y_of(const struct panel *panel, double ratio)
{
    return panel->top + panel_height * (max_ratio - ratio) / (max_ratio - panel->min_ratio);
}

static void draw_frame(FILE *file, const struct panel *panel, bool is_left, bool is_bottom)
{
    fprintf(file, "<path class=\"grid\" d=\"");
    for (int i = (int)ceil(panel->min_ratio * 5.0 - 1e-9); i <= (int)(max_ratio * 5.0); i++)
        fprintf(file, "M%.1f %.1fh%.1f", panel->left, sweep_plot_y_of(panel, i / 5.0), panel_width);
    fprintf(file, "\"/>\n<path class=\"axis\" d=\"M%.1f %.1fv%.1fh%.1f\"/>\n", panel->left,
            panel->top, panel_height, panel_width);
    fprintf(file, "<path class=\"axis\" stroke-dasharray=\"3 3\" d=\"M%.1f %.1fh%.1f\"/>\n",
            panel->left, sweep_plot_y_of(panel, 1.0), panel_width);
    for (int i = (int)ceil(panel->min_ratio * 5.0 - 1e-9); is_left && i <= (int)(max_ratio * 5.0);
         i++)
        sweep_plot_write_label(file, panel->left - 6.0, sweep_plot_y_of(panel, i / 5.0) + 4.0,
                               "small", "end", "%d %%", 20 * i);
    if (!is_bottom)
        return;
    sweep_plot_write_label(file, panel->left, panel->top + panel_height + 16.0, "small", "start",
                           "%.0f MHz", panel->min_mhz);
    sweep_plot_write_label(file, panel->left + panel_width, panel->top + panel_height + 16.0,
                           "small", "end", "%.0f MHz", panel->max_mhz);
}

static void sweep_plot_draw_curve(FILE *file, const struct panel *panel,
                                  const struct lull_sweep_curve *curve, bool is_highest)
{
    fprintf(file, "<polyline class=\"%s\" clip-path=\"url(#p%.0f-%.0f)\" points=\"",
            is_highest ? "curve" : "lower", panel->left, panel->top);
    for (size_t i = 0; i < curve->count; i++)
        fprintf(file, "%.1f,%.1f ", sweep_plot_x_of(panel, curve->points[i].sm_mhz),
                sweep_plot_y_of(panel, lull_sweep_energy_j(&curve->points[i]) / panel->base_j));
    fprintf(file, "\"/>\n");
    for (size_t i = 0; i < curve->count && is_highest; i++) {
        const double ratio = lull_sweep_energy_j(&curve->points[i]) / panel->base_j;

        if (ratio <= max_ratio)
            fprintf(file, "<circle class=\"point\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\"/>\n",
                    sweep_plot_x_of(panel, curve->points[i].sm_mhz), sweep_plot_y_of(panel, ratio));
    }
}

/* The cheapest clock, with its savings and slowdown. */
static void draw_best(FILE *file, const struct panel *panel, const struct lull_sweep_curve *curve)
{
    const struct lull_sweep_curve_point *const best = cheapest_of(curve);
    const double ratio = lull_sweep_energy_j(best) / panel->base_j;
    const double slower = best->time_ms.mean / top_of(curve)->time_ms.mean - 1.0;

    fprintf(file, "<circle class=\"best\" cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\"/>\n",
            sweep_plot_x_of(panel, best->sm_mhz), sweep_plot_y_of(panel, ratio));
    if (best == top_of(curve))
        sweep_plot_write_label(file, panel->left + 6.0, panel->top + panel_height - 8.0, "small",
                               "start", "cheapest at the highest clock");
    else
        sweep_plot_write_label(file, panel->left + 6.0, panel->top + panel_height - 8.0, "small",
                               "start", "%.0f MHz: %.0f %% energy, +%.0f %% time", best->sm_mhz,
                               -100.0 * (1.0 - ratio), 100.0 * slower);
}

static void sweep_plot_draw_panel(FILE *file, const struct lull_sweep_curves *curves,
                                  const struct lull_sweep_curve *curve, struct panel *panel)
{
    panel->base_j = lull_sweep_energy_j(top_of(curve));
    fprintf(file,
            "<clipPath id=\"p%.0f-%.0f\"><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
            "height=\"%.1f\"/></clipPath>\n",
            panel->left, panel->top, panel->left, panel->top, panel_width, panel_height);
    sweep_plot_write_label(file, panel->left, panel->top - 7.0, "title", "start", "%s%s%.20s",
                           curve->first->kernel, curve->first->arg[0] != '\0' ? " " : "",
                           curve->first->arg);
    for (size_t i = 0; i < curves->count; i++)
        if (&curves->curves[i] != curve && is_same_kernel(&curves->curves[i], curve) &&
            has_power(&curves->curves[i]))
            sweep_plot_draw_curve(file, panel, &curves->curves[i], false);
    sweep_plot_draw_curve(file, panel, curve, true);
    draw_best(file, panel, curve);
}

/* The range of all clocks, and the least energy ratio, in steps of 20 %. */
static struct panel sweep_plot_find_range(const struct lull_sweep_curves *curves)
{
    struct panel range = {.min_mhz = INFINITY, .max_mhz = 0.0, .min_ratio = 1.0};

    for (size_t i = 0; i < curves->count; i++) {
        const struct lull_sweep_curve *const curve = &curves->curves[i];

        if (!is_main(curves, curve))
            continue;
        range.min_mhz = fmin(range.min_mhz, curve->points[0].sm_mhz);
        range.max_mhz = fmax(range.max_mhz, top_of(curve)->sm_mhz);
        range.min_ratio = fmin(range.min_ratio, lull_sweep_energy_j(cheapest_of(curve)) /
                                                    lull_sweep_energy_j(top_of(curve)));
    }
    /* Room for the words below the lowest valley. */
    range.min_ratio = fmax(floor((range.min_ratio - 0.15) * 5.0) / 5.0, 0.0);
    return range;
}

static int write_valleys(const void *context, FILE *file)
{
    const struct lull_sweep_curves *const curves = context;
    const size_t count = count_main(curves);
    const size_t rows = (count + COLUMNS - 1) / COLUMNS;
    const double pitch = panel_height + gap + 14.0;
    struct panel panel = sweep_plot_find_range(curves);
    size_t drawn = 0;

    begin_picture(file, margin + COLUMNS * (panel_width + gap),
                  header + (double)rows * pitch + footer);
    sweep_plot_write_label(file, margin, 26.0, "head", "start",
                           "%s: energy of a launch over the SM clock, of that at the highest clock",
                           curves->curves[0].first->gpu);
    for (size_t i = 0; i < curves->count; i++) {
        const size_t row = drawn / COLUMNS;

        if (!is_main(curves, &curves->curves[i]))
            continue;
        panel.left = margin + (double)(drawn % COLUMNS) * (panel_width + gap);
        panel.top = header + (double)row * pitch;
        draw_frame(file, &panel, drawn % COLUMNS == 0, drawn + COLUMNS >= count);
        sweep_plot_draw_panel(file, curves, &curves->curves[i], &panel);
        drawn++;
    }
    sweep_plot_write_label(
        file, margin, header + (double)rows * pitch + 20.0, "small", "start",
        "Red: the cheapest clock that was measured. 100 %%: the highest clock at which rows are "
        "valid. Pale: lower power limits.");
    fputs("</svg>\n", file);
    return 0;
}

/* ---- sensitivity --------------------------------------------------------------------------- */

static const double plot_left = 70.0;
static const double plot_top = 60.0;
static const double plot_width = 720.0;
static const double plot_height = 420.0;

struct bubble {
    const struct lull_sweep_curve *curve;
    double x;
    double y;
    double radius;
    double label_x;
    double label_y;
};

static int compare_bubbles(const void *a, const void *b)
{
    const double left = ((const struct bubble *)a)->y, right = ((const struct bubble *)b)->y;

    return (left > right) - (left < right);
}

static bool is_label_left(const struct bubble *bubble)
{
    return bubble->x > plot_left + 0.7 * plot_width;
}

/* The label of a bubble stands at the side at which there is room, beyond neighbours in its way. */
static double sweep_plot_side_of(const struct bubble *bubble)
{
    return is_label_left(bubble) ? -1.0 : 1.0;
}

/* Moves two labels apart: beyond both bubbles, and one below the other. The first is above. */
static void part_labels(struct bubble *above, struct bubble *below)
{
    const double line = 13.0, reach = 110.0;

    if (fabs(above->x - below->x) > reach ||
        sweep_plot_side_of(above) != sweep_plot_side_of(below) ||
        fabs(above->label_y - below->y) > 2.0 * line)
        return;
    above->label_x = sweep_plot_side_of(above) * fmax(sweep_plot_side_of(above) * above->label_x,
                                                      sweep_plot_side_of(above) * below->label_x);
    below->label_x = above->label_x;
    below->label_y = fmax(below->label_y, above->label_y + line);
}

static void place_labels(struct bubble *bubbles, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bubbles[i].label_y = bubbles[i].y + 4.0;
        bubbles[i].label_x =
            bubbles[i].x + sweep_plot_side_of(&bubbles[i]) * (bubbles[i].radius + 5.0);
    }
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++)
            part_labels(&bubbles[k], &bubbles[i]);
}

static double most_saving(const struct lull_sweep_curves *curves)
{
    double most = 0.1;

    for (size_t i = 0; i < curves->count; i++)
        if (is_main(curves, &curves->curves[i]))
            most = fmax(most, 1.0 - lull_sweep_energy_j(cheapest_of(&curves->curves[i])) /
                                        lull_sweep_energy_j(top_of(&curves->curves[i])));
    return ceil(most * 10.0 + 0.2) / 10.0;
}

static size_t make_bubbles(const struct lull_sweep_curves *curves, double most,
                           struct bubble *bubbles)
{
    double most_w = 1.0;
    size_t count = 0;

    for (size_t i = 0; i < curves->count; i++)
        if (is_main(curves, &curves->curves[i]))
            most_w = fmax(most_w, top_of(&curves->curves[i])->power_w.mean);
    for (size_t i = 0; i < curves->count; i++) {
        const struct lull_sweep_curve *const curve = &curves->curves[i];
        double saving;

        if (!is_main(curves, curve))
            continue;
        saving = 1.0 - lull_sweep_energy_j(cheapest_of(curve)) / lull_sweep_energy_j(top_of(curve));
        bubbles[count++] = (struct bubble){
            .curve = curve,
            .x = plot_left + plot_width * lull_sweep_core_share(curve),
            .y = plot_top + plot_height * (1.0 - saving / most),
            .radius = 14.0 * sqrt(top_of(curve)->power_w.mean / most_w),
        };
    }
    qsort(bubbles, count, sizeof(*bubbles), compare_bubbles);
    place_labels(bubbles, count);
    return count;
}

static void sweep_plot_draw_axes(FILE *file, double most)
{
    fprintf(file, "<path class=\"grid\" d=\"");
    for (int i = 0; i <= 10; i += 2)
        fprintf(file, "M%.1f %.1fv%.1f", plot_left + plot_width * i / 10.0, plot_top, plot_height);
    for (int i = 0; i / 10.0 <= most + 1e-9; i++)
        fprintf(file, "M%.1f %.1fh%.1f", plot_left,
                plot_top + plot_height * (1.0 - i / 10.0 / most), plot_width);
    fprintf(file, "\"/>\n<path class=\"axis\" d=\"M%.1f %.1fv%.1fh%.1f\"/>\n", plot_left, plot_top,
            plot_height, plot_width);
    for (int i = 0; i <= 10; i += 2)
        sweep_plot_write_label(file, plot_left + plot_width * i / 10.0,
                               plot_top + plot_height + 18.0, "small", "middle", "%d %%", 10 * i);
    for (int i = 0; i / 10.0 <= most + 1e-9; i++)
        sweep_plot_write_label(file, plot_left - 8.0,
                               plot_top + plot_height * (1.0 - i / 10.0 / most) + 4.0, "small",
                               "end", "%d %%", 10 * i);
    sweep_plot_write_label(
        file, plot_left + plot_width / 2.0, plot_top + plot_height + 42.0, "small", "middle",
        "part of the time at the highest clock that follows it (0 %%: waits for memory, 100 %%: "
        "computes)");
    sweep_plot_write_label(
        file, plot_left, plot_top - 12.0, "small", "start",
        "energy that the cheapest clock saves; area: power at the highest clock");
}

static int write_sensitivity(const void *context, FILE *file)
{
    const struct lull_sweep_curves *const curves = context;
    const double most = most_saving(curves);
    struct bubble *const bubbles = calloc(curves->count, sizeof(*bubbles));
    size_t count;

    if (bubbles == NULL)
        return -ENOMEM;
    count = make_bubbles(curves, most, bubbles);
    begin_picture(file, plot_left + plot_width + 40.0, plot_top + plot_height + 64.0);
    sweep_plot_write_label(file, plot_left, 26.0, "head", "start",
                           "%s: effect of the SM clock on each kernel",
                           curves->curves[0].first->gpu);
    sweep_plot_draw_axes(file, most);
    for (size_t i = 0; i < count; i++) {
        const struct bubble *const bubble = &bubbles[i];

        fprintf(file, "<circle class=\"bubble\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>\n", bubble->x,
                bubble->y, bubble->radius);
    }
    for (size_t i = 0; i < count; i++) {
        const struct bubble *const bubble = &bubbles[i];
        const double own_x = bubble->x + sweep_plot_side_of(bubble) * (bubble->radius + 5.0);

        /* A label that had to move has a line to its bubble. */
        if (bubble->label_x != own_x || bubble->label_y > bubble->y + 5.0)
            fprintf(file, "<path class=\"axis\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n",
                    bubble->label_x - 3.0 * sweep_plot_side_of(bubble), bubble->label_y - 4.0,
                    bubble->x, bubble->y);
        sweep_plot_write_label(
            file, bubble->label_x, bubble->label_y, "small",
            is_label_left(bubble) ? "end" : "start", "%s%s%.16s", bubble->curve->first->kernel,
            bubble->curve->first->arg[0] != '\0' ? " " : "", bubble->curve->first->arg);
    }
    fputs("</svg>\n", file);
    free(bubbles);
    return 0;
}

/* ---- all of it ----------------------------------------------------------------------------- */

static int sweep_plot_write_picture(const char *directory, const char *name,
                                    int (*write)(const void *context, FILE *file),
                                    const struct lull_sweep_curves *curves, struct lull_error *err)
{
    char path[PATH_MAX];
    int result;

    if ((size_t)snprintf(path, sizeof(path), "%s/%s", directory, name) >= sizeof(path))
        return lull_error_set(err, -ENAMETOOLONG, "%.80s...: the path is too long", directory);
    result = lull_file_write_with(path, write, curves, err);
    if (result == 0)
        printf("%s\n", path);
    return result;
}

int lull_sweep_plot(const char *path, const char *directory, struct lull_error *err)
{
    struct lull_sweep_table table;
    struct lull_sweep_curves curves = {0, NULL};
    int result = lull_sweep_table_read(path, &table, err);

    if (result < 0)
        return result;
    result = lull_sweep_curves_make(&table, &curves, err);
    if (result == 0 && count_main(&curves) == 0)
        result = lull_error_set(err, LULL_E_FORMAT,
                                "%s: no kernel has valid rows with power at two clocks or more, so "
                                "there is nothing to draw",
                                path);
    if (result == 0)
        result = lull_file_make_directory(directory, 0755, err);
    if (result == 0)
        result = sweep_plot_write_picture(directory, "valleys.svg", write_valleys, &curves, err);
    if (result == 0)
        result =
            sweep_plot_write_picture(directory, "sensitivity.svg", write_sensitivity, &curves, err);
    lull_sweep_curves_fini(&curves);
    lull_sweep_table_fini(&table);
    return result;
}
