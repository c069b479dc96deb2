/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cli/simulate/gantt_elements.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* ---- time --------------------------------------------------------------------------------- */

double lull_gantt_x(const struct lull_gantt *gantt, double time_s)
{
    return gantt->left + gantt->width * time_s / gantt->span_s;
}

/* Finds how much time the picture shows: until the last end or arrival, and never 0. */
static void find_span(struct lull_gantt *gantt)
{
    const struct lull_cluster_jobs *jobs = &gantt->model->jobs;

    gantt->span_s = 1e-9;
    for (size_t i = 0; i < gantt->stretches->count; i++)
        gantt->span_s = fmax(gantt->span_s, lull_gantt_s(gantt->stretches->all[i].end_ns));
    if (jobs->count > 0)
        gantt->span_s = fmax(gantt->span_s, lull_gantt_s(jobs->all[jobs->count - 1].arrival_ns));
}

void lull_gantt_draw_free(const struct lull_gantt *gantt, double y, double height)
{
    fprintf(gantt->file,
            "<rect class=\"free\" fill=\"#eceef1\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
            "height=\"%.1f\"/>\n",
            gantt->left, y, gantt->width, height);
}

/* ---- colours of jobs ---------------------------------------------------------------------- */

static const struct lull_gantt_layer in_time = {.name = "runs", .rgb = 0x4c78a8, .is_dark = true};
static const struct lull_gantt_layer late = {
    .name = "runs, will end late", .rgb = 0xc8553d, .is_dark = true};

bool lull_gantt_is_late(const struct lull_gantt *gantt, uint32_t job)
{
    const struct lull_cluster_outcome *outcome = &lull_cluster_run_outcomes(gantt->run)[job];
    const int64_t deadline_ns = gantt->model->jobs.all[job].deadline_ns;

    return deadline_ns != LULL_CLUSTER_NEVER && outcome->end_ns > deadline_ns;
}

static uint32_t gantt_element_clock_of(const struct lull_gantt *gantt,
                                       const struct lull_cluster_stretch *stretch)
{
    return gantt->model->jobs.all[stretch->job].points[stretch->point].sm_mhz;
}

/* The number of a clock's range: as many equal ones as there are layers. */
static uint32_t gantt_element_range_of(uint32_t mhz, const struct lull_clock_colours *colours)
{
    if (mhz <= colours->low_mhz || colours->high_mhz <= colours->low_mhz)
        return 0;
    return (uint32_t)((uint64_t)(mhz - colours->low_mhz) * (LULL_GANTT_MAX_LAYERS - 1) /
                      (colours->high_mhz - colours->low_mhz));
}

static void gantt_element_add_clock(struct lull_gantt *gantt, uint32_t mhz,
                                    const struct lull_clock_colours *colours)
{
    struct lull_gantt_layer *const layer = &gantt->layers[gantt_element_range_of(mhz, colours)];

    if (layer->high_mhz == 0 || mhz < layer->low_mhz)
        layer->low_mhz = mhz;
    if (mhz > layer->high_mhz)
        layer->high_mhz = mhz;
}

