/*
 * Reductions of COUNT floats: to a sum and to the largest, in two launches, by BLOCKS blocks of 256
 * threads; and of each column of a ROWS x COLUMNS matrix (the gradient of a bias). Macros: COUNT
 * divisible by 4; BLOCKS up to 1024; or ROWS, COLUMNS. SPDX-License-Identifier: Apache-2.0
 */
#include "lull.cuh"

#ifdef COUNT
KERNEL __launch_bounds__(256) sum_blocks(const float4 *in, float *parts)
{
    float sum = 0;

#pragma unroll 4
    for (u64 i = thread_index(); i < COUNT / 4; i += thread_count()) {
        const float4 four = in[i];

        sum += (four.x + four.y) + (four.z + four.w);
    }
    sum = block_all<add>(sum);
    if (threadIdx.x == 0)
        parts[blockIdx.x] = sum;
}

KERNEL __launch_bounds__(1024) sum_parts(const float *parts, float *result)
{
    float sum = 0;

    for (u32 i = threadIdx.x; i < BLOCKS; i += blockDim.x)
        sum += parts[i];
    sum = block_all<add>(sum);
    if (threadIdx.x == 0)
        *result = sum;
}

KERNEL __launch_bounds__(256) largest_blocks(const float4 *in, float *parts)
{
    float most = -1e30f;

#pragma unroll 4
    for (u64 i = thread_index(); i < COUNT / 4; i += thread_count()) {
        const float4 four = in[i];

        most = fmaxf(most, fmaxf(fmaxf(four.x, four.y), fmaxf(four.z, four.w)));
    }
    most = block_all<largest>(most);
    if (threadIdx.x == 0)
        parts[blockIdx.x] = most;
}

KERNEL __launch_bounds__(1024) largest_parts(const float *parts, float *result)
{
    float most = -1e30f;

    for (u32 i = threadIdx.x; i < BLOCKS; i += blockDim.x)
        most = fmaxf(most, parts[i]);
    most = block_all<largest>(most);
    if (threadIdx.x == 0)
        *result = most;
}

/* One block of 1024 threads adds up everything anew. */
KERNEL check_sum(const float *in, const float *, const float *result, u32 *wrong)
{
    double sum = 0;

    for (u64 i = threadIdx.x; i < COUNT; i += blockDim.x)
        sum += in[i];
    sum = block_all<add>(sum);
    if (threadIdx.x == 0) /* the numbers are random, so errors add up like a random walk */
        expect(wrong, is_near(*result, sum, 1e-4 * sqrt((double)COUNT)));
}

KERNEL check_largest(const float *in, const float *, const float *result, u32 *wrong)
{
    double most = -1e30;

    for (u64 i = threadIdx.x; i < COUNT; i += blockDim.x)
        most = in[i] > most ? in[i] : most;
    most = block_all<largest>(most);
    if (threadIdx.x == 0)
        expect(wrong, *result == most);
}
#else
/* A block of 32 x 8 threads has 32 columns. */
KERNEL __launch_bounds__(256) sum_columns(const float *in, float *sums)
{
    __shared__ float parts[8][32];
    const u32 column = blockIdx.x * 32 + threadIdx.x;
    float sum = 0;

#pragma unroll 8
    for (u32 row = threadIdx.y; row < ROWS; row += 8)
        sum += in[(u64)row * COLUMNS + column];
    parts[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0)
        return;
    for (u32 i = 1; i < 8; i++)
        sum += parts[i][threadIdx.x];
    sums[column] = sum;
}

KERNEL check_columns(const float *in, const float *sums, u32 *wrong)
{
    const u32 column = random_bits(100, thread_index()) % COLUMNS;
    double sum = 0;

    for (u32 row = 0; row < ROWS; row++)
        sum += in[(u64)row * COLUMNS + column];
    expect(wrong, is_near(sums[column], sum, 1e-4 * sqrt((double)ROWS)));
}
#endif
