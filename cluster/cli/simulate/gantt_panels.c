/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/amount.h"
#include "cluster/cli/simulate/gantt_elements.h"
#include "cli/shared/picture.h"

/* Heights of the panels, in pixels. */
static const double power_height = 130.0;
static const double waiting_height = 90.0;

/* Writes the title of a panel above it. */
static void draw_caption(const struct lull_gantt *gantt, double top, const char *caption)
{
    fprintf(gantt->file,
            "<text class=\"title\" fill=\"#111\" x=\"%.0f\" y=\"%.1f\" font-size=\"13\" "
            "font-weight=\"600\">%s</text>\n",
            gantt->left, top - 10.0, caption);
}

static void draw_area(const struct lull_gantt *gantt, const struct lull_picture_bins *bins,
                      double bottom, double per_amount, const char *class, uint32_t rgb)
{
    const struct lull_picture_area area = {gantt->left, gantt->width, bottom, per_amount};

    fprintf(gantt->file, "<path class=\"%s\" fill=\"#%06x\" d=\"", class, rgb);
    lull_picture_bins_write(bins, &area, gantt->file);
    fprintf(gantt->file, "\"/>\n");
}

/* ---- power -------------------------------------------------------------------------------- */

/* Adds the energy of a point until the next one of its type; null: there is no point yet. */
static void add_until(const struct lull_power_point *point, int64_t until_ns,
                      struct lull_picture_bins *parts)
{
    for (int part = 0; part < LULL_POWER_PARTS && point != NULL; part++)
        lull_picture_bins_add(&parts[part], lull_gantt_s(point->time_ns), lull_gantt_s(until_ns),
                              point->w[part]);
}

/* Adds the energy of all GPUs. last: room for one point per type, null at first. */
static void gantt_panel_add_points(const struct lull_gantt *gantt,
                                   const struct lull_power_point **last,
                                   struct lull_picture_bins *parts)
{
    const struct lull_power_meter *meter = lull_cluster_run_meter(gantt->run);
    size_t count;
    const struct lull_power_point *points = lull_power_meter_points(meter, &count);

    for (size_t i = 0; i < count; i++) {
        add_until(last[points[i].type], points[i].time_ns, parts);
        last[points[i].type] = &points[i];
    }
    for (uint32_t type = 0; type < gantt->model->cluster.type_count; type++)
        add_until(last[type], lull_power_meter_marked_ns(meter), parts);
}

/* Each part stands on those before it. */
static int find_power(const struct lull_gantt *gantt, struct lull_picture_bins *parts)
{
    const struct lull_power_point **last;

    for (int part = 0; part < LULL_POWER_PARTS; part++)
        if (lull_picture_bins_init(&parts[part], gantt->span_s, LULL_GANTT_BINS) < 0)
            return -ENOMEM;
    last = calloc(gantt->model->cluster.type_count, sizeof(struct lull_power_point *));
    if (last == NULL)
        return -ENOMEM;
    gantt_panel_add_points(gantt, last, parts);
    free(last);
    for (int part = 1; part < LULL_POWER_PARTS; part++)
        for (size_t i = 0; i < parts[part].count; i++)
            parts[part].mean[i] += parts[part - 1].mean[i];
    return 0;
}

int lull_gantt_draw_power(const struct lull_gantt *gantt, double *bottom)
{
    static const struct {
        const char *class;
        uint32_t rgb;
    } looks[LULL_POWER_PARTS] = {{"key", 0x4c78a8}, {"idle", 0xc3c8d0}, {"key", 0xd8b365}};
    const double top = *bottom;
    const char *caption = "Power: jobs, and GPUs without a job (grey)";
    struct lull_picture_bins parts[LULL_POWER_PARTS] = {0};
    const int rc = find_power(gantt, parts);
    double most;

    if (rc < 0)
        goto end;
    if (gantt->stretches->change_count > 0)
        caption = "Power: jobs, GPUs without a job (grey), nodes that are turning on (sand)";
    *bottom = top + power_height;
    most = fmax(lull_picture_bins_most(&parts[LULL_POWER_PARTS - 1]) * 1.05, 1.0);
    draw_caption(gantt, top, caption);
    for (int part = LULL_POWER_PARTS; part-- > 0;)
        draw_area(gantt, &parts[part], *bottom, power_height / most, looks[part].class,
                  looks[part].rgb);
    lull_picture_draw_amount_axis(
        gantt->file, &(struct lull_picture_amount_axis){gantt->left, gantt->left + gantt->width,
                                                        top, *bottom, most, lull_amount_power});
end:
    for (int part = 0; part < LULL_POWER_PARTS; part++)
        lull_picture_bins_fini(&parts[part]);
    return rc;
}

/* ---- jobs that wait ----------------------------------------------------------------------- */

/* Formats a mark of the axis; marks between whole numbers of jobs are not rounded. */
static struct lull_amount count_text(double count)
{
    struct lull_amount amount;

    if (count == floor(count))
        return lull_amount_count((uint64_t)count);
    snprintf(amount.text, sizeof(amount.text), "%g", count);
    return amount;
}

void lull_gantt_draw_waiting(const struct lull_gantt *gantt, double *bottom)
{
    const double top = *bottom;
    const double most = fmax(lull_picture_bins_most(&gantt->waiting) * 1.05, 1.0);

    draw_caption(gantt, top, "Jobs that wait");
    draw_area(gantt, &gantt->waiting, top + waiting_height, waiting_height / most, "key",
              lull_gantt_want_rgb[3]);
    lull_picture_draw_amount_axis(gantt->file, &(struct lull_picture_amount_axis){
                                                   gantt->left, gantt->left + gantt->width, top,
                                                   top + waiting_height, most, count_text});
    *bottom = top + waiting_height;
}
