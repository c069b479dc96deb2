/*
 * Sorts runs of 2048 integers in shared memory by a bitonic network: a block of 1024 threads has a
 * run. Macros: RUNS. SPDX-License-Identifier: Apache-2.0
 */
#include "lull.cuh"

#define RUN 2048

KERNEL __launch_bounds__(1024) sort(const u32 *in, u32 *out)
{
    __shared__ u32 values[RUN];
    const u64 first = (u64)blockIdx.x * RUN;

    for (u32 i = threadIdx.x; i < RUN; i += 1024)
        values[i] = in[first + i];
    for (u32 size = 2; size <= RUN; size *= 2)
        for (u32 distance = size / 2; distance > 0; distance /= 2) {
            const u32 low = threadIdx.x / distance * 2 * distance + threadIdx.x % distance;
            const u32 high = low + distance;
            const bool is_up = (low & size) == 0;

            __syncthreads();
            const u32 a = values[low];
            const u32 b = values[high];

            if ((a > b) == is_up) {
                values[low] = b;
                values[high] = a;
            }
        }
    __syncthreads();
    for (u32 i = threadIdx.x; i < RUN; i += 1024)
        out[first + i] = values[i];
}

/* A block looks at a run: it is in order, and two sums of its values are those of the input. */
KERNEL check(const u32 *in, const u32 *out, u32 *wrong)
{
    const u64 first = (u64)blockIdx.x * RUN;
    u32 difference = 0, mixed = 0;

    for (u32 i = threadIdx.x; i < RUN; i += blockDim.x) {
        difference += out[first + i] - in[first + i];
        mixed += random_bits(400, out[first + i]) - random_bits(400, in[first + i]);
        if (i > 0)
            expect(wrong, out[first + i - 1] <= out[first + i]);
    }
    difference = block_all<add>(difference);
    mixed = block_all<add>(mixed);
    expect(wrong, difference == 0 && mixed == 0);
}
