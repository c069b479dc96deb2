/*
 * c = a b of 16-bit floats on tensor cores since sm_70: a is M x K by rows, b is N columns of K, c
 * is M x N by rows. A block of 256 threads makes 128 x 128, a warp of the 2 x 4 makes 64 x 32.
 * Macros: M, N divisible by 128, K by 32. SPDX-License-Identifier: Apache-2.0
 */
#include "lull.cuh"

#define ROWS 128
#define STEP 32
#define STRIDE                                                                                     \
    (STEP + 8) /* values from one row to the next; 16 bytes of padding spread the banks */
#define LOADS (ROWS * STEP / 8 / 256)

struct tiles {
    u16 a[ROWS * STRIDE];
    u16 b[ROWS * STRIDE];
};

struct ahead {
    uint4 a[LOADS]; /* of 8 values */
    uint4 b[LOADS];
};

__device__ inline void load(ahead &next, const f16 *a, const f16 *b, u32 k)
{
    for (u32 load = 0; load < LOADS; load++) {
        const u32 i = threadIdx.x + load * 256;
        const u64 row = i / (STEP / 8);
        const u32 at = k + i % (STEP / 8) * 8;

        next.a[load] = *(const uint4 *)(a + (blockIdx.y * ROWS + row) * K + at);
        next.b[load] = *(const uint4 *)(b + (blockIdx.x * ROWS + row) * K + at);
    }
}

__device__ inline void store(tiles &tile, const ahead &next)
{
    for (u32 load = 0; load < LOADS; load++) {
        const u32 i = threadIdx.x + load * 256;
        const u32 at = i / (STEP / 8) * STRIDE + i % (STEP / 8) * 8;

        *(uint4 *)(tile.a + at) = next.a[load];
        *(uint4 *)(tile.b + at) = next.b[load];
    }
}

KERNEL __launch_bounds__(256) gemm(const f16 *a, const f16 *b, float *c)
{
    __shared__ __align__(32) tiles tile[2];
    const u32 row = threadIdx.x / 32 / 4 * 64;
    const u32 column = threadIdx.x / 32 % 4 * 32;
    float sum[4][2][8] = {};
    ahead next;

    load(next, a, b, 0);
    store(tile[0], next);
    __syncthreads();
    for (u32 k = 0; k < K; k += STEP) {
        const tiles &now = tile[k / STEP % 2];

        if (k + STEP < K)
            load(next, a, b, k + STEP);
#pragma unroll
        for (u32 step = 0; step < STEP; step += 16) {
            u32 a_words[4][8], b_words[2][8];

#pragma unroll
            for (u32 i = 0; i < 4; i++)
                wmma_load_a(a_words[i], now.a + (row + i * 16) * STRIDE + step, STRIDE);
#pragma unroll
            for (u32 j = 0; j < 2; j++)
                wmma_load_b(b_words[j], now.b + (column + j * 16) * STRIDE + step, STRIDE);
#pragma unroll
            for (u32 i = 0; i < 4; i++)
#pragma unroll
                for (u32 j = 0; j < 2; j++)
                    wmma_f16(sum[i][j], a_words[i], b_words[j]);
        }
        if (k + STEP < K)
            store(tile[(k / STEP + 1) % 2], next);
        __syncthreads();
    }
#pragma unroll
    for (u32 i = 0; i < 4; i++)
#pragma unroll
        for (u32 j = 0; j < 2; j++)
            wmma_store(c + (u64)(blockIdx.y * ROWS + row + i * 16) * N + blockIdx.x * ROWS +
                           column + j * 16,
                       sum[i][j], N);
}

/* A thread computes one number of c anew, at a random place. */
KERNEL check(const f16 *a, const f16 *b, const float *c, u32 *wrong)
{
    const u64 i = random_bits(100, thread_index()) % ((u64)M * N);
    double sum = 0;

    for (u32 k = 0; k < K; k++)
        sum += (double)real(a[i / N * K + k]) * (double)real(b[i % N * K + k]);
    expect(wrong, is_near(c[i], sum, 1e-5 * K));
}
