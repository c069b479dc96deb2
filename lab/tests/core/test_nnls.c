/*
 * Non-negative least squares against the best of all subsets of terms, each solved by Gauss's
 * elimination. SPDX-License-Identifier: Apache-2.0
 */
#include "lab/core/nnls.h"

#include <stdbool.h>
#include <string.h>

#include "tests/core/property.h"

enum { MAX_ROWS = 12, TERMS = LULL_NNLS_TERMS };

struct problem {
    uint32_t rows, terms;
    double row[MAX_ROWS][TERMS];
    double measured[MAX_ROWS];
};

static double misfit(const struct problem *problem, const double *coefficients)
{
    double sum = 0.0;

    for (uint32_t r = 0; r < problem->rows; r++) {
        double error = -1.0;

        for (uint32_t i = 0; i < problem->terms; i++)
            error += problem->row[r][i] * coefficients[i] / problem->measured[r];
        sum += error * error;
    }
    return sum;
}

/* Solves the normal equations of the terms in the mask with pivots; false: they are singular. */
static bool solve_subset(const struct problem *problem, uint32_t mask, double *coefficients)
{
    long double a[TERMS][TERMS + 1];

    memset(a, 0, sizeof(a));
    for (uint32_t i = 0; i < problem->terms; i++) {
        if ((mask >> i & 1) == 0) {
            a[i][i] = 1.0L;
            continue;
        }
        for (uint32_t r = 0; r < problem->rows; r++) {
            const long double scaled = problem->row[r][i] / (long double)problem->measured[r];

            a[i][problem->terms] += scaled;
            for (uint32_t j = 0; j < problem->terms; j++)
                if ((mask >> j & 1) != 0)
                    a[i][j] += scaled * problem->row[r][j] / problem->measured[r];
        }
    }
    for (uint32_t i = 0; i < problem->terms; i++) {
        uint32_t pivot = i;

        for (uint32_t k = i; k < problem->terms; k++)
            if (fabsl(a[k][i]) > fabsl(a[pivot][i]))
                pivot = k;
        if (fabsl(a[pivot][i]) < 1e-15L)
            return false;
        for (uint32_t j = 0; j <= problem->terms; j++) {
            const long double kept = a[i][j];

            a[i][j] = a[pivot][j];
            a[pivot][j] = kept;
        }
        for (uint32_t k = 0; k < problem->terms; k++)
            for (uint32_t j = problem->terms + 1; k != i && j-- > i;)
                a[k][j] -= a[i][j] * (a[k][i] / a[i][i]);
    }
    for (uint32_t i = 0; i < problem->terms; i++)
        coefficients[i] = (double)(a[i][problem->terms] / a[i][i]);
    return true;
}

static double best_of_subsets(const struct problem *problem)
{
    double best = problem->rows; /* all coefficients 0 */

    for (uint32_t mask = 1; mask < 1u << problem->terms; mask++) {
        double coefficients[TERMS];
        bool is_feasible = solve_subset(problem, mask, coefficients);

        for (uint32_t i = 0; is_feasible && i < problem->terms; i++)
            is_feasible = coefficients[i] >= 0.0;
        if (is_feasible)
            best = fmin(best, misfit(problem, coefficients));
    }
    return best;
}

static void solve(const struct problem *problem, double *coefficients)
{
    struct lull_nnls fit = lull_nnls_begin(problem->terms);

    for (uint32_t r = 0; r < problem->rows; r++)
        lull_nnls_add(&fit, problem->row[r], problem->measured[r]);
    lull_nnls_solve(&fit, coefficients);
}

static struct problem draw(struct lull_random *random)
{
    struct problem problem = {.rows = 1 + (uint32_t)lull_random_below(random, MAX_ROWS),
                              .terms = 1 + (uint32_t)lull_random_below(random, TERMS)};
    const bool is_signed = lull_random_below(random, 2) == 0;

    for (uint32_t r = 0; r < problem.rows; r++) {
        for (uint32_t i = 0; i < problem.terms; i++)
            problem.row[r][i] = lull_random_uniform(random) - (is_signed ? 0.5 : 0.0);
        problem.measured[r] = exp(4.0 * lull_random_uniform(random) - 2.0);
    }
    return problem;
}

