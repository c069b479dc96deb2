/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cli/simulate/gantt.h"
#include "base/printable.h"
#include "cluster/cli/simulate/gantt_elements.h"
#include "cli/shared/picture.h"

enum { MAX_LANES = 160 };

static const double node_gap = 3.0;
static const double pool_gap = 14.0; /* with the strip of its waiting jobs */

/* Neighbouring GPUs of a node that a job held for one stretch. Each GPU is a lane. */
struct box {
    size_t stretch;
    uint32_t lane;
    uint32_t lanes;
};

struct boxes {
    const struct lull_gantt *gantt;
    uint32_t lane_count;
    uint32_t *first; /* [node]: its first lane */
    size_t *taken;   /* [lane]: the stretch that holds it, counted from 1; 0: it is free */
    struct box all[LULL_GANTT_MAX_BOXES];
    size_t count;
    double *y; /* [lane]: its top, in pixels */
    double height;
};

/* ---- which GPUs --------------------------------------------------------------------------- */

/* The simulator counts the GPUs of a node and does not name them, so that a stretch gets the lowest
 * free lanes. False: there would be too many boxes. */
static bool gantt_box_take(struct boxes *boxes, size_t stretch,
                           const struct lull_cluster_share *share)
{
    const uint32_t end =
        boxes->first[share->node] + boxes->gantt->model->cluster.nodes[share->node].gpus;
    uint32_t left = share->gpus;

    for (uint32_t lane = boxes->first[share->node]; lane < end && left > 0; lane++) {
        const struct box *last = boxes->count > 0 ? &boxes->all[boxes->count - 1] : NULL;

        if (boxes->taken[lane] != 0)
            continue;
        boxes->taken[lane] = stretch + 1;
        left--;
        if (last != NULL && last->stretch == stretch && last->lane + last->lanes == lane &&
            lane > boxes->first[share->node]) {
            boxes->all[boxes->count - 1].lanes++;
            continue;
        }
        if (boxes->count == LULL_GANTT_MAX_BOXES)
            return false;
        boxes->all[boxes->count++] = (struct box){stretch, lane, 1};
    }
    return true;
}

/* Gives every stretch its lanes, event by event, in the order of time. False: there would be too
 * many boxes. */
static bool gantt_box_assign(struct boxes *boxes, const struct lull_cluster_event *events,
                             size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct lull_cluster_stretch *stretch =
            &boxes->gantt->stretches->all[events[i].stretch];

        for (uint32_t lane = 0; lane < boxes->lane_count && !events[i].is_begin; lane++)
            if (boxes->taken[lane] == events[i].stretch + 1)
                boxes->taken[lane] = 0;
        for (uint32_t k = 0; k < stretch->share_count && events[i].is_begin; k++)
            if (!gantt_box_take(boxes, events[i].stretch, &stretch->shares[k]))
                return false;
    }
    return true;
}

/* ---- drawing ------------------------------------------------------------------------------ */

/* Draws the empty rows of all nodes with their labels, and notes where each lane is. Returns where
 * the rows end. */
static double gantt_box_draw_rows(struct boxes *boxes, double top)
{
    const struct lull_gantt *gantt = boxes->gantt;
    const struct lull_cluster *cluster = &gantt->model->cluster;
    double y = top;

    for (uint32_t node = 0; node < cluster->node_count; node++) {
        const double height = boxes->height * cluster->nodes[node].gpus;
        const bool is_first =
            node == 0 || cluster->nodes[node].pool != cluster->nodes[node - 1].pool;

        y += is_first ? pool_gap : node_gap;
        if (is_first)
            lull_gantt_draw_wants(gantt, cluster->nodes[node].pool, y - 3.0);
        lull_gantt_draw_free(gantt, y, height);
        if (height >= 8.0) {
            fprintf(gantt->file, "<text class=\"label\" x=\"%.1f\" y=\"%.1f\">", gantt->left - 8.0,
                    y + height / 2.0 + 4.0);
            if (gantt->model->pools.rows != NULL)
                lull_printable_print(
                    LULL_PRINTABLE_PAGE,
                    lull_scenario_pool_name(gantt->model, cluster->nodes[node].pool).text,
                    gantt->file);
            fprintf(gantt->file, "%s%u</text>\n", gantt->model->pools.rows != NULL ? ":" : "node ",
                    node - lull_scenario_first_node(cluster, cluster->nodes[node].pool));
        }
        for (uint32_t i = 0; i < cluster->nodes[node].gpus; i++)
            boxes->y[boxes->first[node] + i] = y + boxes->height * i;
        y += height;
    }
    return y;
}

struct state_drawing {
    const struct boxes *boxes;
    enum lull_cluster_power power;
};

static void gantt_box_write_state(void *user, uint32_t node, enum lull_cluster_power power,
                                  double begin_s, double end_s)
{
    const struct state_drawing *drawing = user;
    const struct boxes *boxes = drawing->boxes;
    const double begin = lull_gantt_x(boxes->gantt, begin_s);

    if (power == drawing->power)
        fprintf(boxes->gantt->file, "M%.2f %.1fH%.2fv%.1fH%.2fz", begin,
                boxes->y[boxes->first[node]], lull_gantt_x(boxes->gantt, end_s),
                boxes->height * boxes->gantt->model->cluster.nodes[node].gpus, begin);
}

