/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "cluster/cli/simulate/gantt_elements.h"
#include "base/printable.h"
#include "cli/shared/picture.h"

/* Fewer groups than FEW_GROUPS are split, to about WANTED_BANDS bands. All bands together have
 * about MAX_POINTS short times, so that the picture stays small; each has MIN_BINS to MAX_BINS
 * of them, no more than the page has pixels. */
enum { FEW_GROUPS = 6, WANTED_BANDS = 24, MAX_POINTS = 24000, MIN_BINS = 200, MAX_BINS = 1270 };

static const double band_gap = 3.0;
static const double pool_gap = 14.0; /* with the strip of its waiting jobs */

/* A row of the picture: neighbouring nodes. */
struct band {
    uint32_t first; /* node */
    uint32_t end;
    uint64_t gpus;
    struct lull_picture_bins busy[LULL_GANTT_MAX_LAYERS]; /* GPUs in this layer or one below it */
    struct lull_picture_bins not_on;
};

struct bands {
    const struct lull_gantt *gantt;
    struct band all[LULL_GANTT_MAX_BANDS];
    uint32_t count;
    uint32_t *of_node;
    double height;
};

/* ---- which nodes -------------------------------------------------------------------------- */

static bool is_same_group(const struct lull_cluster *cluster, uint32_t a, uint32_t b)
{
    return cluster->nodes[a].pool == cluster->nodes[b].pool &&
           cluster->nodes[a].type == cluster->nodes[b].type;
}

static uint32_t count_groups(const struct lull_cluster *cluster)
{
    uint32_t count = 1;

    for (uint32_t i = 1; i < cluster->node_count; i++)
        count += !is_same_group(cluster, i - 1, i);
    return count;
}

static void add_band(struct bands *bands, uint32_t first, uint32_t end)
{
    struct band *const band = &bands->all[bands->count];

    *band = (struct band){.first = first, .end = end};
    for (uint32_t i = first; i < end; i++) {
        band->gpus += bands->gantt->model->cluster.nodes[i].gpus;
        bands->of_node[i] = bands->count;
    }
    bands->count++;
}

/* Makes a band for each group of nodes of one pool and type. Few groups get several bands each;
 * very many groups share a band. */
static void find_bands(struct bands *bands)
{
    const struct lull_cluster *cluster = &bands->gantt->model->cluster;
    const uint32_t groups = count_groups(cluster);
    const uint32_t nodes = cluster->node_count;

    if (groups > LULL_GANTT_MAX_BANDS) {
        for (uint32_t i = 0; i < WANTED_BANDS; i++)
            add_band(bands, (uint32_t)((uint64_t)nodes * i / WANTED_BANDS),
                     (uint32_t)((uint64_t)nodes * (i + 1) / WANTED_BANDS));
        return;
    }
    for (uint32_t first = 0, end; first < nodes; first = end) {
        uint64_t parts = 1;

        for (end = first + 1; end < nodes && is_same_group(cluster, first, end); end++)
            continue;
        if (groups < FEW_GROUPS)
            parts = (uint64_t)WANTED_BANDS * (end - first) / nodes;
        if (parts > end - first)
            parts = end - first;
        if (parts < 1)
            parts = 1;
        for (uint64_t i = 0; i < parts; i++)
            add_band(bands, first + (uint32_t)((end - first) * i / parts),
                     first + (uint32_t)((end - first) * (i + 1) / parts));
    }
}

/* ---- what ran ----------------------------------------------------------------------------- */

/* Adds a time in which a node was not on to its band. */
static void see_state(void *user, uint32_t node, enum lull_cluster_power power, double begin_s,
                      double end_s)
{
    struct bands *const bands = user;

    (void)power;
    lull_picture_bins_add(&bands->all[bands->of_node[node]].not_on, begin_s, end_s,
                          bands->gantt->model->cluster.nodes[node].gpus);
}

/* Adds up what each band ran over time. A layer contains those below it, so that drawing them from
 * the highest down leaves each its own part visible. */
static int gantt_band_fill(struct bands *bands)
{
    const struct lull_gantt *gantt = bands->gantt;
    uint32_t bins = MAX_POINTS / (bands->count * gantt->layer_count);

    if (bins < MIN_BINS)
        bins = MIN_BINS;
    if (bins > MAX_BINS)
        bins = MAX_BINS;
    for (uint32_t band = 0; band < bands->count; band++) {
        if (lull_picture_bins_init(&bands->all[band].not_on, gantt->span_s, bins) < 0)
            return -ENOMEM;
        for (uint32_t layer = 0; layer < gantt->layer_count; layer++)
            if (lull_picture_bins_init(&bands->all[band].busy[layer], gantt->span_s, bins) < 0)
                return -ENOMEM;
    }
    for (size_t i = 0; i < gantt->stretches->count; i++) {
        const struct lull_cluster_stretch *stretch = &gantt->stretches->all[i];

        for (uint32_t layer = lull_gantt_layer_of(gantt, stretch); layer < gantt->layer_count;
             layer++)
            for (uint32_t k = 0; k < stretch->share_count; k++)
                lull_picture_bins_add(
                    &bands->all[bands->of_node[stretch->shares[k].node]].busy[layer],
                    lull_gantt_s(stretch->begin_ns), lull_gantt_s(stretch->end_ns),
                    stretch->shares[k].gpus);
    }
    return lull_gantt_each_node_state(gantt, see_state, bands);
}

