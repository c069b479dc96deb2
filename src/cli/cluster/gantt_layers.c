/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "cli/cluster/gantt_drawing.h"

static const struct lull_gantt_layer in_time = {.name = "runs", .rgb = 0x4c78a8, .is_dark = true};
static const struct lull_gantt_layer late = {
    .name = "runs, will end late", .rgb = 0xc8553d, .is_dark = true};

bool lull_gantt_is_late(const struct lull_gantt *gantt, uint32_t job)
{
    const struct lull_cluster_outcome *outcome = &lull_cluster_run_outcomes(gantt->gangs->run)[job];
    const int64_t deadline_ns = gantt->gangs->jobs.all[job].deadline_ns;

    return deadline_ns != LULL_CLUSTER_NEVER && outcome->end_ns > deadline_ns;
}

static uint32_t clock_of(const struct lull_gantt *gantt, const struct lull_cluster_stretch *stretch)
{
    return gantt->gangs->jobs.all[stretch->job].modes[stretch->mode].sm_mhz;
}

/* Clocks are in as many equal ranges as there are layers. */
static uint32_t range_of(uint32_t mhz, const struct lull_clock_colours *colours)
{
    if (mhz <= colours->low_mhz || colours->high_mhz <= colours->low_mhz)
        return 0;
    return (uint32_t)((uint64_t)(mhz - colours->low_mhz) * (LULL_GANTT_MOST_LAYERS - 1) /
                      (colours->high_mhz - colours->low_mhz));
}

static void add_clock(struct lull_gantt *gantt, uint32_t mhz,
                      const struct lull_clock_colours *colours)
{
    struct lull_gantt_layer *const layer = &gantt->layers[range_of(mhz, colours)];

    if (layer->high_mhz == 0 || mhz < layer->low_mhz)
        layer->low_mhz = mhz;
    if (mhz > layer->high_mhz)
        layer->high_mhz = mhz;
}

/* Layers that no clock is in go; the others keep their order. */
static void pack(struct lull_gantt *gantt, const struct lull_clock_colours *colours)
{
    for (uint32_t i = 0; i < LULL_GANTT_MOST_LAYERS; i++) {
        struct lull_gantt_layer layer = gantt->layers[i];
        const struct lull_clock_shade *shade;

        if (layer.high_mhz == 0)
            continue;
        shade = &colours->shades[lull_clock_colours_shade(
            colours, layer.low_mhz + (layer.high_mhz - layer.low_mhz) / 2)];
        layer.rgb = shade->rgb;
        layer.is_dark = shade->is_dark;
        gantt->layers[gantt->layer_count++] = layer;
    }
}

/* Of all clocks that jobs could have, so that a colour is the same whatever the policy. */
static void find_colours(const struct lull_gantt *gantt, struct lull_clock_colours *colours)
{
    const struct lull_cluster_jobs *jobs = &gantt->gangs->jobs;

    lull_clock_colours_init(colours);
    for (size_t i = 0; i < jobs->count; i++)
        for (uint32_t mode = 0; mode < jobs->all[i].mode_count; mode++)
            lull_clock_colours_add(colours, jobs->all[i].modes[mode].sm_mhz);
    lull_clock_colours_finish(colours);
}

void lull_gantt_find_layers(struct lull_gantt *gantt)
{
    struct lull_clock_colours colours;

    for (size_t i = 0; i < gantt->stretches->count; i++)
        gantt->has_late |= lull_gantt_is_late(gantt, gantt->stretches->all[i].job);
    find_colours(gantt, &colours);
    gantt->has_clocks = colours.high_mhz > 0;
    if (!gantt->has_clocks) {
        gantt->layers[0] = in_time;
        gantt->layers[1] = late;
        gantt->layer_count = gantt->has_late ? 2 : 1;
        return;
    }
    for (size_t i = 0; i < gantt->stretches->count; i++) {
        const uint32_t mhz = clock_of(gantt, &gantt->stretches->all[i]);

        if (mhz > 0)
            add_clock(gantt, mhz, &colours);
    }
    pack(gantt, &colours);
    if (gantt->layer_count == 0)
        gantt->layers[gantt->layer_count++] = in_time;
}

uint32_t lull_gantt_layer_of(const struct lull_gantt *gantt,
                             const struct lull_cluster_stretch *stretch)
{
    const uint32_t mhz = clock_of(gantt, stretch);

    if (!gantt->has_clocks)
        return gantt->has_late && lull_gantt_is_late(gantt, stretch->job);
    /* A job at the default clock among others with clocks runs at the highest. */
    for (uint32_t i = 0; i < gantt->layer_count; i++)
        if (mhz > 0 && mhz <= gantt->layers[i].high_mhz)
            return i;
    return gantt->layer_count - 1;
}
