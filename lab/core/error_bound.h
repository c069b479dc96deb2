/*
 * How far off a prediction is at most, 19 times of 20: quantiles of errors that were made on what a
 * model had not seen (conformal prediction, Papadopoulos et al. 2002, Lei et al. 2018).
 *
 * Where the predictions tell how doubtful each is, errors are judged in units of that doubt, and of
 * what is typical: bounds are then wide where forms disagree and narrow where they do not.
 *
 * Pure; caller's storage; any thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_CORE_ERROR_BOUND_H
#define LULL_LAB_CORE_ERROR_BOUND_H

#include <stddef.h>
#include <stdint.h>

/* How often the truth is to be within an interval. */
#define LULL_ERROR_CONFIDENCE 0.95

/* Kernels that have to be left out, each in turn, before so much can be said of a further one: of
 * fewer, even the largest error is exceeded more often than once in 20 (n of n + 1 alike). */
enum { LULL_ERROR_MIN_KERNELS = 19 };

/* The bound of |log(measured / predicted)| is floor + slope x doubt; NAN: unknown. */
struct lull_error_bound {
    double floor;
    double slope;
};

/* Errors of what was left out; all >= 0. */
struct lull_error_sample {
    double *errors; /* count; sorted by score afterwards, so that they are lost */
    const double *doubts;
    size_t count;
};

/*
 * Returns the bound that holds for a kernel that is not among `kernels`, of which the errors are.
 * Errors of one kernel are alike, so that few kernels know the quantile of a further one less well
 * than their number of errors says: the quantile is taken at 1 - 0.05 kernels / (kernels + 4).
 */
struct lull_error_bound lull_error_bound_new(const struct lull_error_sample *sample,
                                             uint32_t kernels);

/* Returns the bound, without slope, for what the errors themselves are of: their quantile. */
struct lull_error_bound lull_error_bound_same(double *errors, size_t count);

/* Returns the bound where a prediction has this doubt. */
double lull_error_bound_at(const struct lull_error_bound *bound, double doubt);

#endif
