/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>

#include "cli/cluster/gantt_drawing.h"
#include "cli/picture/axis.h"

static const double power_height = 130.0;

/* jobs_w: of jobs; all_w: with GPUs that had none. */
static void find_power(const struct lull_gantt *gantt, struct lull_picture_bins *jobs_w,
                       struct lull_picture_bins *all_w)
{
    const struct lull_cluster *cluster = &gantt->gangs->cluster;

    for (uint32_t i = 0; i < cluster->node_count; i++)
        lull_picture_bins_add(all_w, 0.0, gantt->span_s,
                              cluster->types[cluster->nodes[i].type].idle_w *
                                  cluster->nodes[i].gpus);
    for (size_t i = 0; i < gantt->stretches->count; i++) {
        const struct lull_cluster_stretch *stretch = &gantt->stretches->all[i];
        const struct lull_cluster_mode *mode =
            &gantt->gangs->jobs.all[stretch->job].modes[stretch->mode];
        const double begin_s = lull_gantt_s(stretch->begin_ns);
        const double end_s = lull_gantt_s(stretch->end_ns);

        if (stretch->end_ns == stretch->begin_ns)
            continue;
        lull_picture_bins_add(jobs_w, begin_s, end_s, stretch->energy_j / (end_s - begin_s));
        lull_picture_bins_add(all_w, begin_s, end_s,
                              stretch->energy_j / (end_s - begin_s) -
                                  cluster->types[mode->type].idle_w * mode->gpus);
    }
}

int lull_gantt_draw_power(const struct lull_gantt *gantt, double *bottom)
{
    const double top = *bottom;
    struct lull_picture_bins jobs_w = {0};
    struct lull_picture_bins all_w = {0};
    int result = -ENOMEM;

    if (lull_picture_bins_init(&jobs_w, gantt->span_s, LULL_GANTT_BINS) == 0 &&
        lull_picture_bins_init(&all_w, gantt->span_s, LULL_GANTT_BINS) == 0) {
        double most;

        find_power(gantt, &jobs_w, &all_w);
        most = fmax(lull_picture_bins_most(&all_w) * 1.05, 1.0);
        lull_gantt_draw_caption(gantt, top, "Power: jobs, and GPUs without a job (grey)");
        lull_gantt_draw_area(gantt, &all_w, top + power_height, power_height / most, "idle",
                             0xc3c8d0);
        lull_gantt_draw_area(gantt, &jobs_w, top + power_height, power_height / most, "key",
                             0x4c78a8);
        lull_picture_draw_amount_axis(
            gantt->file,
            &(struct lull_picture_amount_axis){gantt->left, gantt->left + gantt->width, top,
                                               top + power_height, most, lull_amount_power});
        *bottom = top + power_height;
        result = 0;
    }
    lull_picture_bins_fini(&jobs_w);
    lull_picture_bins_fini(&all_w);
    return result;
}
