/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "cli/cluster/gantt_drawing.h"
#include "cli/picture/axis.h"

static const double waiting_height = 90.0;

const uint32_t lull_gantt_want_rgb[LULL_GANTT_WANT_SHADES + 1] = {0, 0xf7dfb0, 0xf0bf62, 0xdf9320,
                                                                  0xad5f00};

/* ---- who waited --------------------------------------------------------------------------- */

static void add_wait(struct lull_gantt *gantt, uint32_t job, double begin_s, double end_s)
{
    const struct lull_cluster_job *asked = &gantt->gangs->jobs.all[job];

    lull_picture_bins_add(&gantt->wants[asked->pool], begin_s, end_s, asked->modes[0].gpus);
    lull_picture_bins_add(&gantt->waiting, begin_s, end_s, 1.0);
}

static int make_room(struct lull_gantt *gantt)
{
    const uint32_t pools = gantt->gangs->cluster.pool_count;

    gantt->wants = calloc(pools, sizeof(*gantt->wants));
    if (gantt->wants == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < pools; i++)
        if (lull_picture_bins_init(&gantt->wants[i], gantt->span_s, LULL_GANTT_BINS) < 0)
            return -ENOMEM;
    return lull_picture_bins_init(&gantt->waiting, gantt->span_s, LULL_GANTT_BINS);
}

int lull_gantt_find_waits(struct lull_gantt *gantt)
{
    const struct lull_cluster_jobs *jobs = &gantt->gangs->jobs;
    const struct lull_cluster_outcome *outcomes = lull_cluster_run_outcomes(gantt->gangs->run);
    double *since_s = calloc(jobs->count + 1, sizeof(*since_s));

    if (since_s == NULL || make_room(gantt) < 0) {
        free(since_s);
        return -ENOMEM;
    }
    for (size_t i = 0; i < jobs->count; i++)
        since_s[i] = lull_gantt_s(jobs->all[i].arrival_ns);
    for (size_t i = 0; i < gantt->stretches->count; i++) {
        const struct lull_cluster_stretch *stretch = &gantt->stretches->all[i];

        add_wait(gantt, stretch->job, since_s[stretch->job], lull_gantt_s(stretch->begin_ns));
        since_s[stretch->job] = lull_gantt_s(stretch->end_ns);
    }
    for (size_t i = 0; i < jobs->count; i++)
        if (outcomes[i].fate != LULL_CLUSTER_DONE)
            add_wait(gantt, (uint32_t)i, since_s[i],
                     outcomes[i].fate == LULL_CLUSTER_REJECTED ? lull_gantt_s(outcomes[i].end_ns)
                                                               : gantt->span_s);
    free(since_s);
    return 0;
}

void lull_gantt_waits_fini(struct lull_gantt *gantt)
{
    for (uint32_t i = 0; i < gantt->gangs->cluster.pool_count && gantt->wants != NULL; i++)
        lull_picture_bins_fini(&gantt->wants[i]);
    free(gantt->wants);
    lull_picture_bins_fini(&gantt->waiting);
}

/* ---- a pool's strip ----------------------------------------------------------------------- */

/* 0: nobody waits; then by the share of the pool's GPUs that is wanted. */
static int shade_of(double wanted, double gpus)
{
    if (wanted <= 0.0)
        return 0;
    return wanted < 0.25 * gpus  ? 1
           : wanted < gpus       ? 2
           : wanted < 4.0 * gpus ? 3
                                 : LULL_GANTT_WANT_SHADES;
}

void lull_gantt_draw_wants(const struct lull_gantt *gantt, uint32_t pool, double bottom)
{
    const struct lull_picture_bins *wants = &gantt->wants[pool];
    const double step = gantt->width / (double)wants->count;
    double gpus = 0.0;

    for (uint32_t i = 0; i < gantt->gangs->cluster.node_count; i++)
        if (gantt->gangs->cluster.nodes[i].pool == pool)
            gpus += gantt->gangs->cluster.nodes[i].gpus;
    for (int shade = 1; shade <= LULL_GANTT_WANT_SHADES; shade++) {
        fprintf(gantt->file, "<path stroke=\"#%06x\" stroke-width=\"6\" d=\"",
                lull_gantt_want_rgb[shade]);
        for (size_t begin = 0, end; begin < wants->count; begin = end) {
            for (end = begin + 1; end < wants->count; end++)
                if (shade_of(wants->mean[end], gpus) != shade_of(wants->mean[begin], gpus))
                    break;
            if (shade_of(wants->mean[begin], gpus) == shade)
                fprintf(gantt->file, "M%.1f %.1fh%.1f", gantt->left + step * (double)begin,
                        bottom - 3.0, step * (double)(end - begin));
        }
        fprintf(gantt->file, "\"/>\n");
    }
}

/* ---- how many ------------------------------------------------------------------------------ */

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

    lull_gantt_draw_caption(gantt, top, "Jobs that wait");
    lull_gantt_draw_area(gantt, &gantt->waiting, top + waiting_height, waiting_height / most, "key",
                         lull_gantt_want_rgb[3]);
    lull_picture_draw_amount_axis(gantt->file, &(struct lull_picture_amount_axis){
                                                   gantt->left, gantt->left + gantt->width, top,
                                                   top + waiting_height, most, count_text});
    *bottom = top + waiting_height;
}