/* ---- drawing ------------------------------------------------------------------------------ */

/* Names a band by its pool, its type where there are several, and its nodes or GPUs. */
static void draw_label(const struct bands *bands, const struct band *band, double y)
{
    const struct lull_scenario_model *model = bands->gantt->model;
    const struct lull_cluster *cluster = &model->cluster;
    const struct lull_cluster_node *node = &cluster->nodes[band->first];
    const uint32_t of_pool = lull_scenario_first_node(cluster, node->pool);
    FILE *const file = bands->gantt->file;

    fprintf(file, "<text class=\"label\" x=\"%.1f\" y=\"%.1f\">", bands->gantt->left - 8.0,
            y + bands->height / 2.0 + 4.0);
    if (model->pools.rows != NULL) {
        lull_printable_print(LULL_PRINTABLE_PAGE, lull_scenario_pool_name(model, node->pool).text,
                             file);
        fputs(": ", file);
    }
    if (cluster->type_count > 1) {
        lull_printable_print(LULL_PRINTABLE_PAGE, cluster->types[node->type].name, file);
        fputs(" ", file);
    }
    if (cluster->node_count > 1 && model->pools.rows == NULL)
        fprintf(file, "nodes %u-%u</text>\n", band->first - of_pool, band->end - 1 - of_pool);
    else
        fprintf(file, "%llu GPUs</text>\n", (unsigned long long)band->gpus);
}

/* Draws the highest layer first, since each covers what stands below it. */
static void draw_band(const struct bands *bands, const struct band *band, double y)
{
    const struct lull_gantt *gantt = bands->gantt;
    const struct lull_picture_area area = {gantt->left, gantt->width, y + bands->height,
                                           bands->height / (double)band->gpus};

    lull_gantt_draw_free(gantt, y, bands->height);
    /* Nodes that are not on hang from above. */
    fprintf(gantt->file, "<path class=\"off\" fill=\"#%06x\" d=\"",
            lull_gantt_node_looks[LULL_CLUSTER_OFF].rgb);
    lull_picture_bins_write(
        &band->not_on, &(struct lull_picture_area){gantt->left, gantt->width, y, -area.per_amount},
        gantt->file);
    fprintf(gantt->file, "\"/>\n");
    for (uint32_t layer = gantt->layer_count; layer-- > 0;) {
        fprintf(gantt->file, "<path fill=\"#%06x\" d=\"", gantt->layers[layer].rgb);
        lull_picture_bins_write(&band->busy[layer], &area, gantt->file);
        fprintf(gantt->file, "\"/>\n");
    }
    draw_label(bands, band, y);
}

static double gantt_band_draw(struct bands *bands, double top)
{
    const struct lull_cluster *cluster = &bands->gantt->model->cluster;
    double y = top;

    bands->height = fmin(48.0, fmax(14.0, 480.0 / bands->count));
    for (uint32_t i = 0; i < bands->count; i++) {
        const uint32_t pool = cluster->nodes[bands->all[i].first].pool;
        const bool is_first = i == 0 || cluster->nodes[bands->all[i - 1].first].pool != pool;

        y += is_first ? pool_gap : band_gap;
        if (is_first)
            lull_gantt_draw_wants(bands->gantt, pool, y - 3.0);
        draw_band(bands, &bands->all[i], y);
        y += bands->height;
    }
    return y;
}

int lull_gantt_draw_bands(const struct lull_gantt *gantt, double top, double *bottom_out)
{
    struct bands *bands = calloc(1, sizeof(*bands));
    int rc = -ENOMEM;

    if (bands == NULL)
        return -ENOMEM;
    bands->gantt = gantt;
    bands->of_node = calloc(gantt->model->cluster.node_count, sizeof(*bands->of_node));
    if (bands->of_node != NULL) {
        find_bands(bands);
        rc = gantt_band_fill(bands);
    }
    if (rc == 0)
        *bottom_out = gantt_band_draw(bands, top);
    for (uint32_t band = 0; band < bands->count; band++) {
        lull_picture_bins_fini(&bands->all[band].not_on);
        for (uint32_t layer = 0; layer < gantt->layer_count; layer++)
            lull_picture_bins_fini(&bands->all[band].busy[layer]);
    }
    free(bands->of_node);
    free(bands);
    return rc;
}
