/*
 * A pass of a radix sort: orders COUNT integers by 4 of their bits, from SHIFT on, and leaves those
 * with the same bits in their order. In three launches: each block counts its 1024 integers by
 * those bits; one block turns the counts, digit after digit, into places; each block moves its
 * integers there. Macros: COUNT divisible by 1024; SHIFT. SPDX-License-Identifier: Apache-2.0
 */
#include "lull.cuh"

#define DIGITS 16
#define BLOCKS (COUNT / 1024)

__device__ inline u32 digit(u32 value)
{
    return value >> SHIFT & (DIGITS - 1);
}

KERNEL __launch_bounds__(256) count_digits(const u32 *in, u32 *counts)
{
    __shared__ u32 own[DIGITS];

    if (threadIdx.x < DIGITS)
        own[threadIdx.x] = 0;
    __syncthreads();
    for (u32 i = 0; i < 4; i++)
        atomicAdd(&own[digit(in[(u64)blockIdx.x * 1024 + i * 256 + threadIdx.x])], 1);
    __syncthreads();
    if (threadIdx.x < DIGITS)
        counts[threadIdx.x * BLOCKS + blockIdx.x] = own[threadIdx.x];
}

/* Running sums, each without itself, by one block of 1024 threads that have a stretch each. */
KERNEL __launch_bounds__(1024) place_digits(u32 *counts)
{
    __shared__ u32 sums[1024];
    const u32 each = (DIGITS * BLOCKS + 1023) / 1024;
    const u32 first = threadIdx.x * each;
    u32 sum = 0;

    for (u32 i = first; i < first + each && i < DIGITS * BLOCKS; i++)
        sum += counts[i];
    sums[threadIdx.x] = sum;
    for (u32 distance = 1; distance < 1024; distance *= 2) {
        __syncthreads();
        const u32 earlier = threadIdx.x >= distance ? sums[threadIdx.x - distance] : 0;

        __syncthreads();
        sums[threadIdx.x] += earlier;
    }
    sum = sums[threadIdx.x] - sum;
    for (u32 i = first; i < first + each && i < DIGITS * BLOCKS; i++) {
        const u32 count = counts[i];

        counts[i] = sum;
        sum += count;
    }
}

/* The threads of a block take 256 integers at a time. Of its warp, a lane knows which others have
 * its digit. */
KERNEL __launch_bounds__(256) move(const u32 *in, const u32 *counts, u32 *out)
{
    __shared__ u32 next[DIGITS];        /* where the next integer with the digit goes */
    __shared__ u32 of_warps[8][DIGITS]; /* how many each warp has */
    const u32 lane = threadIdx.x % 32;
    const u32 warp = threadIdx.x / 32;

    if (threadIdx.x < DIGITS)
        next[threadIdx.x] = counts[threadIdx.x * BLOCKS + blockIdx.x];
    for (u32 i = 0; i < 4; i++) {
        const u32 value = in[(u64)blockIdx.x * 1024 + i * 256 + threadIdx.x];
        u32 same = 0xffffffffu; /* lanes with this digit */
        u32 place;

        for (u32 bit = 0; bit < 4; bit++) {
            const u32 ones = __ballot_sync(0xffffffffu, digit(value) >> bit & 1);

            same &= (digit(value) >> bit & 1) != 0 ? ones : ~ones;
        }
        if (lane < DIGITS)
            of_warps[warp][lane] = 0;
        __syncwarp();
        of_warps[warp][digit(value)] = __popc(same);
        __syncthreads();
        place = next[digit(value)] + __popc(same & ((1u << lane) - 1));
        for (u32 earlier = 0; earlier < warp; earlier++)
            place += of_warps[earlier][digit(value)];
        out[place] = value;
        __syncthreads();
        if (threadIdx.x < DIGITS)
            for (u32 each = 0; each < 8; each++)
                next[threadIdx.x] += of_warps[each][threadIdx.x];
        __syncthreads();
    }
}

/* One block: all is in order of the digit, and two sums of the values are those of the input. */
KERNEL check(const u32 *in, const u32 *, const u32 *out, u32 *wrong)
{
    u32 difference = 0, mixed = 0;

    for (u32 i = threadIdx.x; i < COUNT; i += blockDim.x) {
        difference += out[i] - in[i];
        mixed += random_bits(400, out[i]) - random_bits(400, in[i]);
        if (i > 0 && digit(out[i - 1]) > digit(out[i]))
            expect(wrong, false);
    }
    difference = block_all<add>(difference);
    mixed = block_all<add>(mixed);
    expect(wrong, difference == 0 && mixed == 0);
}
