/*
 * The cross entropy of each row of ROWS x COLUMNS scores, in one pass. A block of 256 threads has a
 * row. Macros: ROWS; COLUMNS divisible by 256. SPDX-License-Identifier: Apache-2.0
 */
#include "lull.cuh"

/* The loss of each row, whose right column is targets[row] % COLUMNS. */
KERNEL __launch_bounds__(256) cross_entropy(const bf16 *in, const u32 *targets, float *losses)
{
    const u64 first = (u64)blockIdx.x * COLUMNS;
    float highest = -1e30f, sum = 0;

#pragma unroll 5
    for (u32 i = 0; i < COLUMNS / 256; i++) {
        const float value = real(in[first + i * 256 + threadIdx.x]);
        const float most = fmaxf(highest, value);

        sum = sum * expf(highest - most) + expf(value - most);
        highest = most;
    }
    const float most = block_all<largest>(highest);

    sum = block_all<add>(sum * expf(highest - most));
    if (threadIdx.x == 0)
        losses[blockIdx.x] = most + logf(sum) - real(in[first + targets[blockIdx.x] % COLUMNS]);
}

KERNEL check_cross_entropy(const bf16 *in, const u32 *targets, const float *losses, u32 *wrong)
{
    const u32 row = random_bits(100, thread_index()) % ROWS;
    const u64 first = (u64)row * COLUMNS;
    double sum = 0;

    for (u32 i = 0; i < COLUMNS; i++)
        sum += exp((double)real(in[first + i]));
    expect(wrong, is_near(losses[row], log(sum) - real(in[first + targets[row] % COLUMNS]), 1e-4));
}
