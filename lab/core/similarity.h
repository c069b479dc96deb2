/*
 * Corrects a model with few parameters by the errors at similar kernels.
 *
 * Kernels that are similar at their probes have similar errors elsewhere: a kernel that reads
 * memory shows where bandwidth follows the SM clock, a hot one where leakage grows. Of each kernel
 * that was measured everywhere the residual is known, log(measured / predicted from its probes).
 * The residual of a new kernel is predicted as the mean of theirs, weighted by 1 / (reach +
 * distance^2) of their features, each in standard deviations (Nadaraya 1964, Watson 1964). The
 * reach, and whether to do it at all, is chosen by leaving each of the other kernels out in turn:
 * never with the kernel itself.
 *
 * Pure; caller's storage; any thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_CORE_SIMILARITY_H
#define LULL_LAB_CORE_SIMILARITY_H

#include <stdint.h>

#include "lab/core/grid.h"

enum { LULL_SIMILARITY_FEATURES = 2 * LULL_GRID_PROBES };

struct lull_similarity {
    uint32_t kernels;
    uint32_t features;     /* of a kernel; 1..LULL_SIMILARITY_FEATURES */
    uint32_t points;       /* <= LULL_GRID_POINTS */
    const double *feature; /* kernels x features */
    const double
        *residual; /* kernels x points; the row of the kernel that is requested is not read */
};

/* The predicted residual of a kernel at all points; 0 at all points if the other kernels do not
 * improve the prediction, or if there are fewer than three. O(kernels^2 points). */
void lull_similarity_residual(const struct lull_similarity *similarity, uint32_t kernel,
                              double *residual_out);

#endif
