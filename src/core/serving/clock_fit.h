/*
 * A linear model without negative coefficients, fitted to windows that ran at different clocks.
 *
 * Each window gives values of the model's features and the measured sum. Least squares with
 * coefficients >= 0 (coordinate descent; Lawson and Hanson 1974 give the problem), and a small
 * price for each coefficient: where windows at one clock cannot tell two features apart, the one
 * with the lower price explains them.
 *
 * The windows of each range of clocks are forgotten by themselves, when newer ones of the same
 * range replace them. So a stay at one clock does not erase what other clocks have shown.
 *
 * Pure; caller's storage. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SERVING_CLOCK_FIT_H
#define LULL_CORE_SERVING_CLOCK_FIT_H

#include <stdint.h>

enum { LULL_CLOCK_FIT_FEATURES = 7, LULL_CLOCK_FIT_RANGES = 16 };

struct lull_clock_fit_range {
    double weight; /* windows that count */
    double products[LULL_CLOCK_FIT_FEATURES][LULL_CLOCK_FIT_FEATURES];
    double targets[LULL_CLOCK_FIT_FEATURES];
};

struct lull_clock_fit {
    uint32_t features;
    double memory; /* windows of a range that count */
    double
        price[LULL_CLOCK_FIT_FEATURES]; /* of a coefficient, relative to what it explains; 0..1 */
    double value[LULL_CLOCK_FIT_FEATURES]; /* the coefficients; 0 before the first window */
    struct lull_clock_fit_range ranges[LULL_CLOCK_FIT_RANGES];
};

/* features 1..LULL_CLOCK_FIT_FEATURES; price has that many; memory > 1. */
void lull_clock_fit_init(struct lull_clock_fit *fit, uint32_t features, const double *price,
                         double memory);

/* Adds a window. slowness: the highest clock / the window's clock, >= 1. All values are finite, and
 * features >= 0. weight > 0. Changes no coefficient. */
void lull_clock_fit_add(struct lull_clock_fit *fit, double slowness, const double *features,
                        double sum, double weight);

/* Fits the coefficients to the windows so far. O(features^2), some hundred times. */
void lull_clock_fit_solve(struct lull_clock_fit *fit);

/* Returns the model's sum for these features. */
double lull_clock_fit_predict(const struct lull_clock_fit *fit, const double *features);

#endif
