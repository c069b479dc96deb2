/*
 * c = a b of M x K and K x N numbers in rows, without tensor cores. A block of 256 threads makes
 * TILE x TILE of c, a thread MICRO x MICRO of that, in strips of 4 by 4. Macros: REAL; M, N, K;
 * TILE = 16 MICRO divides M and N; 8 divides K. SPDX-License-Identifier: Apache-2.0
 */
#include "lull.cuh"

#define STEP 8
#define LOADS (TILE * STEP / 256)
#define STRIP (TILE / (MICRO / 4))

struct tiles {
    REAL a[STEP][TILE + 4]; /* a is stored by columns; the padding spreads its banks */
    REAL b[STEP][TILE];
};

struct ahead {
    REAL a[LOADS];
    REAL b[LOADS];
};

__device__ inline void load(ahead &next, const REAL *a, const REAL *b, u32 k)
{
    for (u32 load = 0; load < LOADS; load++) {
        const u32 i = threadIdx.x + load * 256;

        next.a[load] = a[(u64)(blockIdx.y * TILE + i / STEP) * K + k + i % STEP];
        next.b[load] = b[(u64)(k + i / TILE) * N + blockIdx.x * TILE + i % TILE];
    }
}

__device__ inline void store(tiles &tile, const ahead &next)
{
    for (u32 load = 0; load < LOADS; load++) {
        const u32 i = threadIdx.x + load * 256;

        tile.a[i % STEP][i / STEP] = next.a[load];
        tile.b[i / TILE][i % TILE] = next.b[load];
    }
}

/* Where number i of a thread's MICRO rows or columns lies in the tile. */
__device__ inline u32 place(u32 thread, u32 i)
{
    return i / 4 * STRIP + thread * 4 + i % 4;
}

KERNEL __launch_bounds__(256) gemm(const REAL *a, const REAL *b, REAL *c)
{
    __shared__ tiles tile[2];
    const u32 x = threadIdx.x % 16;
    const u32 y = threadIdx.x / 16;
    REAL sum[MICRO][MICRO] = {};
    ahead next;

    load(next, a, b, 0);
    store(tile[0], next);
    __syncthreads();
    for (u32 k = 0; k < K; k += STEP) {
        const tiles &now = tile[k / STEP % 2];

        if (k + STEP < K)
            load(next, a, b, k + STEP);
#pragma unroll
        for (u32 step = 0; step < STEP; step++) {
            REAL row[MICRO], column[MICRO];

#pragma unroll
            for (u32 i = 0; i < MICRO; i++) {
                row[i] = now.a[step][place(y, i)];
                column[i] = now.b[step][place(x, i)];
            }
#pragma unroll
            for (u32 i = 0; i < MICRO; i++)
#pragma unroll
                for (u32 j = 0; j < MICRO; j++)
                    sum[i][j] += row[i] * column[j];
        }
        if (k + STEP < K)
            store(tile[(k / STEP + 1) % 2], next);
        __syncthreads();
    }
#pragma unroll
    for (u32 i = 0; i < MICRO; i++)
#pragma unroll
        for (u32 j = 0; j < MICRO; j++)
            c[(u64)(blockIdx.y * TILE + place(y, i)) * N + blockIdx.x * TILE + place(x, j)] =
                sum[i][j];
}

/* A thread computes one number of c anew, at a random place. */
KERNEL check(const REAL *a, const REAL *b, const REAL *c, u32 *wrong)
{
    const u64 i = random_bits(100, thread_index()) % ((u64)M * N);
    double sum = 0;

    for (u32 k = 0; k < K; k++)
        sum += (double)a[i / N * K + k] * (double)b[(u64)k * N + i % N];
    expect(wrong, is_near(c[i], sum, 1e-6 * K));
}
