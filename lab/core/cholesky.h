/*
 * Small symmetric positive definite systems, by Cholesky's factors (Golub and Van Loan 2013,
 * algorithm 4.2.1). Pure; any thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_CORE_CHOLESKY_H
#define LULL_LAB_CORE_CHOLESKY_H

#include <stdbool.h>
#include <stdint.h>

enum { LULL_CHOLESKY_MAX = 8 };

/*
 * Solves matrix x = right for count <= LULL_CHOLESKY_MAX unknowns; only the matrix's lower
 * triangle is read, row by row with LULL_CHOLESKY_MAX values each. Returns false where a pivot is
 * below 1e-12 of its diagonal: a row depends on those before it, and solution_out is left
 * unchanged.
 */
bool lull_cholesky_solve(uint32_t count, const double matrix[][LULL_CHOLESKY_MAX],
                         const double *right, double *solution_out);

#endif
