/*
 * Attention of one query to LENGTH keys in each of HEADS heads of 64 dimensions: what generating
 * one token reads of the cache. A block of 256 threads has a head, a warp every eighth key, a lane
 * two dimensions. Macros: HEADS; LENGTH divisible by 32. SPDX-License-Identifier: Apache-2.0
 */
#include "lull.cuh"

#define WARPS 8
#define AT_ONCE 4 /* keys */

struct part { /* of a head's result, relative to the weight of the highest score */
    float highest;
    float sum;
    float x;
    float y;
};

__device__ inline float low(u32 word)
{
    return __uint_as_float(word << 16);
}
__device__ inline float high(u32 word)
{
    return __uint_as_float(word & 0xffff0000u);
}

__device__ inline void join(part &into, const part &other)
{
    const float most = fmaxf(into.highest, other.highest);
    const float own = expf(into.highest - most);
    const float others = expf(other.highest - most);

    into.highest = most;
    into.sum = into.sum * own + other.sum * others;
    into.x = into.x * own + other.x * others;
    into.y = into.y * own + other.y * others;
}

KERNEL __launch_bounds__(256) attend(const float *q, const bf16 *k, const bf16 *v, float *o)
{
    __shared__ part parts[WARPS][32];
    const u32 lane = threadIdx.x % 32;
    const u32 warp = threadIdx.x / 32;
    const u64 head = (u64)blockIdx.x * LENGTH * 32;
    const u32 *const keys = (const u32 *)k + head + lane;
    const u32 *const values = (const u32 *)v + head + lane;
    const float qx = q[blockIdx.x * 64 + 2 * lane] * 0.125f;
    const float qy = q[blockIdx.x * 64 + 2 * lane + 1] * 0.125f;
    part own = {-1e30f, 0, 0, 0};

    for (u32 key = warp * AT_ONCE; key < LENGTH; key += WARPS * AT_ONCE) {
        float score[AT_ONCE];

#pragma unroll
        for (u32 i = 0; i < AT_ONCE; i++)
            score[i] = qx * low(keys[(key + i) * 32]) + qy * high(keys[(key + i) * 32]);
#pragma unroll
        for (u32 i = 0; i < AT_ONCE; i++) {
            const u32 word = values[(key + i) * 32];
            const part one = {warp_all<add>(score[i]), 1.0f, low(word), high(word)};

            join(own, one);
        }
    }
    parts[warp][lane] = own;
    __syncthreads();
    if (warp > 0)
        return;
    for (u32 other = 1; other < WARPS; other++)
        join(own, parts[other][lane]);
    o[blockIdx.x * 64 + 2 * lane] = own.x / own.sum;
    o[blockIdx.x * 64 + 2 * lane + 1] = own.y / own.sum;
}

KERNEL check(const float *q, const bf16 *k, const bf16 *v, const float *o, u32 *wrong)
{
    const u32 i = random_bits(100, thread_index()) % (HEADS * 64);
    const u64 head = (u64)(i / 64) * LENGTH * 64;
    double sum = 0, result = 0;

    for (u32 key = 0; key < LENGTH; key++) {
        double score = 0;

        for (u32 d = 0; d < 64; d++)
            score += (double)q[i / 64 * 64 + d] * (double)real(k[head + key * 64 + d]);
        score = exp(score / 8.0);
        sum += score;
        result += score * (double)real(v[head + key * 64 + i % 64]);
    }
    expect(wrong, is_near(o[i], result / sum, 2e-5));
}
