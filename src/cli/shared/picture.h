/*
 * Common parts of pictures (SVG) over time: a time axis below, amount axes at the sides, and text.
 * Elements carry classes, so that a picture may have another style for dark backgrounds: "line"
 * axes and their marks, "grid" lines through the picture, "label" texts.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_SHARED_PICTURE_H
#define LULL_CLI_SHARED_PICTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/amount.h"

/* Returns the distance of the marks of an axis: 1, 2 or 5 times a power of ten, so that about this
 * many fit into the span, which is above 0. */
double lull_picture_tick(double span, double about);

struct lull_picture_time_axis {
    double left; /* pixels; the axis shows 0 at left to span_s at left + width */
    double width;
    double top; /* begin of lines through the picture */
    double bottom;
    double span_s; /* > 0 */
};

/* Draws an axis of time, labelled in ms, s, min, h or d as fits its span. */
void lull_picture_draw_time_axis(FILE *file, const struct lull_picture_time_axis *axis);

struct lull_picture_amount_axis {
    double left;
    double right;  /* end of lines through the picture */
    double top;    /* the pixel row that shows most */
    double bottom; /* the pixel row that shows 0 */
    double most;   /* > 0 */
    struct lull_amount (*text)(double amount);
};

/* Draws an axis of amounts, with its labels to the left of axis->left. */
void lull_picture_draw_amount_axis(FILE *file, const struct lull_picture_amount_axis *axis);

/* ---- functions of time ----------------------------------------------------------------------- */

/* A function of time is shown by its mean over each of many equal parts of the time, so that the
 * size of a picture does not depend on how often the function changes. Threads: one, of the owner.
 */

struct lull_picture_bins {
    double span_s;
    size_t count;
    double *mean;
};

/* Begins a function that is zero from 0 to span_s, which is above 0. Errors: -ENOMEM. */
int lull_picture_bins_init(struct lull_picture_bins *bins, double span_s, size_t count);
void lull_picture_bins_fini(struct lull_picture_bins *bins);

/* Adds a value to the function from begin_s to end_s, as far as that lies within its span. */
void lull_picture_bins_add(struct lull_picture_bins *bins, double begin_s, double end_s,
                           double value);
double lull_picture_bins_most(const struct lull_picture_bins *bins);

/* Position of an area, in pixels. */
struct lull_picture_area {
    double left;
    double width;
    double bottom;     /* the pixel row of value 0 */
    double per_amount; /* height of value 1 in pixels; below 0 the area grows downwards */
};

/* Writes the attribute d of an SVG path that encloses the area between the function and 0. */
void lull_picture_bins_write(const struct lull_picture_bins *bins,
                             const struct lull_picture_area *area, FILE *file);

/* ---- colours of clocks ----------------------------------------------------------------------- */

/* The colours of clocks: cool for the lowest, warm for the highest, grey where there is no clock.
 * Up to LULL_CLOCK_SHADES clocks have a shade each; if there are more, they share shades. */

enum { LULL_CLOCK_SHADES = 48 };

struct lull_clock_shade {
    uint32_t rgb;
    bool is_dark; /* text on this shade has to be white */
};

struct lull_clock_colours {
    uint32_t low_mhz;
    uint32_t high_mhz;
    struct lull_clock_shade shades[LULL_CLOCK_SHADES + 1]; /* the first shade represents no clock */
    uint32_t shade_count;
};

/* Build a scale: init, then add for every clock that occurs (0 for no clock), then finish. */
void lull_clock_colours_init(struct lull_clock_colours *colours);
void lull_clock_colours_add(struct lull_clock_colours *colours, uint32_t mhz);
void lull_clock_colours_finish(struct lull_clock_colours *colours);

/* Returns the index of the shade of a clock. */
uint32_t lull_clock_colours_shade(const struct lull_clock_colours *colours, uint32_t mhz);

/* Draws the scale as SVG with its upper left corner at x, y; returns where it ends to the right. */
double lull_clock_colours_draw(const struct lull_clock_colours *colours, FILE *file, double x,
                               double y);

#endif
