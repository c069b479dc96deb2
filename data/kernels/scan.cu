/*
 * Running sums of COUNT integers, each without itself, modulo 2^32, in three launches: sums of
 * blocks of 2048, running sums of those by one block, and running sums within blocks. Macros: COUNT
 * divisible by 2048; SCANNERS up to 1024, divisible by 32. SPDX-License-Identifier: Apache-2.0
 */
#include "lull.cuh"

#define EACH 8
#define BLOCKS (COUNT / (256 * EACH))

/* The sum over all threads before this one, in a block of up to 1024 threads in whole warps;
 * all_out gets the sum over all. */
__device__ inline u32 before(u32 value, u32 *all_out)
{
    __shared__ u32 of_warps[32];
    const u32 lane = threadIdx.x % 32;
    const u32 warp = threadIdx.x / 32;
    u32 sum = value; /* up to this lane */
    u32 earlier = 0;

    for (u32 distance = 1; distance < 32; distance *= 2) {
        const u32 other = __shfl_up_sync(0xffffffffu, sum, distance);

        if (lane >= distance)
            sum += other;
    }
    __syncthreads();
    if (lane == 31)
        of_warps[warp] = sum;
    __syncthreads();
    *all_out = 0;
    for (u32 i = 0; i < blockDim.x / 32; i++) {
        if (i < warp)
            earlier += of_warps[i];
        *all_out += of_warps[i];
    }
    return earlier + sum - value;
}

KERNEL __launch_bounds__(256) sum_blocks(const uint4 *in, u32 *sums)
{
    const uint4 first = in[thread_index() * 2];
    const uint4 second = in[thread_index() * 2 + 1];
    const u32 sum = block_all<add>(first.x + first.y + first.z + first.w + second.x + second.y +
                                   second.z + second.w);

    if (threadIdx.x == 0)
        sums[blockIdx.x] = sum;
}

/* In place, by one block of SCANNERS threads. */
KERNEL __launch_bounds__(SCANNERS) scan_sums(u32 *sums)
{
    u32 carried = 0;

    for (u32 i = 0; i < BLOCKS; i += SCANNERS) {
        const u32 at = i + threadIdx.x;
        u32 all;
        const u32 earlier = before(at < BLOCKS ? sums[at] : 0, &all);

        if (at < BLOCKS)
            sums[at] = carried + earlier;
        carried += all;
    }
}

KERNEL __launch_bounds__(256) scan_blocks(const u32 *in, const u32 *sums, u32 *out)
{
    const u64 first = thread_index() * EACH;
    u32 value[EACH];
    u32 sum = 0, all;

#pragma unroll
    for (u32 i = 0; i < EACH; i++)
        sum += value[i] = in[first + i];
    sum = sums[blockIdx.x] + before(sum, &all);
#pragma unroll
    for (u32 i = 0; i < EACH; i++) {
        out[first + i] = sum;
        sum += value[i];
    }
}

/* Each running sum differs from the next by the element between, and the first is 0. */
KERNEL check(const u32 *in, const u32 *, const u32 *out, u32 *wrong)
{
    if (thread_index() == 0)
        expect(wrong, out[0] == 0);
    for (u64 i = thread_index() + 1; i < COUNT; i += thread_count())
        if (out[i] - out[i - 1] != in[i - 1])
            expect(wrong, false);
}