static void test_best_of_all_subsets(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4000; seed++) {
        struct lull_random random;
        struct problem problem;
        double coefficients[TERMS];

        lull_random_init(&random, seed);
        problem = draw(&random);
        solve(&problem, coefficients);
        for (uint32_t i = 0; i < problem.terms; i++)
            holds(coefficients[i] >= 0.0 && isfinite(coefficients[i]), seed);
        holds(misfit(&problem, coefficients) <= best_of_subsets(&problem) * (1.0 + 1e-7) + 1e-10,
              seed);
    }
}

/* The random coefficients are recovered, including those that are 0. */
static void test_drawn_coefficients(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 500; seed++) {
        double drawn[TERMS], found[TERMS];
        struct lull_random random;
        struct problem problem;

        lull_random_init(&random, seed);
        problem = draw(&random);
        problem.rows = MAX_ROWS;
        problem.terms = TERMS;
        for (uint32_t i = 0; i < TERMS; i++)
            drawn[i] = lull_random_below(&random, 3) == 0 ? 0.0 : lull_random_uniform(&random);
        drawn[0] += 0.1;
        for (uint32_t r = 0; r < MAX_ROWS; r++) {
            problem.measured[r] = 0.0;
            for (uint32_t i = 0; i < TERMS; i++) {
                problem.row[r][i] = 0.1 + lull_random_uniform(&random);
                problem.measured[r] += problem.row[r][i] * drawn[i];
            }
        }
        solve(&problem, found);
        for (uint32_t i = 0; i < TERMS; i++)
            holds(fabs(found[i] - drawn[i]) < 1e-7, seed);
    }
}

/* A row that is ten times as long counts as much: the error is relative. */
static void test_relative(void **state)
{
    struct problem problem = {.rows = 2, .terms = 1};
    double found;

    (void)state;
    problem.row[0][0] = problem.row[1][0] = 1.0;
    problem.measured[0] = 1.0;
    problem.measured[1] = 10.0;
    solve(&problem, &found);
    assert_near(found, (1.0 + 0.1) / (1.0 + 0.01), 1e-12);
}

static void test_dependent_terms(void **state)
{
    struct problem problem = {.rows = 4, .terms = 3};
    double found[TERMS];

    (void)state;
    for (uint32_t r = 0; r < 4; r++) {
        problem.row[r][0] = problem.row[r][2] = 1.0;
        problem.row[r][1] = r;
        problem.measured[r] = 5.0 + 2.0 * r;
    }
    solve(&problem, found);
    assert_near(found[0] + found[2], 5.0, 1e-9);
    assert_near(found[1], 2.0, 1e-9);
    assert_true(found[0] <= 0.0 || found[2] <= 0.0);
}

/* A term that is the sum of others but for rounding makes no coefficient large. */
static void test_nearly_dependent_terms(void **state)
{
    struct problem problem = {.rows = 7, .terms = 3};
    double found[TERMS];

    (void)state;
    for (uint32_t r = 0; r < 7; r++) {
        problem.row[r][0] = 0.1 + 0.3 * r;
        problem.row[r][1] = 1.0 / (1.0 + r);
        problem.row[r][2] = 0.3 * problem.row[r][0] + 0.7 * problem.row[r][1];
        problem.measured[r] = 1.0 + 0.1 * (r % 3);
    }
    solve(&problem, found);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(found[i] >= 0.0 && found[i] < 5.0);
    assert_near(misfit(&problem, found), best_of_subsets(&problem), 1e-9);
}

static void test_no_rows(void **state)
{
    const struct problem problem = {.rows = 0, .terms = 2};
    double found[TERMS] = {1.0, 1.0};

    (void)state;
    solve(&problem, found);
    assert_near(found[0], 0.0, 0.0);
    assert_near(found[1], 0.0, 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_best_of_all_subsets),
        cmocka_unit_test(test_drawn_coefficients),
        cmocka_unit_test(test_relative),
        cmocka_unit_test(test_dependent_terms),
        cmocka_unit_test(test_nearly_dependent_terms),
        cmocka_unit_test(test_no_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
