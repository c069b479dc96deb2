/* SPDX-License-Identifier: Apache-2.0 */
#include "core/model/likeness.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>

#include "core/model/cholesky.h"

static_assert((int)LULL_GRID_PROBES <= (int)LULL_CHOLESKY_MOST, "the systems fit the solver");

/* The squares of distances within which kernels count alike, to choose from. Chosen on the sets of
 * docs/models.md, which tells what depends on it. */
static const double reaches[] = {0.05, 0.1, 0.3, 1.0};
enum { REACHES = sizeof(reaches) / sizeof(reaches[0]), LEAST_KERNELS = 3 };

/* The range of clocks over which a kernel's own residual stays alike, and the variance of what each
 * point has by itself, in that of what is alike. Chosen on the sets of docs/models.md,
 * which tells what depends on them. */
static const double spread_range = 0.5;
static const double spread_noise = 1.2;

/* ---- kernels like it ---------------------------------------------------------------------- */

static const double *feature_of(const struct lull_likeness *likeness, uint32_t kernel)
{
    return &likeness->feature[(size_t)kernel * likeness->features];
}

static const double *residual_of(const struct lull_likeness *likeness, uint32_t kernel)
{
    return &likeness->residual[(size_t)kernel * likeness->points];
}

/* 1 / variance of each feature over all kernels; 0 for one that does not vary. */
static void weigh_features(const struct lull_likeness *likeness, double *weights)
{
    for (uint32_t f = 0; f < likeness->features; f++) {
        double mean = 0.0, squares = 0.0;

        for (uint32_t k = 0; k < likeness->kernels; k++)
            mean += feature_of(likeness, k)[f] / likeness->kernels;
        for (uint32_t k = 0; k < likeness->kernels; k++) {
            const double off = feature_of(likeness, k)[f] - mean;

            squares += off * off / likeness->kernels;
        }
        weights[f] = squares > 0.0 ? 1.0 / squares : 0.0;
    }
}

/* The mean over the features, so that the reach means the same for any number of probes. */
static double distance(const struct lull_likeness *likeness, const double *weights, uint32_t a,
                       uint32_t b)
{
    const double *const first = feature_of(likeness, a);
    const double *const second = feature_of(likeness, b);
    double sum = 0.0;

    for (uint32_t f = 0; f < likeness->features; f++)
        sum += weights[f] * (first[f] - second[f]) * (first[f] - second[f]);
    return sum / likeness->features;
}

/* The mean residual of kernels like `kernel`, without that one and another. */
static void mean_residual(const struct lull_likeness *likeness, const double *weights,
                          uint32_t kernel, uint32_t without, double reach, double *residual_out)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < likeness->points; i++)
        residual_out[i] = 0.0;
    for (uint32_t k = 0; k < likeness->kernels; k++) {
        const double *const residual = residual_of(likeness, k);
        double weight;

        if (k == kernel || k == without)
            continue;
        weight = 1.0 / (reach + distance(likeness, weights, kernel, k));
        sum += weight;
        for (uint32_t i = 0; i < likeness->points; i++)
            residual_out[i] += weight * residual[i];
    }
    for (uint32_t i = 0; i < likeness->points; i++)
        residual_out[i] /= sum;
}

/* The error that is left of the other kernels when each is predicted by the rest; with reach 0
 * their residuals as they are. */
static double left_out_error(const struct lull_likeness *likeness, const double *weights,
                             uint32_t kernel, double reach)
{
    double predicted[LULL_GRID_POINTS] = {0.0};
    double error = 0.0;

    for (uint32_t k = 0; k < likeness->kernels; k++) {
        const double *const residual = residual_of(likeness, k);

        if (k == kernel)
            continue;
        if (reach > 0.0)
            mean_residual(likeness, weights, k, kernel, reach, predicted);
        for (uint32_t i = 0; i < likeness->points; i++)
            error += fabs(residual[i] - predicted[i]);
    }
    return error;
}

void lull_likeness_residual(const struct lull_likeness *likeness, uint32_t kernel,
                            double *residual_out)
{
    double weights[LULL_LIKENESS_FEATURES];
    double least, chosen = 0.0;

    assert(likeness->features >= 1 && likeness->features <= LULL_LIKENESS_FEATURES);
    assert(likeness->points <= LULL_GRID_POINTS && kernel < likeness->kernels);
    for (uint32_t i = 0; i < likeness->points; i++)
        residual_out[i] = 0.0;
    if (likeness->kernels <= LEAST_KERNELS)
        return;
    weigh_features(likeness, weights);
    least = left_out_error(likeness, weights, kernel, 0.0);
    for (uint32_t r = 0; r < REACHES; r++) {
        const double error = left_out_error(likeness, weights, kernel, reaches[r]);

        if (error < least) {
            least = error;
            chosen = reaches[r];
        }
    }
    if (chosen > 0.0)
        mean_residual(likeness, weights, kernel, kernel, chosen, residual_out);
}

/* ---- its own probes ----------------------------------------------------------------------- */

/* How far the clocks of a grid reach, in ratios of the base; never 0. */
struct extent {
    double sm;
    double mem;
};

static struct extent measure_extent(const struct lull_grid *grid)
{
    struct extent least = {INFINITY, INFINITY}, most = {0.0, 0.0};

    for (uint32_t i = 0; i < grid->point_count; i++) {
        least.sm = fmin(least.sm, grid->points[i].sm_ratio);
        least.mem = fmin(least.mem, grid->points[i].mem_ratio);
        most.sm = fmax(most.sm, grid->points[i].sm_ratio);
        most.mem = fmax(most.mem, grid->points[i].mem_ratio);
    }
    most.sm -= least.sm;
    most.mem -= least.mem;
    return (struct extent){most.sm > 0.0 ? most.sm : 1.0, most.mem > 0.0 ? most.mem : 1.0};
}

static double covariance(const struct lull_grid *grid, struct extent extent, uint32_t a, uint32_t b)
{
    const double sm = (grid->points[a].sm_ratio - grid->points[b].sm_ratio) / extent.sm;
    const double mem = (grid->points[a].mem_ratio - grid->points[b].mem_ratio) / extent.mem;

    return exp(-(sm * sm + mem * mem) / (2.0 * spread_range * spread_range));
}

void lull_likeness_spread(const struct lull_grid *grid, const uint32_t *probes,
                          uint32_t probe_count, const double *residual_at_probes,
                          double *residual_out)
{
    const struct extent extent = measure_extent(grid);
    double matrix[LULL_CHOLESKY_MOST][LULL_CHOLESKY_MOST];
    double weights[LULL_GRID_PROBES];
    bool is_solved;

    assert(probe_count <= LULL_GRID_PROBES);
    for (uint32_t i = 0; i < probe_count; i++) {
        for (uint32_t j = 0; j <= i; j++)
            matrix[i][j] = covariance(grid, extent, probes[i], probes[j]);
        matrix[i][i] += spread_noise;
    }
    is_solved = lull_cholesky_solve(probe_count, matrix, residual_at_probes, weights);
    assert(is_solved); /* the noise keeps all pivots above 0 */
    (void)is_solved;
    for (uint32_t point = 0; point < grid->point_count; point++) {
        residual_out[point] = 0.0;
        for (uint32_t i = 0; i < probe_count; i++)
            residual_out[point] += weights[i] * covariance(grid, extent, point, probes[i]);
    }
}
