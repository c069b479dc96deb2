/* Private to gantt*.c: a picture in the making. SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_CLI_CLUSTER_GANTT_DRAWING_H
#define LULL_CLI_CLUSTER_GANTT_DRAWING_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/cluster/gangs.h"
#include "cli/picture/bins.h"
#include "cli/picture/colour.h"

enum {
    LULL_GANTT_MOST_LAYERS = 8,
    LULL_GANTT_MOST_BANDS = 40,
    LULL_GANTT_BINS = 1240, /* a pixel each */
    LULL_GANTT_WANT_SHADES = 4,
};

/* Jobs of one colour. */
struct lull_gantt_layer {
    uint32_t low_mhz; /* 0: the colour is a state */
    uint32_t high_mhz;
    const char *name; /* of a state */
    uint32_t rgb;
    bool is_dark; /* text on it should be white */
};

struct lull_gantt {
    FILE *file;
    const struct lull_gangs *gangs;
    const struct lull_cluster_stretches *stretches;
    double span_s;
    double left; /* pixels: time is shown from left to left + width */
    double width;
    struct lull_gantt_layer layers[LULL_GANTT_MOST_LAYERS];
    uint32_t layer_count;
    bool has_clocks;
    bool has_late;                    /* some job is done after its deadline */
    struct lull_picture_bins *wants;  /* [pool]: GPUs that waiting jobs want */
    struct lull_picture_bins waiting; /* how many jobs wait */
};

double lull_gantt_x(const struct lull_gantt *gantt, double time_s);
static inline double lull_gantt_s(int64_t time_ns)
{
    return (double)time_ns * 1e-9;
}

/* gantt_layers.c */
void lull_gantt_find_layers(struct lull_gantt *gantt);
uint32_t lull_gantt_layer_of(const struct lull_gantt *gantt,
                             const struct lull_cluster_stretch *stretch);
bool lull_gantt_is_late(const struct lull_gantt *gantt, uint32_t job);

/*
 * gantt_boxes.c: rows of GPUs from top on. *bottom_out: where they end; NAN: too many for boxes,
 * nothing has been drawn. -ENOMEM.
 */
int lull_gantt_draw_boxes(struct lull_gantt *gantt, double top, double *bottom_out);

/* gantt_bands.c: the same in bands. -ENOMEM. */
int lull_gantt_draw_bands(struct lull_gantt *gantt, double top, double *bottom_out);

/* gantt_nodes.c: how nodes that are not on look, by their power. */
struct lull_gantt_node_look {
    const char *name; /* NULL: on */
    const char *class;
    uint32_t rgb;
};
extern const struct lull_gantt_node_look lull_gantt_node_looks[LULL_CLUSTER_DOWN + 1];

/* Each time that a node was not on. -ENOMEM. */
int lull_gantt_each_node_state(const struct lull_gantt *gantt,
                               void (*see)(void *user, uint32_t node, enum lull_cluster_power power,
                                           double begin_s, double end_s),
                               void *user);

/* gantt_waits.c: fills in wants and waiting. -ENOMEM; to be ended then too. */
int lull_gantt_find_waits(struct lull_gantt *gantt);
void lull_gantt_waits_fini(struct lull_gantt *gantt);

/* From 1 on, the more GPUs of their pool waiting jobs want. */
extern const uint32_t lull_gantt_want_rgb[LULL_GANTT_WANT_SHADES + 1];

/* The strip of a pool's waiting jobs, whose bottom is at bottom. */
void lull_gantt_draw_wants(const struct lull_gantt *gantt, uint32_t pool, double bottom);

/* Panels over time: from *bottom on, which they move to where they end. -ENOMEM. */
int lull_gantt_draw_power(const struct lull_gantt *gantt, double *bottom); /* gantt_power.c */
void lull_gantt_draw_waiting(const struct lull_gantt *gantt, double *bottom);

/* gantt.c: above a panel that begins at top; a function of time over bottom. */
void lull_gantt_draw_caption(const struct lull_gantt *gantt, double top, const char *caption);
void lull_gantt_draw_area(const struct lull_gantt *gantt, const struct lull_picture_bins *bins,
                          double bottom, double per_amount, const char *class, uint32_t rgb);

#endif
