/*
 * Atomic additions: all to one number, to random numbers of a table, and to a histogram of 256 bins
 * in shared memory. The tables begin with zeros and go on from launch to launch, modulo 2^32.
 * Macros: COUNT of additions, divisible by the threads; BINS, a power of two.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lull.cuh"

KERNEL __launch_bounds__(256) add_to_one(u32 *sum)
{
    for (u64 i = thread_index(); i < COUNT; i += thread_count())
        add_alone(sum, 1);
}

KERNEL __launch_bounds__(256) add_to_many(u32 *bins)
{
#pragma unroll 4
    for (u64 i = thread_index(); i < COUNT; i += thread_count())
        atomicAdd(&bins[random_bits(300, i) & (BINS - 1)], 1);
}

KERNEL __launch_bounds__(256) histogram(const u32 *values, u32 *bins)
{
    __shared__ u32 own[256];

    own[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll 4
    for (u64 i = thread_index(); i < COUNT; i += thread_count())
        atomicAdd(&own[values[i] & 255], 1);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], own[threadIdx.x]);
}

KERNEL check_one(const u32 *sum, u32 *wrong)
{
    expect(wrong, *sum == COUNT);
}

/* One block of 1024 threads: all additions are there, and some bins are counted anew. */
KERNEL check_many(const u32 *bins, u32 *wrong)
{
    u32 sum = 0;

    for (u32 i = threadIdx.x; i < BINS; i += blockDim.x)
        sum += bins[i];
    sum = block_all<add>(sum);
    if (threadIdx.x == 0)
        expect(wrong, sum == COUNT);
    for (u32 bin = 0; bin < 4; bin++) {
        u32 count = 0;

        for (u64 i = threadIdx.x; i < COUNT; i += blockDim.x)
            count += (random_bits(300, i) & (BINS - 1)) == bin;
        count = block_all<add>(count);
        if (threadIdx.x == 0)
            expect(wrong, bins[bin] == count);
    }
}

KERNEL check_histogram(const u32 *values, const u32 *bins, u32 *wrong)
{
    const u32 bin = blockIdx.x;
    u32 count = 0;

    for (u64 i = threadIdx.x; i < COUNT; i += blockDim.x)
        count += (values[i] & 255) == bin;
    count = block_all<add>(count);
    if (threadIdx.x == 0)
        expect(wrong, bins[bin] == count);
}
