/*
 * The smooth curve against the textbook: the conditional of a joint normal, by plain inversion.
 * SPDX-License-Identifier: Apache-2.0
 */

#include "core/tuning/curve.h"
#include "../property.h"

enum { MAX = 8 };

static const struct lull_curve_prior prior = {
    .length = 2.0, .amplitude = 0.7, .height = 1.5, .roughness = 0.1};

static double covariance(const struct lull_curve_point *points, size_t i, size_t j)
{
    const double far = points[i].x - points[j].x;

    return 1.5 * 1.5 + 0.49 * exp(-far * far / 8.0) + (i == j ? 0.01 : 0.0);
}

/* Gauss and Jordan with pivots. */
static void invert(size_t n, double a[MAX][2 * MAX])
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            a[i][n + j] = i == j ? 1.0 : 0.0;
    for (size_t i = 0; i < n; i++) {
        size_t pivot = i;

        for (size_t k = i + 1; k < n; k++)
            if (fabs(a[k][i]) > fabs(a[pivot][i]))
                pivot = k;
        for (size_t j = 0; j < 2 * n; j++) {
            const double kept = a[i][j];

            a[i][j] = a[pivot][j];
            a[pivot][j] = kept;
        }
        for (size_t j = 2 * n; j-- > 0;)
            a[i][j] /= a[i][i];
        for (size_t k = 0; k < n; k++)
            for (size_t j = 2 * n; k != i && j-- > 0;)
                a[k][j] -= a[k][i] * a[i][j];
    }
}

struct truth {
    double mean[MAX];
    double covariance[MAX][MAX];
};

static void condition(const struct lull_curve_point *points, size_t n, double noise,
                      struct truth *truth)
{
    double a[MAX][2 * MAX] = {{0.0}};
    size_t seen[MAX], m = 0;
    double center = 0.0;

    for (size_t i = 0; i < n; i++)
        if (points[i].count > 0) {
            seen[m++] = i;
            center += points[i].value;
        }
    center /= (double)m;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < m; j++)
            a[i][j] = covariance(points, seen[i], seen[j]) +
                      (i == j ? noise / points[seen[i]].count : 0.0);
    invert(m, a);
    for (size_t i = 0; i < n; i++) {
        truth->mean[i] = center;
        for (size_t j = 0; j < n; j++)
            truth->covariance[i][j] = covariance(points, i, j);
        for (size_t k = 0; k < m; k++)
            for (size_t l = 0; l < m; l++) {
                const double weight = covariance(points, i, seen[k]) * a[k][m + l];

                truth->mean[i] += weight * (points[seen[l]].value - center);
                for (size_t j = 0; j < n; j++)
                    truth->covariance[i][j] -= weight * covariance(points, seen[l], j);
            }
    }
}

static void make_points(struct lull_random *random, struct lull_curve_point *points, size_t n)
{
    double x = 0.0;

    for (size_t i = 0; i < n; i++) {
        x += 0.2 + lull_random_uniform(random);
        points[i] = (struct lull_curve_point){
            .x = x,
            .count = (uint32_t)lull_random_below(random, 4),
            .value = lull_random_normal(random, 10.0, 1.0),
        };
    }
    points[lull_random_below(random, n)].count = 2;
}

static void test_the_curve_is_the_conditional_normal(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct lull_curve_point points[MAX];
        struct lull_random random;
        struct lull_curve curve;
        struct truth truth;
        size_t n;

        lull_random_init(&random, seed);
        n = 1 + (size_t)lull_random_below(&random, MAX);
        make_points(&random, points, n);
        lull_curve_fit(&prior, points, n, 0.04, &curve);
        condition(points, n, 0.04, &truth);
        for (size_t i = 0; i < n; i++) {
            holds(fabs(curve.mean[i] - truth.mean[i]) < 1e-8, seed);
            holds(fabs(curve.deviation[i] * curve.deviation[i] - truth.covariance[i][i]) < 1e-8,
                  seed);
            for (size_t j = 0; j <= i; j++) {
                double product = 0.0;

                for (size_t k = 0; k <= j; k++)
                    product += curve.factor[i][k] * curve.factor[j][k];
                holds(fabs(product - truth.covariance[i][j]) < 1e-8, seed);
            }
        }
    }
}

static void test_many_points_in_one_place_are_no_trouble(void **state)
{
    struct lull_curve_point points[LULL_CURVE_POINTS];
    struct lull_curve curve;

    (void)state;
    for (size_t i = 0; i < LULL_CURVE_POINTS; i++)
        points[i] = (struct lull_curve_point){.x = 1.0, .count = 1000, .value = 5.0};
    lull_curve_fit(&prior, points, LULL_CURVE_POINTS, 1e-12, &curve);
    for (size_t i = 0; i < LULL_CURVE_POINTS; i++)
        assert_near(curve.mean[i], 5.0, 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_curve_is_the_conditional_normal),
        cmocka_unit_test(test_many_points_in_one_place_are_no_trouble),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
