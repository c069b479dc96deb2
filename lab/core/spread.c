/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/core/spread.h"

#include <assert.h>
#include <math.h>

#include "lab/core/cholesky.h"

static_assert((int)LULL_GRID_PROBES <= (int)LULL_CHOLESKY_MAX, "the systems fit the solver");

/* The range of clocks over which residuals stay correlated, and the variance of each point's
 * independent part relative to that of the correlated part. Chosen on the sets of
 * docs/research/measurements/models.md, which states their effect. */
static const double range = 0.5;
static const double noise = 1.2;

static void measure_extent(const struct lull_grid_point *points, uint32_t count,
                           struct lull_spread *spread)
{
    double min_sm = INFINITY, min_mem = INFINITY, max_sm = 0.0, max_mem = 0.0;

    for (uint32_t i = 0; i < count; i++) {
        min_sm = fmin(min_sm, points[i].sm_ratio);
        min_mem = fmin(min_mem, points[i].mem_ratio);
        max_sm = fmax(max_sm, points[i].sm_ratio);
        max_mem = fmax(max_mem, points[i].mem_ratio);
    }
    spread->sm_extent = max_sm > min_sm ? max_sm - min_sm : 1.0;
    spread->mem_extent = max_mem > min_mem ? max_mem - min_mem : 1.0;
}

static double spread_covariance(const struct lull_spread *spread, const struct lull_grid_point *a,
                                const struct lull_grid_point *b)
{
    const double sm = (a->sm_ratio - b->sm_ratio) / spread->sm_extent;
    const double mem = (a->mem_ratio - b->mem_ratio) / spread->mem_extent;

    return exp(-(sm * sm + mem * mem) / (2.0 * range * range));
}

void lull_spread_fit(const struct lull_grid_point *points, uint32_t point_count,
                     const struct lull_grid_point *probes, const double *left, uint32_t count,
                     struct lull_spread *spread_out)
{
    double matrix[LULL_CHOLESKY_MAX][LULL_CHOLESKY_MAX];
    bool is_solved;

    assert(count >= 1 && count <= LULL_GRID_PROBES);
    *spread_out = (struct lull_spread){.count = count};
    measure_extent(points, point_count, spread_out);
    for (uint32_t i = 0; i < count; i++) {
        spread_out->at[i] = probes[i];
        for (uint32_t j = 0; j <= i; j++)
            matrix[i][j] = spread_covariance(spread_out, &probes[i], &probes[j]);
        matrix[i][i] += noise;
    }
    is_solved = lull_cholesky_solve(count, matrix, left, spread_out->weight);
    assert(is_solved); /* the noise keeps all pivots above 0 */
    (void)is_solved;
}

double lull_spread_at(const struct lull_spread *spread, const struct lull_grid_point *point)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < spread->count; i++)
        sum += spread->weight[i] * spread_covariance(spread, &spread->at[i], point);
    return sum;
}
