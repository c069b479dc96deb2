/*
 * Private to gantt*.c: a picture in the making, and what its parts have in common: the scale of
 * time, colours, states of nodes, and who waited. The parts stand on this file and know nothing of
 * each other. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CLI_SIMULATE_GANTT_ELEMENTS_H
#define LULL_CLUSTER_CLI_SIMULATE_GANTT_ELEMENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cluster/cli/simulate/scenario.h"
#include "cli/shared/picture.h"

enum {
    LULL_GANTT_MAX_LAYERS = 8,
    LULL_GANTT_MAX_BANDS = 40,
    LULL_GANTT_BINS = 1240, /* a pixel each */
    LULL_GANTT_WANT_SHADES = 4,
};

/* A colour of the picture, and the jobs that have it. */
struct lull_gantt_layer {
    uint32_t low_mhz; /* the range of clocks; 0: the colour represents a state */
    uint32_t high_mhz;
    const char *name; /* of the state */
    uint32_t rgb;
    bool is_dark; /* text on it should be white */
};

struct lull_gantt {
    FILE *file;
    const struct lull_scenario_model *model;
    const struct lull_cluster_run *run;
    const struct lull_cluster_stretches *stretches; /* of the run */
    double span_s;
    double left; /* pixels: time is shown from left to left + width */
    double width;
    struct lull_gantt_layer layers[LULL_GANTT_MAX_LAYERS];
    uint32_t layer_count;
    bool has_clocks;
    bool has_late;                    /* a job is done after its deadline */
    struct lull_picture_bins *wants;  /* [pool]: GPUs that waiting jobs request */
    struct lull_picture_bins waiting; /* number of waiting jobs */
};

/*
 * Prepares a picture that is `width` pixels wide from `left` on; its file is set afterwards.
 * Errors: -ENOMEM. lull_gantt_fini() must follow, also after an error.
 */
int lull_gantt_init(struct lull_gantt *gantt, const struct lull_scenario_model *model,
                    const struct lull_cluster_run *run, double left, double width);
void lull_gantt_fini(struct lull_gantt *gantt);

static inline double lull_gantt_s(int64_t time_ns)
{
    return (double)time_ns * 1e-9;
}

/* Returns the x coordinate of a time, in pixels. */
double lull_gantt_x(const struct lull_gantt *gantt, double time_s);

/* Draws the background of a row whose top is at y: free GPUs. */
void lull_gantt_draw_free(const struct lull_gantt *gantt, double y, double height);

/* The number of the layer that a stretch is in. */
uint32_t lull_gantt_layer_of(const struct lull_gantt *gantt,
                             const struct lull_cluster_stretch *stretch);

/* Returns whether a job ended after its deadline. */
bool lull_gantt_is_late(const struct lull_gantt *gantt, uint32_t job);

/* Colours of a node that is not on, by its power state. */
struct lull_gantt_node_look {
    const char *name; /* null: the node is on */
    const char *class;
    uint32_t rgb;
};
extern const struct lull_gantt_node_look lull_gantt_node_looks[LULL_CLUSTER_DOWN + 1];

/* Calls `see` for each stretch in which a node was not on. Errors: -ENOMEM. */
int lull_gantt_each_node_state(const struct lull_gantt *gantt,
                               void (*see)(void *user, uint32_t node, enum lull_cluster_power power,
                                           double begin_s, double end_s),
                               void *user);

/* Colours of waiting, from 1 on: a higher one means that waiting jobs request more GPUs of their
 * pool. */
extern const uint32_t lull_gantt_want_rgb[LULL_GANTT_WANT_SHADES + 1];

/* Draws the strip of a pool's waiting jobs, whose bottom is at bottom. */
void lull_gantt_draw_wants(const struct lull_gantt *gantt, uint32_t pool, double bottom);

/*
 * gantt_boxes.c: draws rows of GPUs from top on. *bottom_out is where they end, or NAN: there are
 * too many for boxes, and nothing has been drawn. Errors: -ENOMEM.
 */
int lull_gantt_draw_boxes(const struct lull_gantt *gantt, double top, double *bottom_out);

/* gantt_bands.c: draws the same as bands. Errors: -ENOMEM. */
int lull_gantt_draw_bands(const struct lull_gantt *gantt, double top, double *bottom_out);

/* gantt_panels.c: draw a panel over time that begins at *bottom, which moves to where it ends.
 * Errors: -ENOMEM. */
int lull_gantt_draw_power(const struct lull_gantt *gantt, double *bottom);
void lull_gantt_draw_waiting(const struct lull_gantt *gantt, double *bottom);

#endif
