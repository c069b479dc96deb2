/* y = a x of M x K numbers in rows, one warp to a row: what generating one token is made of.
 * Macros: INPUT; M divisible by the warps of a block, K by 32. SPDX-License-Identifier: Apache-2.0
 */
#include "lull.cuh"

#define VECTOR (16 / sizeof(INPUT)) /* values of a load */

KERNEL __launch_bounds__(256) gemv(const INPUT *a, const float *x, float *y)
{
    const u64 row = thread_index() / 32;
    float sum = 0;

#pragma unroll 4
    for (u32 k = threadIdx.x % 32 * VECTOR; k < K; k += 32 * VECTOR) {
        const uint4 words = *(const uint4 *)(a + row * K + k);
        const INPUT *const values = (const INPUT *)&words;

        for (u32 i = 0; i < VECTOR; i++)
            sum += real(values[i]) * x[k + i];
    }
    sum = warp_all<add>(sum);
    if (threadIdx.x % 32 == 0)
        y[row] = sum;
}

KERNEL check(const INPUT *a, const float *x, const float *y, u32 *wrong)
{
    const u64 row = random_bits(100, thread_index()) % M;
    double sum = 0;

    for (u32 k = 0; k < K; k++)
        sum += (double)real(a[row * K + k]) * (double)x[k];
    expect(wrong, is_near(y[row], sum, 1e-6 * K));
}
