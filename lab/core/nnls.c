/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/core/nnls.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

#include "lab/core/cholesky.h"

static_assert((int)LULL_NNLS_TERMS <= (int)LULL_CHOLESKY_MAX, "the systems fit the solver");

/* A slope below this share of its term's own size is rounding. */
static const double min_slope = 1e-12;

struct lull_nnls lull_nnls_begin(uint32_t terms)
{
    assert(terms >= 1 && terms <= LULL_NNLS_TERMS);
    return (struct lull_nnls){.terms = terms};
}

void lull_nnls_add(struct lull_nnls *fit, const double *row, double measured)
{
    assert(measured > 0.0);
    for (uint32_t i = 0; i < fit->terms; i++) {
        for (uint32_t j = 0; j < fit->terms; j++)
            fit->gram[i][j] += row[i] / measured * (row[j] / measured);
        fit->right[i] += row[i] / measured;
    }
}

/* The terms that are above 0 for now, or were found to depend on those. */
struct support {
    bool has[LULL_NNLS_TERMS];
    bool is_dependent[LULL_NNLS_TERMS];
};

/* Solves for the terms of the support alone; false: they depend on each other. */
static bool solve_support(const struct lull_nnls *fit, const bool *has, double *values_out)
{
    double matrix[LULL_CHOLESKY_MAX][LULL_CHOLESKY_MAX] = {{0.0}};
    double right[LULL_NNLS_TERMS], solution[LULL_NNLS_TERMS];
    uint32_t terms[LULL_NNLS_TERMS], count = 0;

    for (uint32_t i = 0; i < fit->terms; i++)
        if (has[i])
            terms[count++] = i;
    for (uint32_t i = 0; i < count; i++) {
        right[i] = fit->right[terms[i]];
        for (uint32_t j = 0; j <= i; j++)
            matrix[i][j] = fit->gram[terms[i]][terms[j]];
    }
    if (!lull_cholesky_solve(count, matrix, right, solution))
        return false;
    for (uint32_t i = 0; i < fit->terms; i++)
        values_out[i] = 0.0;
    for (uint32_t i = 0; i < count; i++)
        values_out[terms[i]] = solution[i];
    return true;
}

/* The term outside the support by which the misfit falls fastest; LULL_NNLS_TERMS: there is none.
 */
static uint32_t find_steepest(const struct lull_nnls *fit, const struct support *support,
                              const double *values)
{
    uint32_t best = LULL_NNLS_TERMS;
    double most = 0.0;

    for (uint32_t i = 0; i < fit->terms; i++) {
        double slope = fit->right[i];

        if (support->has[i] || support->is_dependent[i] || fit->gram[i][i] <= 0.0)
            continue;
        for (uint32_t j = 0; j < fit->terms; j++)
            slope -= fit->gram[i][j] * values[j];
        /* The misfit gained is slope^2 / gram, which does not depend on the term's unit. */
        slope /= sqrt(fit->gram[i][i]);
        if (slope > min_slope + most) {
            most = slope;
            best = i;
        }
    }
    return best;
}

/* Goes from the values towards the wanted ones until the first of them reaches 0, and drops it. */
static void nnls_retreat(const struct lull_nnls *fit, struct support *support, const double *wanted,
                         double *values)
{
    uint32_t first = LULL_NNLS_TERMS;
    double share = 1.0;

    for (uint32_t i = 0; i < fit->terms; i++) {
        double reach;

        if (!support->has[i] || wanted[i] > 0.0)
            continue;
        reach = values[i] > 0.0 ? values[i] / (values[i] - wanted[i]) : 0.0;
        if (first == LULL_NNLS_TERMS || reach < share) {
            share = reach;
            first = i;
        }
    }
    assert(first < LULL_NNLS_TERMS);
    for (uint32_t i = 0; i < fit->terms; i++)
        values[i] += share * (wanted[i] - values[i]);
    values[first] = 0.0;
    support->has[first] = false;
}

static bool is_positive(const struct lull_nnls *fit, const bool *has, const double *values)
{
    for (uint32_t i = 0; i < fit->terms; i++)
        if (has[i] && !(values[i] > 0.0))
            return false;
    return true;
}

/* Moves the values to the best ones of the support, less the terms that would fall below 0. */
static void nnls_settle(const struct lull_nnls *fit, struct support *support, double *values)
{
    double wanted[LULL_NNLS_TERMS];

    while (solve_support(fit, support->has, wanted)) {
        if (is_positive(fit, support->has, wanted)) {
            for (uint32_t i = 0; i < fit->terms; i++)
                values[i] = wanted[i];
            return;
        }
        nnls_retreat(fit, support, wanted, values);
    }
}

void lull_nnls_solve(const struct lull_nnls *fit, double *coefficients_out)
{
    /* Each round lowers the misfit, so no support occurs twice; the bound guards against rounding
     * errors. */
    const uint32_t max_rounds = 8 * LULL_NNLS_TERMS;
    struct support support = {{false}, {false}};
    double values[LULL_NNLS_TERMS] = {0.0};
    double unused[LULL_NNLS_TERMS];

    for (uint32_t round = 0; round < max_rounds; round++) {
        const uint32_t term = find_steepest(fit, &support, values);

        if (term == LULL_NNLS_TERMS)
            break;
        support.has[term] = true;
        if (solve_support(fit, support.has, unused)) {
            nnls_settle(fit, &support, values);
        } else {
            support.has[term] = false;
            support.is_dependent[term] = true;
        }
    }
    for (uint32_t i = 0; i < fit->terms; i++)
        coefficients_out[i] = values[i];
}
