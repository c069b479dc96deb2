/*
 * Attention of LENGTH queries to as many keys, not masked, in HEADS heads of 64 dimensions (sm_80):
 * the scores never leave the registers. A block of 128 threads has 64 queries, a warp 16; 64 keys
 * are a step. Macros: HEADS; LENGTH divisible by 64. SPDX-License-Identifier: Apache-2.0
 */
#include "lull.cuh"

#define KEYS 64
#define WORDS 32 /* of a row */
#define STRIDE                                                                                     \
    36 /* words from one row to the next: eight rows of 16 bytes are on different banks */
#define SCALE 0.18033688f /* log2(e) / sqrt(64): exponentials are to base 2 */

struct stage {
    u32 keys[KEYS * STRIDE];
    u32 values[KEYS * STRIDE];
};

__device__ inline void fetch(u32 *tile, const bf16 *rows)
{
    for (u32 i = threadIdx.x; i < KEYS * WORDS / 4; i += 128)
        copy_async(&tile[i / (WORDS / 4) * STRIDE + i % (WORDS / 4) * 4], (const uint4 *)rows + i,
                   true);
}

/* score += queries times keys. */
__device__ inline void score_keys(float score[8][4], const u32 queries[4][4], const u32 *keys)
{
    const u32 lane = threadIdx.x % 32;

#pragma unroll
    for (u32 k = 0; k < 4; k++)
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
            u32 words[4];

            load_matrices(words, keys + (j * 16 + lane / 16 * 8 + lane % 8) * STRIDE + k * 8 +
                                     lane / 8 % 2 * 4);
            mma_bf16(score[2 * j], queries[k], words);
            mma_bf16(score[2 * j + 1], queries[k], words + 2);
        }
}

/* result += weights times values; weights are where the scores were. */
__device__ inline void add_values(float result[8][4], const float weight[8][4], const u32 *values)
{
    const u32 lane = threadIdx.x % 32;

#pragma unroll
    for (u32 k = 0; k < 4; k++) {
        const u32 a[4] = {pack_bf16(weight[2 * k][0], weight[2 * k][1]),
                          pack_bf16(weight[2 * k][2], weight[2 * k][3]),
                          pack_bf16(weight[2 * k + 1][0], weight[2 * k + 1][1]),
                          pack_bf16(weight[2 * k + 1][2], weight[2 * k + 1][3])};

#pragma unroll
        for (u32 j = 0; j < 4; j++) {
            u32 words[4];

            load_matrices_transposed(words, values + (k * 16 + lane % 16) * STRIDE + j * 8 +
                                                lane / 16 * 4);
            mma_bf16(result[2 * j], a, words);
            mma_bf16(result[2 * j + 1], a, words + 2);
        }
    }
}

/* Turns scores into weights relative to the largest score so far, and what is summed up with them:
 * rows g (half 0) and g + 8 (half 1) of the warp's queries. */
__device__ inline void weigh(float score[8][4], float result[8][4], float highest[2], float sum[2])
{
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
        float most = highest[half];
        float factor;

#pragma unroll
        for (u32 j = 0; j < 8; j++)
            most = fmaxf(most, SCALE * fmaxf(score[j][2 * half], score[j][2 * half + 1]));
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
        factor = exp2f(highest[half] - most);
        highest[half] = most;
        sum[half] *= factor;
#pragma unroll
        for (u32 j = 0; j < 8; j++)
#pragma unroll
            for (u32 i = 2 * half; i < 2 * half + 2; i++) {
                score[j][i] = exp2f(SCALE * score[j][i] - most);
                sum[half] += score[j][i];
                result[j][i] *= factor;
            }
    }
}

KERNEL __launch_bounds__(128) attend(const bf16 *q, const bf16 *k, const bf16 *v, bf16 *o)
{
    __shared__ __align__(16) stage stages[2];
    const u32 lane = threadIdx.x % 32;
    const u32 warp = threadIdx.x / 32;
    const u64 head = (u64)blockIdx.y * LENGTH * 64;
    const u64 first = head + (u64)blockIdx.x * 64 * 64;
    u32 queries[4][4];
    float result[8][4] = {};
    float highest[2] = {-1e30f, -1e30f};
    float sum[2] = {};

    fetch(stages[1].keys, q + first);
    copy_async_commit();
    fetch(stages[0].keys, k + head);
    fetch(stages[0].values, v + head);
    copy_async_commit();
    copy_async_wait<1>();
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < 4; i++)
        load_matrices(queries[i],
                      stages[1].keys + (warp * 16 + lane % 16) * STRIDE + i * 8 + lane / 16 * 4);
    for (u32 step = 0; step < LENGTH / KEYS; step++) {
        stage &now = stages[step % 2];
        stage &next = stages[(step + 1) % 2];
        float score[8][4] = {};

        copy_async_wait<0>();
        __syncthreads(); /* all have what was copied, and are done with what comes next */
        if (step + 1 < LENGTH / KEYS) {
            fetch(next.keys, k + head + (u64)(step + 1) * KEYS * 64);
            fetch(next.values, v + head + (u64)(step + 1) * KEYS * 64);
        }
        copy_async_commit();
        score_keys(score, queries, now.keys);
        weigh(score, result, highest, sum);
        add_values(result, score, now.values);
    }
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
        u32 *const row = (u32 *)(o + first) + (warp * 16 + half * 8 + lane / 4) * WORDS + lane % 4;

        sum[half] += __shfl_xor_sync(0xffffffffu, sum[half], 1);
        sum[half] += __shfl_xor_sync(0xffffffffu, sum[half], 2);
#pragma unroll
        for (u32 j = 0; j < 8; j++)
            row[j * 4] =
                pack_bf16(result[j][2 * half] / sum[half], result[j][2 * half + 1] / sum[half]);
    }
}

/* A thread computes one dimension of a query's result anew. */
KERNEL check(const bf16 *q, const bf16 *k, const bf16 *v, const bf16 *o, u32 *wrong)
{
    const u64 i = random_bits(100, thread_index()) % ((u64)HEADS * LENGTH * 64);
    const u64 head = i / (LENGTH * 64) * (LENGTH * 64);
    double sum = 0, result = 0;

    for (u32 key = 0; key < LENGTH; key++) {
        double score = 0, weight;

        for (u32 d = 0; d < 64; d++)
            score += (double)real(q[i / 64 * 64 + d]) * (double)real(k[head + key * 64 + d]);
        weight = exp(score / 8.0);
        sum += weight;
        result += weight * (double)real(v[head + key * 64 + i % 64]);
    }
    result /= sum;
    expect(wrong, is_near(real(o[i]), result, 0.004 * fabs(result) + 5e-4));
}