/* Removes layers that no clock is in; the others keep their order. */
static void gantt_element_pack(struct lull_gantt *gantt, const struct lull_clock_colours *colours)
{
    for (uint32_t i = 0; i < LULL_GANTT_MAX_LAYERS; i++) {
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

/* Colours are spread over all clocks that jobs could have, so that a clock has one colour whatever
 * the policy. */
static void gantt_element_find_colours(const struct lull_gantt *gantt,
                                       struct lull_clock_colours *colours)
{
    const struct lull_cluster_jobs *jobs = &gantt->model->jobs;

    lull_clock_colours_init(colours);
    for (size_t i = 0; i < jobs->count; i++)
        for (uint32_t point = 0; point < jobs->all[i].point_count; point++)
            lull_clock_colours_add(colours, jobs->all[i].points[point].sm_mhz);
    lull_clock_colours_finish(colours);
}

/* Finds the colours of the picture: ranges of clocks where jobs have clocks, else in time and late.
 */
static void find_layers(struct lull_gantt *gantt)
{
    struct lull_clock_colours colours;

    for (size_t i = 0; i < gantt->stretches->count; i++)
        gantt->has_late |= lull_gantt_is_late(gantt, gantt->stretches->all[i].job);
    gantt_element_find_colours(gantt, &colours);
    gantt->has_clocks = colours.high_mhz > 0;
    if (!gantt->has_clocks) {
        gantt->layers[0] = in_time;
        gantt->layers[1] = late;
        gantt->layer_count = gantt->has_late ? 2 : 1;
        return;
    }
    for (size_t i = 0; i < gantt->stretches->count; i++) {
        const uint32_t mhz = gantt_element_clock_of(gantt, &gantt->stretches->all[i]);

        if (mhz > 0)
            gantt_element_add_clock(gantt, mhz, &colours);
    }
    gantt_element_pack(gantt, &colours);
    if (gantt->layer_count == 0)
        gantt->layers[gantt->layer_count++] = in_time;
}

uint32_t lull_gantt_layer_of(const struct lull_gantt *gantt,
                             const struct lull_cluster_stretch *stretch)
{
    const uint32_t mhz = gantt_element_clock_of(gantt, stretch);

    if (!gantt->has_clocks)
        return gantt->has_late && lull_gantt_is_late(gantt, stretch->job);
    /* A job at the default clock among others with clocks runs at the highest. */
    for (uint32_t i = 0; i < gantt->layer_count; i++)
        if (mhz > 0 && mhz <= gantt->layers[i].high_mhz)
            return i;
    return gantt->layer_count - 1;
}

/* ---- states of nodes ---------------------------------------------------------------------- */

const struct lull_gantt_node_look lull_gantt_node_looks[LULL_CLUSTER_DOWN + 1] = {
    [LULL_CLUSTER_TURNING_ON] = {"turning on", "key", 0xd8b365},
    [LULL_CLUSTER_OFF] = {"off", "off", 0xaab1bd},
    [LULL_CLUSTER_DOWN] = {"down", "key", 0x7b3b52},
};

int lull_gantt_each_node_state(const struct lull_gantt *gantt,
                               void (*see)(void *user, uint32_t node, enum lull_cluster_power power,
                                           double begin_s, double end_s),
                               void *user)
{
    const struct lull_cluster_stretches *stretches = gantt->stretches;
    const uint32_t nodes = gantt->model->cluster.node_count;
    const struct lull_cluster_node_change **last =
        calloc(nodes, sizeof(struct lull_cluster_node_change *));

    if (last == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < stretches->change_count; i++) {
        const struct lull_cluster_node_change *change = &stretches->changes[i];
        const struct lull_cluster_node_change *before = last[change->node];

        if (before != NULL && before->power != LULL_CLUSTER_ON)
            see(user, change->node, before->power, lull_gantt_s(before->time_ns),
                lull_gantt_s(change->time_ns));
        last[change->node] = change;
    }
    for (uint32_t node = 0; node < nodes; node++)
        if (last[node] != NULL && last[node]->power != LULL_CLUSTER_ON)
            see(user, node, last[node]->power, lull_gantt_s(last[node]->time_ns), gantt->span_s);
    free(last);
    return 0;
}

/* ---- who waited --------------------------------------------------------------------------- */

/* Adds a time in which a job waited to the strip of its pool and to the panel. */
static void add_wait(struct lull_gantt *gantt, uint32_t job, double begin_s, double end_s)
{
    const struct lull_cluster_job *waiting = &gantt->model->jobs.all[job];

    lull_picture_bins_add(&gantt->wants[waiting->pool], begin_s, end_s, waiting->points[0].gpus);
    lull_picture_bins_add(&gantt->waiting, begin_s, end_s, 1.0);
}

static int gantt_element_make_room(struct lull_gantt *gantt)
{
    const uint32_t pools = gantt->model->cluster.pool_count;

    gantt->wants = calloc(pools, sizeof(*gantt->wants));
    if (gantt->wants == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < pools; i++)
        if (lull_picture_bins_init(&gantt->wants[i], gantt->span_s, LULL_GANTT_BINS) < 0)
            return -ENOMEM;
    return lull_picture_bins_init(&gantt->waiting, gantt->span_s, LULL_GANTT_BINS);
}

/* Finds when each job waited: from its arrival, and from the end of each stretch, until its next
 * stretch begins, or until it was rejected or the picture ends. */
static int find_waits(struct lull_gantt *gantt)
{
    const struct lull_cluster_jobs *jobs = &gantt->model->jobs;
    const struct lull_cluster_outcome *outcomes = lull_cluster_run_outcomes(gantt->run);
    double *since_s = calloc(jobs->count + 1, sizeof(*since_s));

    if (since_s == NULL || gantt_element_make_room(gantt) < 0) {
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

const uint32_t lull_gantt_want_rgb[LULL_GANTT_WANT_SHADES + 1] = {0, 0xf7dfb0, 0xf0bf62, 0xdf9320,
                                                                  0xad5f00};

/* The shade by the share of the pool's GPUs that is wanted; 0: no job waits. */
static int shade_of(double wanted, double gpus)
{
    static const double ratios[LULL_GANTT_WANT_SHADES - 1] = {0.25, 1.0, 4.0};
    int shade = 1;

    if (wanted <= 0.0)
        return 0;
    while (shade < LULL_GANTT_WANT_SHADES && wanted >= ratios[shade - 1] * gpus)
        shade++;
    return shade;
}

void lull_gantt_draw_wants(const struct lull_gantt *gantt, uint32_t pool, double bottom)
{
    const struct lull_picture_bins *wants = &gantt->wants[pool];
    const double step = gantt->width / (double)wants->count;
    double gpus = 0.0;

    for (uint32_t i = 0; i < gantt->model->cluster.node_count; i++)
        if (gantt->model->cluster.nodes[i].pool == pool)
            gpus += gantt->model->cluster.nodes[i].gpus;
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

/* ---- all of it ---------------------------------------------------------------------------- */

int lull_gantt_init(struct lull_gantt *gantt, const struct lull_scenario_model *model,
                    const struct lull_cluster_run *run, double left, double width)
{
    *gantt = (struct lull_gantt){
        .model = model,
        .run = run,
        .stretches = lull_cluster_run_stretches(run),
        .left = left,
        .width = width,
    };
    find_span(gantt);
    find_layers(gantt);
    return find_waits(gantt);
}

void lull_gantt_fini(struct lull_gantt *gantt)
{
    for (uint32_t i = 0; i < gantt->model->cluster.pool_count && gantt->wants != NULL; i++)
        lull_picture_bins_fini(&gantt->wants[i]);
    free(gantt->wants);
    lull_picture_bins_fini(&gantt->waiting);
}
