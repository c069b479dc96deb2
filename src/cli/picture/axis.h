/*
 * What pictures (SVG) of things over time share: an axis of time below them, axes of amounts beside
 * them, and text. Elements carry classes, so that a picture may have another style for dark
 * grounds: "line" axes and their marks, "grid" lines through the picture, "label" texts.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PICTURE_AXIS_H
#define LULL_CLI_PICTURE_AXIS_H

#include <stdio.h>

#include "base/amount.h"

/* 1, 2 or 5 times a power of ten, about so many to the span; span > 0. */
double lull_picture_tick(double span, double about);

/* Text with what XML would take for its own escaped. */
void lull_picture_write_text(FILE *file, const char *text);

struct lull_picture_time_axis {
    double left; /* pixels; the axis shows 0 at left to span_s at left + width */
    double width;
    double top; /* where lines through the picture begin */
    double bottom;
    double span_s; /* > 0 */
};

/* In ms, s, min, h or d, as fits the span. */
void lull_picture_draw_time_axis(FILE *file, const struct lull_picture_time_axis *axis);

struct lull_picture_amount_axis {
    double left;
    double right;  /* of the lines through the picture */
    double top;    /* shows most */
    double bottom; /* shows 0 */
    double most;   /* > 0 */
    struct lull_amount (*text)(double amount);
};

/* To the left of left. */
void lull_picture_draw_amount_axis(FILE *file, const struct lull_picture_amount_axis *axis);

#endif
