/*
 * y = A x of a sparse matrix of ROWS rows with EACH numbers in each, at random columns; both stored
 * so that threads that have neighbouring rows read neighbouring words. Macros: ROWS, EACH.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lull.cuh"

KERNEL __launch_bounds__(256)
    multiply(const float *values, const u32 *columns, const float *x, float *y)
{
    const u64 row = thread_index();
    float sum = 0;

#pragma unroll 8
    for (u32 i = 0; i < EACH; i++)
        sum += values[i * (u64)ROWS + row] * x[columns[i * (u64)ROWS + row] % ROWS];
    y[row] = sum;
}

KERNEL check(const float *values, const u32 *columns, const float *x, const float *y, u32 *wrong)
{
    const u64 row = random_bits(100, thread_index()) % ROWS;
    double sum = 0;

    for (u32 i = 0; i < EACH; i++)
        sum += (double)values[i * (u64)ROWS + row] * (double)x[columns[i * (u64)ROWS + row] % ROWS];
    expect(wrong, is_near(y[row], sum, 1e-6 * EACH));
}
