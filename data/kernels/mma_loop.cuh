/*
 * The loop of matrix products on tensor cores: a block of 256 threads makes 128 x 128 sums of
 * products of DEPTH words. Rows come 64 bytes at a time from global memory by copies that run ahead
 * of the computation by STAGES - 1 steps. A warp of the 2 x 4 makes 64 x 32. Macros: MMA, SUM its
 * type of sums. Shared memory: STAGES * 20480 bytes. SPDX-License-Identifier: Apache-2.0
 */
#pragma once

#include "lull.cuh"

#define ROWS 128 /* of a tile */
#define WORDS 16 /* of a row in a step */
#define STRIDE                                                                                     \
    20 /* words from one row to the next: eight rows of 16 bytes are on different banks */
#define STAGES 3
#define TILE_WORDS (ROWS * STRIDE)

/* Copies a tile: source(row, word) is where 16 bytes come from; null: they are zero. */
template <class Source> __device__ inline void fetch(u32 *tile, const Source &source, u32 word)
{
    for (u32 i = threadIdx.x; i < ROWS * WORDS / 4; i += 256) {
        const u32 row = i / (WORDS / 4);
        const u32 at = i % (WORDS / 4) * 4;
        const u32 *const from = source(row, word + at);

        copy_async(&tile[row * STRIDE + at], from != nullptr ? from : source(0, 0),
                   from != nullptr);
    }
}

/* Adds the products of a step to a warp's 4 x 4 tiles of 16 x 8 sums. */
__device__ inline void multiply(SUM sum[4][4][4], const u32 *a, const u32 *b)
{
    const u32 lane = threadIdx.x % 32;
    const u32 warp = threadIdx.x / 32;
    const u32 *const a_row = a + (warp / 4 * 64 + lane % 16) * STRIDE + lane / 16 * 4;
    const u32 *const b_row =
        b + (warp % 4 * 32 + lane / 16 * 8 + lane % 8) * STRIDE + lane / 8 % 2 * 4;

#pragma unroll
    for (u32 k = 0; k < WORDS; k += 8) {
        u32 a_words[4][4], b_words[2][4];

#pragma unroll
        for (u32 i = 0; i < 4; i++)
            load_matrices(a_words[i], a_row + i * 16 * STRIDE + k);
#pragma unroll
        for (u32 j = 0; j < 2; j++)
            load_matrices(b_words[j], b_row + j * 16 * STRIDE + k);
#pragma unroll
        for (u32 i = 0; i < 4; i++)
#pragma unroll
            for (u32 j = 0; j < 4; j++)
                MMA(sum[i][j], a_words[i], &b_words[j / 2][j % 2 * 2]);
    }
}

template <class A, class B>
__device__ inline void mma_loop(SUM sum[4][4][4], const A &a, const B &b, u32 depth)
{
    u32 *const tiles = dynamic_shared(); /* of each stage, a's and b's */
    const u32 steps = depth / WORDS;

    for (u32 step = 0; step < STAGES - 1; step++) {
        if (step < steps) {
            fetch(tiles + step * 2 * TILE_WORDS, a, step * WORDS);
            fetch(tiles + step * 2 * TILE_WORDS + TILE_WORDS, b, step * WORDS);
        }
        copy_async_commit();
    }
    for (u32 step = 0; step < steps; step++) {
        const u32 next = step + STAGES - 1;
        u32 *const now = tiles + step % STAGES * 2 * TILE_WORDS;
        u32 *const then = tiles + next % STAGES * 2 * TILE_WORDS;

        copy_async_wait<STAGES - 2>();
        __syncthreads(); /* all have what was copied, and are done with what comes next */
        if (next < steps) {
            fetch(then, a, next * WORDS);
            fetch(then + TILE_WORDS, b, next * WORDS);
        }
        copy_async_commit();
        multiply(sum, now, now + TILE_WORDS);
    }
}

/* Calls store(row, column, sum) for each of a thread's sums in the block's tile. */
template <class Store> __device__ inline void mma_each(const SUM sum[4][4][4], const Store &store)
{
    const u32 lane = threadIdx.x % 32;
    const u32 warp = threadIdx.x / 32;

#pragma unroll
    for (u32 i = 0; i < 4; i++)
#pragma unroll
        for (u32 j = 0; j < 4; j++)
#pragma unroll
            for (u32 half = 0; half < 2; half++)
                store(warp / 4 * 64 + i * 16 + half * 8 + lane / 4,
                      warp % 4 * 32 + j * 8 + lane % 4 * 2, sum[i][j][half * 2],
                      sum[i][j][half * 2 + 1]);
}
