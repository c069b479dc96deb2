/*
 * A 95 % bound on the error of a prediction: quantiles of errors on data that the model had not
 * seen (conformal prediction, Papadopoulos et al. 2002, Lei et al. 2018).
 *
 * If each prediction has an uncertainty, errors are scaled by it and by a typical one: bounds are
 * then wide where forms disagree and narrow where they agree.
 *
 * Pure; caller's storage; any thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_CORE_ERROR_BOUND_H
#define LULL_LAB_CORE_ERROR_BOUND_H

#include <stddef.h>
#include <stdint.h>

/* Confidence of an interval. */
#define LULL_ERROR_CONFIDENCE 0.95

/* Least number of kernels, each left out in turn, for a bound on a further kernel. With fewer,
 * even the largest error is exceeded more often than once in 20 (by symmetry of n + 1 kernels). */
enum { LULL_ERROR_MIN_KERNELS = 19 };

/* The bound of |log(measured / predicted)| is floor + slope x doubt; NAN: unknown. */
struct lull_error_bound {
    double floor;
    double slope;
};

/* Errors on the left-out kernels; all >= 0. */
struct lull_error_sample {
    double *errors; /* count; overwritten, because they are sorted by score */
    const double *doubts;
    size_t count;
};

/*
 * Returns the bound for a kernel that is not among the `kernels` kernels of the errors.
 * Errors of one kernel are correlated, so with few kernels the quantile of a further one is less
 * certain than the number of errors suggests: the quantile is taken at 1 - 0.05 kernels / (kernels
 * + 4).
 */
struct lull_error_bound lull_error_bound_new(const struct lull_error_sample *sample,
                                             uint32_t kernels);

/* Returns the bound, without slope, for the kernels of the errors themselves: the quantile of the
 * errors. */
struct lull_error_bound lull_error_bound_same(double *errors, size_t count);

/* Returns the bound where a prediction has this doubt. */
double lull_error_bound_at(const struct lull_error_bound *bound, double doubt);

#endif
