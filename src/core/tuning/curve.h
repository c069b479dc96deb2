/*
 * A smooth curve through noisy points: Gaussian-process regression with a constant of unknown
 * height and a squared-exponential kernel, plus a little roughness of each point's own (Rasmussen
 * and Williams 2006, algorithm 2.1). The sizes of one job are related: the cost of one informs the
 * estimates of its neighbours.
 *
 * Pure; caller's storage; O(count^3). SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_TUNING_CURVE_H
#define LULL_CORE_TUNING_CURVE_H

#include <stddef.h>
#include <stdint.h>

enum { LULL_CURVE_POINTS = 64 };

/* Deviations are in the unit of the values. */
struct lull_curve_prior {
    double length;    /* over which values stay alike, in the unit of x; > 0 */
    double amplitude; /* of the curve around its height; > 0 */
    double height;    /* distance of that from the mean of the observations */
    double roughness; /* of each single point; > 0 */
};

struct lull_curve_point {
    double x;
    uint32_t count; /* observations; 0: none, value is ignored */
    double value;   /* their mean */
};

struct lull_curve {
    size_t count;
    double mean[LULL_CURVE_POINTS];
    double deviation[LULL_CURVE_POINTS];
    /* Lower triangle L with L L' the covariance of all points. */
    double factor[LULL_CURVE_POINTS][LULL_CURVE_POINTS];
};

/*
 * The estimates of all points, count <= LULL_CURVE_POINTS, at least one of them observed.
 * noise_variance: of one observation, > 0.
 */
void lull_curve_fit(const struct lull_curve_prior *prior, const struct lull_curve_point *points,
                    size_t count, double noise_variance, struct lull_curve *curve_out);

#endif
