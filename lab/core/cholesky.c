/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/core/cholesky.h"

#include <assert.h>
#include <math.h>

/* Below this share of a diagonal its pivot is rounding: double precision has 1e-16 of it, and the
 * sums of a hundred rows lose two digits. */
static const double min_pivot = 1e-12;

static bool cholesky_factor(uint32_t count, const double matrix[][LULL_CHOLESKY_MAX],
                            double lower[][LULL_CHOLESKY_MAX])
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j <= i; j++) {
            double rest = matrix[i][j];

            for (uint32_t k = 0; k < j; k++)
                rest -= lower[i][k] * lower[j][k];
            if (i > j)
                lower[i][j] = rest / lower[j][j];
            else if (rest > min_pivot * matrix[i][i])
                lower[i][i] = sqrt(rest);
            else
                return false;
        }
    }
    return true;
}

bool lull_cholesky_solve(uint32_t count, const double matrix[][LULL_CHOLESKY_MAX],
                         const double *right, double *solution_out)
{
    double lower[LULL_CHOLESKY_MAX][LULL_CHOLESKY_MAX];
    double half[LULL_CHOLESKY_MAX];

    assert(count <= LULL_CHOLESKY_MAX);
    if (!cholesky_factor(count, matrix, lower))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        half[i] = right[i];
        for (uint32_t k = 0; k < i; k++)
            half[i] -= lower[i][k] * half[k];
        half[i] /= lower[i][i];
    }
    for (uint32_t i = count; i-- > 0;) {
        for (uint32_t k = i + 1; k < count; k++)
            half[i] -= lower[k][i] * half[k];
        half[i] /= lower[i][i];
    }
    for (uint32_t i = 0; i < count; i++)
        solution_out[i] = half[i];
    return true;
}
