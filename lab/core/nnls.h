/*
 * Least squares with coefficients that are never below 0 (Lawson and Hanson 1974, chapter 23), on
 * the relative error: a row counts by its misfit divided by what was measured, so that a kernel of
 * 60 ms counts no more than one of 60 us.
 *
 * The rows are summed into normal equations as they come, so that nothing is allocated and a fit
 * costs the same however many rows there are. With the few, well-scaled terms of the models here
 * (constants, clocks relative to a base) this is as accurate as the measurements. Terms that are
 * linearly dependent up to rounding are detected, and the later one gets 0.
 *
 * Pure; caller's storage; any thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_CORE_NNLS_H
#define LULL_LAB_CORE_NNLS_H

#include <stdint.h>

enum { LULL_NNLS_TERMS = 4 };

struct lull_nnls {
    uint32_t terms;
    double gram[LULL_NNLS_TERMS][LULL_NNLS_TERMS];
    double right[LULL_NNLS_TERMS];
};

/* Begins a fit without rows; terms is 1..LULL_NNLS_TERMS. */
struct lull_nnls lull_nnls_begin(uint32_t terms);

/* Adds a row of `terms` finite values that should sum up, times the coefficients, to measured,
 * which is above 0. */
void lull_nnls_add(struct lull_nnls *fit, const double *row, double measured);

/* Finds the coefficients, all >= 0 and finite; all are 0 before the first row. */
void lull_nnls_solve(const struct lull_nnls *fit, double *coefficients_out);

#endif
