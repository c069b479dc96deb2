/*
 * A function of time for a picture: the mean over each of many equal parts of the time that it
 * shows, so that its size does not depend on how often the function changes.
 *
 * Threads: one, of the owner. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PICTURE_BINS_H
#define LULL_CLI_PICTURE_BINS_H

#include <stddef.h>
#include <stdio.h>

struct lull_picture_bins {
    double span_s;
    size_t count;
    double *mean;
};

/* From 0 to span_s > 0; zero everywhere. -ENOMEM. */
int lull_picture_bins_init(struct lull_picture_bins *bins, double span_s, size_t count);
void lull_picture_bins_fini(struct lull_picture_bins *bins);

/* The function is higher by value from begin_s to end_s, as far as that is within its span. */
void lull_picture_bins_add(struct lull_picture_bins *bins, double begin_s, double end_s,
                           double value);
double lull_picture_bins_most(const struct lull_picture_bins *bins);

/* Where an area is drawn, in pixels. */
struct lull_picture_area {
    double left;
    double width;
    double bottom;     /* of value 0 */
    double per_amount; /* height of value 1; below 0: downwards */
};

/* Writes what stands in a path's d: the area between the function and 0. */
void lull_picture_bins_write(const struct lull_picture_bins *bins,
                             const struct lull_picture_area *area, FILE *file);

#endif