/* Draws the times in which nodes were not on, one colour after the other. */
static int draw_states(const struct boxes *boxes)
{
    for (int power = 0; power <= LULL_CLUSTER_DOWN; power++) {
        const struct lull_gantt_node_look *look = &lull_gantt_node_looks[power];
        struct state_drawing drawing = {boxes, (enum lull_cluster_power)power};
        int rc;

        if (look->name == NULL)
            continue;
        fprintf(boxes->gantt->file, "<path class=\"%s\" fill=\"#%06x\" d=\"", look->class,
                look->rgb);
        rc = lull_gantt_each_node_state(boxes->gantt, gantt_box_write_state, &drawing);
        if (rc < 0)
            return rc;
        fprintf(boxes->gantt->file, "\"/>\n");
    }
    return 0;
}

static void write_box(const struct boxes *boxes, const struct box *box)
{
    const struct lull_gantt *gantt = boxes->gantt;
    const struct lull_cluster_stretch *stretch = &gantt->stretches->all[box->stretch];
    const double begin = lull_gantt_x(gantt, lull_gantt_s(stretch->begin_ns));

    fprintf(gantt->file, "M%.2f %.1fH%.2fv%.1fH%.2fz", begin, boxes->y[box->lane],
            lull_gantt_x(gantt, lull_gantt_s(stretch->end_ns)), boxes->height * box->lanes, begin);
}

static void draw_layer(const struct boxes *boxes, uint32_t layer)
{
    const struct lull_gantt *gantt = boxes->gantt;

    fprintf(gantt->file,
            "<path class=\"box\" fill=\"#%06x\" stroke=\"#fff\" stroke-width=\".8\" d=\"",
            gantt->layers[layer].rgb);
    for (size_t i = 0; i < boxes->count; i++)
        if (lull_gantt_layer_of(gantt, &gantt->stretches->all[boxes->all[i].stretch]) == layer)
            write_box(boxes, &boxes->all[i]);
    fprintf(gantt->file, "\"/>\n");
}

/* Outlines late jobs, for pictures in which colours show clocks. */
static void draw_late(const struct boxes *boxes)
{
    const struct lull_gantt *gantt = boxes->gantt;

    fprintf(gantt->file, "<path fill=\"none\" stroke=\"#d1203a\" stroke-width=\"1.6\" d=\"");
    for (size_t i = 0; i < boxes->count; i++)
        if (lull_gantt_is_late(gantt, gantt->stretches->all[boxes->all[i].stretch].job))
            write_box(boxes, &boxes->all[i]);
    fprintf(gantt->file, "\"/>\n");
}

/* Writes the names of jobs into those boxes that are large enough for them. */
static void draw_names(const struct boxes *boxes)
{
    const struct lull_gantt *gantt = boxes->gantt;

    fprintf(gantt->file, "<g font-size=\"10\" text-anchor=\"middle\">\n");
    for (size_t i = 0; i < boxes->count; i++) {
        const struct box *box = &boxes->all[i];
        const struct lull_cluster_stretch *stretch = &gantt->stretches->all[box->stretch];
        const double begin = lull_gantt_x(gantt, lull_gantt_s(stretch->begin_ns));
        const double width = lull_gantt_x(gantt, lull_gantt_s(stretch->end_ns)) - begin;
        const struct lull_printable name = lull_scenario_job_name(gantt->model, stretch->job);
        const double height = boxes->height * box->lanes;

        if (height < 11.0 || width < 6.2 * (double)strlen(name.text) + 4.0)
            continue;
        fprintf(gantt->file, "<text fill=\"#%s\" x=\"%.1f\" y=\"%.1f\">",
                gantt->layers[lull_gantt_layer_of(gantt, stretch)].is_dark ? "fff" : "111",
                begin + width / 2.0, boxes->y[box->lane] + height / 2.0 + 3.6);
        lull_printable_print(LULL_PRINTABLE_PAGE, name.text, gantt->file);
        fprintf(gantt->file, "</text>\n");
    }
    fprintf(gantt->file, "</g>\n");
}

static int gantt_box_draw(struct boxes *boxes, double top, double *bottom_out)
{
    boxes->height = fmin(20.0, fmax(4.0, 420.0 / boxes->lane_count));
    *bottom_out = gantt_box_draw_rows(boxes, top);
    if (draw_states(boxes) < 0)
        return -ENOMEM;
    for (uint32_t layer = 0; layer < boxes->gantt->layer_count; layer++)
        draw_layer(boxes, layer);
    if (boxes->gantt->has_clocks && boxes->gantt->has_late)
        draw_late(boxes);
    draw_names(boxes);
    return 0;
}

int lull_gantt_draw_boxes(const struct lull_gantt *gantt, double top, double *bottom_out)
{
    const struct lull_cluster *cluster = &gantt->model->cluster;
    struct boxes *boxes = calloc(1, sizeof(*boxes));
    struct lull_cluster_event *events = NULL;
    size_t count = 0;
    int rc = -ENOMEM;

    if (boxes == NULL)
        return -ENOMEM;
    boxes->gantt = gantt;
    boxes->first = calloc(cluster->node_count, sizeof(*boxes->first));
    for (uint32_t i = 0; i < cluster->node_count && boxes->first != NULL; i++) {
        boxes->first[i] = boxes->lane_count;
        boxes->lane_count += cluster->nodes[i].gpus;
    }
    boxes->taken = calloc(boxes->lane_count + 1, sizeof(*boxes->taken));
    boxes->y = calloc(boxes->lane_count + 1, sizeof(*boxes->y));
    if (boxes->first == NULL || boxes->taken == NULL || boxes->y == NULL)
        goto end;
    rc = lull_cluster_stretches_events(gantt->stretches, &events, &count);
    *bottom_out = NAN;
    if (rc == 0 && boxes->lane_count <= MAX_LANES && gantt_box_assign(boxes, events, count))
        rc = gantt_box_draw(boxes, top, bottom_out);
end:
    free(events);
    free(boxes->first);
    free(boxes->taken);
    free(boxes->y);
    free(boxes);
    return rc;
}
