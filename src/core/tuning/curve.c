/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tuning/curve.h"

#include <math.h>

enum { N = LULL_CURVE_POINTS };

static double gp_curve_kernel(const struct lull_curve_prior *prior,
                              const struct lull_curve_point *points, size_t i, size_t j)
{
    const double distance = (points[i].x - points[j].x) / prior->length;
    const double smooth = prior->amplitude * prior->amplitude * exp(-0.5 * distance * distance);
    const double common = prior->height * prior->height + smooth;

    if (i != j)
        return common;
    return common + prior->roughness * prior->roughness;
}

/* Cholesky's factor in place of the lower triangle. What rounding makes negative is next to 0. */
static void gp_curve_factorize(size_t n, double (*matrix)[N])
{
    const double least = 1e-14;

    for (size_t j = 0; j < n; j++) {
        double diagonal = matrix[j][j];

        for (size_t k = 0; k < j; k++)
            diagonal -= matrix[j][k] * matrix[j][k];
        matrix[j][j] = sqrt(fmax(diagonal, least));
        for (size_t i = j + 1; i < n; i++) {
            double rest = matrix[i][j];

            for (size_t k = 0; k < j; k++)
                rest -= matrix[i][k] * matrix[j][k];
            matrix[i][j] = rest / matrix[j][j];
        }
    }
}

struct work {
    size_t observed[N]; /* indices of points */
    size_t count;
    double center;         /* mean of the observed values */
    double factor[N][N];   /* of the observed values' covariance */
    double residual[N];    /* factor^-1 (values - center) */
    double relation[N][N]; /* factor^-1 (covariance of observed values with all points) */
};

/* Sizes that were not run carry no information about the curve and are left out of the factor. */
static void factorize_observed(const struct lull_curve_prior *prior,
                               const struct lull_curve_point *points, size_t count,
                               double noise_variance, struct work *work)
{
    for (size_t i = 0; i < count; i++)
        if (points[i].count > 0) {
            work->observed[work->count++] = i;
            work->center += points[i].value;
        }
    work->center /= (double)work->count;
    for (size_t i = 0; i < work->count; i++) {
        const size_t at = work->observed[i];

        for (size_t j = 0; j <= i; j++)
            work->factor[i][j] = gp_curve_kernel(prior, points, at, work->observed[j]);
        work->factor[i][i] += noise_variance / points[at].count;
    }
    gp_curve_factorize(work->count, work->factor);
}

/* Solves for the values and for all points at once, with the one factor that both need. */
static void gp_curve_relate(const struct lull_curve_prior *prior,
                            const struct lull_curve_point *points, size_t count, struct work *work)
{
    for (size_t i = 0; i < work->count; i++) {
        const size_t at = work->observed[i];
        double residual = points[at].value - work->center;

        for (size_t k = 0; k < i; k++)
            residual -= work->factor[i][k] * work->residual[k];
        work->residual[i] = residual / work->factor[i][i];
        for (size_t j = 0; j < count; j++) {
            double relation = gp_curve_kernel(prior, points, at, j);

            for (size_t k = 0; k < i; k++)
                relation -= work->factor[i][k] * work->relation[k][j];
            work->relation[i][j] = relation / work->factor[i][i];
        }
    }
}

void lull_curve_fit(const struct lull_curve_prior *prior, const struct lull_curve_point *points,
                    size_t count, double noise_variance, struct lull_curve *curve_out)
{
    struct work work = {.count = 0};

    factorize_observed(prior, points, count, noise_variance, &work);
    gp_curve_relate(prior, points, count, &work);
    curve_out->count = count;
    for (size_t i = 0; i < count; i++) {
        curve_out->mean[i] = work.center;
        for (size_t k = 0; k < work.count; k++)
            curve_out->mean[i] += work.relation[k][i] * work.residual[k];
        for (size_t j = 0; j <= i; j++) {
            curve_out->factor[i][j] = gp_curve_kernel(prior, points, i, j);
            for (size_t k = 0; k < work.count; k++)
                curve_out->factor[i][j] -= work.relation[k][i] * work.relation[k][j];
        }
        curve_out->deviation[i] = sqrt(fmax(curve_out->factor[i][i], 0.0));
    }
    gp_curve_factorize(count, curve_out->factor);
}
