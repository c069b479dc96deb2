/*
 * What memory can do: copies, sums of two arrays, writes, a transposition. COUNT is in numbers of
 * 16 bytes. Macros: COUNT, or SIDE of a square matrix, divisible by 32. SPDX-License-Identifier:
 * Apache-2.0
 */
#include "lull.cuh"

#ifdef COUNT
__device__ inline bool is_same(uint4 a, uint4 b)
{
    return a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w;
}

KERNEL __launch_bounds__(256) copy(const uint4 *in, uint4 *out)
{
#pragma unroll 4
    for (u64 i = thread_index(); i < COUNT; i += thread_count())
        out[i] = in[i];
}

/* Twice as much is read as is written. */
KERNEL __launch_bounds__(256) triad(const float4 *a, const float4 *b, float4 *out)
{
#pragma unroll 4
    for (u64 i = thread_index(); i < COUNT; i += thread_count()) {
        const float4 x = a[i];
        const float4 y = b[i];

        out[i] =
            make_float4(x.x + 3.0f * y.x, x.y + 3.0f * y.y, x.z + 3.0f * y.z, x.w + 3.0f * y.w);
    }
}

KERNEL __launch_bounds__(256) write(uint4 *out)
{
#pragma unroll 4
    for (u64 i = thread_index(); i < COUNT; i += thread_count())
        out[i] = make_uint4((u32)i, 1, 2, 3);
}

#ifdef ROUNDS
/* Each number is written ROUNDS times by the same thread, from arrays that the level-2 cache holds.
 */
KERNEL __launch_bounds__(256) copy_cached(const uint4 *in, uint4 *out)
{
    for (u32 round = 0; round < ROUNDS; round++)
        for (u64 i = thread_index(); i < COUNT; i += thread_count()) {
            const u64 from = (i + (u64)round * 256) % COUNT;

            out[i] = load_l2(in + from);
        }
}

KERNEL check_cached(const uint4 *in, const uint4 *out, u32 *wrong)
{
    for (u64 i = thread_index(); i < COUNT; i += thread_count())
        expect(wrong, is_same(out[i], in[(i + (u64)(ROUNDS - 1) * 256) % COUNT]));
}
#endif

KERNEL check_copy(const uint4 *in, const uint4 *out, u32 *wrong)
{
    for (u64 i = thread_index(); i < COUNT; i += thread_count())
        expect(wrong, is_same(in[i], out[i]));
}

KERNEL check_triad(const float4 *a, const float4 *b, const float4 *out, u32 *wrong)
{
    for (u64 i = thread_index(); i < COUNT; i += thread_count())
        expect(wrong, is_near(out[i].x, a[i].x + 3.0 * b[i].x, 1e-6) &&
                          is_near(out[i].y, a[i].y + 3.0 * b[i].y, 1e-6) &&
                          is_near(out[i].z, a[i].z + 3.0 * b[i].z, 1e-6) &&
                          is_near(out[i].w, a[i].w + 3.0 * b[i].w, 1e-6));
}

KERNEL check_write(const uint4 *out, u32 *wrong)
{
    for (u64 i = thread_index(); i < COUNT; i += thread_count())
        expect(wrong, is_same(out[i], make_uint4((u32)i, 1, 2, 3)));
}
#else
/* A block of 32 x 8 threads has a tile of 32 x 32. */
KERNEL __launch_bounds__(256) transpose(const float *in, float *out)
{
    __shared__ float tile[32][33];
    const u64 row = blockIdx.y * 32;
    const u64 column = blockIdx.x * 32;

#pragma unroll
    for (u32 i = threadIdx.y; i < 32; i += 8)
        tile[i][threadIdx.x] = in[(row + i) * SIDE + column + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (u32 i = threadIdx.y; i < 32; i += 8)
        out[(column + i) * SIDE + row + threadIdx.x] = tile[threadIdx.x][i];
}

KERNEL check_transpose(const float *in, const float *out, u32 *wrong)
{
    for (u64 i = thread_index(); i < (u64)SIDE * SIDE; i += thread_count())
        expect(wrong, out[i] == in[i % SIDE * SIDE + i / SIDE]);
}
#endif
