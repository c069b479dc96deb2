/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "cli/cluster/gantt_drawing.h"
#include "cli/picture/axis.h"

static const double power_height = 130.0;

/* What parts of all types draw from one point to the next of the same type. */
static void add_points(const struct lull_gantt *gantt, const struct lull_power_point **last,
                       struct lull_picture_bins *parts)
{
    const struct lull_power_meter *meter = lull_cluster_run_meter(gantt->gangs->run);
    size_t count;
    const struct lull_power_point *points = lull_power_meter_points(meter, &count);

    for (size_t i = 0; i <= count + gantt->gangs->cluster.type_count; i++) {
        const bool is_end = i >= count;
        const uint32_t type = is_end ? (uint32_t)(i - count) : points[i].type;

        if (type >= gantt->gangs->cluster.type_count)
            break;
        for (int part = 0; part < LULL_POWER_PARTS && last[type] != NULL; part++)
            lull_picture_bins_add(
                &parts[part], lull_gantt_s(last[type]->time_ns),
                lull_gantt_s(is_end ? lull_power_meter_marked_ns(meter) : points[i].time_ns),
                last[type]->w[part]);
        last[type] = is_end ? NULL : &points[i];
    }
}

/* Parts stand on those before them. */
static int find_power(const struct lull_gantt *gantt, struct lull_picture_bins *parts)
{
    const struct lull_power_point **last =
        calloc(gantt->gangs->cluster.type_count, sizeof(struct lull_power_point *));
    int result = last == NULL ? -ENOMEM : 0;

    for (int part = 0; part < LULL_POWER_PARTS && result == 0; part++)
        result = lull_picture_bins_init(&parts[part], gantt->span_s, LULL_GANTT_BINS);
    if (result == 0)
        add_points(gantt, last, parts);
    for (int part = 1; part < LULL_POWER_PARTS && result == 0; part++)
        for (size_t i = 0; i < parts[part].count; i++)
            parts[part].mean[i] += parts[part - 1].mean[i];
    free(last);
    return result;
}

int lull_gantt_draw_power(const struct lull_gantt *gantt, double *bottom)
{
    static const struct {
        const char *class;
        uint32_t rgb;
    } looks[LULL_POWER_PARTS] = {{"key", 0x4c78a8}, {"idle", 0xc3c8d0}, {"key", 0xd8b365}};
    const double top = *bottom;
    struct lull_picture_bins parts[LULL_POWER_PARTS] = {0};
    const int result = find_power(gantt, parts);

    *bottom = top + power_height;
    if (result == 0) {
        const double most = fmax(lull_picture_bins_most(&parts[LULL_POWER_PARTS - 1]) * 1.05, 1.0);

        lull_gantt_draw_caption(gantt, top,
                                gantt->stretches->change_count > 0
                                    ? "Power: jobs, GPUs without a job (grey), nodes that are "
                                      "turning on (sand)"
                                    : "Power: jobs, and GPUs without a job (grey)");
        for (int part = LULL_POWER_PARTS; part-- > 0;)
            lull_gantt_draw_area(gantt, &parts[part], *bottom, power_height / most,
                                 looks[part].class, looks[part].rgb);
        lull_picture_draw_amount_axis(
            gantt->file, &(struct lull_picture_amount_axis){gantt->left, gantt->left + gantt->width,
                                                            top, *bottom, most, lull_amount_power});
    }
    for (int part = 0; part < LULL_POWER_PARTS; part++)
        lull_picture_bins_fini(&parts[part]);
    return result;
}
