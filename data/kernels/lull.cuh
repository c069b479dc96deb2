/*
 * What all kernels of the suite share: types, initial contents, sums, checks.
 *
 * A kernel takes nothing but pointers to its buffers, in the order of the description; its sizes
 * are macros. A check takes the same buffers after one launch, and last of all two counters: what
 * was wrong, and what was looked at. SPDX-License-Identifier: Apache-2.0
 */
#pragma once

#include "gpu.cuh"

#define KERNEL extern "C" __global__ void

/* ---- numbers ---- */

struct f16 {
    u16 bits;
};
struct bf16 {
    u16 bits;
};
struct e4m3 { /* 4 bits of exponent, 3 of mantissa; no infinity */
    u8 bits;
};

__device__ inline float real(float value)
{
    return value;
}
__device__ inline double real(double value)
{
    return value;
}
__device__ inline float real(f16 value)
{
    return float_of_f16(value.bits);
}
__device__ inline float real(bf16 value)
{
    return __uint_as_float((u32)value.bits << 16);
}
__device__ inline float real(e4m3 value)
{
    const int exponent = (value.bits >> 3) & 15;
    const int mantissa = value.bits & 7;
    const float size = exponent == 0 ? (float)mantissa * 0.001953125f /* 2^-9 */
                                     : ldexpf((float)(8 + mantissa), exponent - 10);

    return (value.bits & 128) != 0 ? -size : size;
}
__device__ inline float real(signed char value)
{
    return (float)value;
}

/* The upper half of a float, rounded to nearest, ties to even. */
__device__ inline bf16 bf16_of(float value)
{
    const u32 bits = __float_as_uint(value);
    const bf16 rounded = {(u16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};

    return rounded;
}

/* Two bf16 in a word, the first in its lower half. */
__device__ inline u32 pack_bf16(float first, float second)
{
    return (u32)bf16_of(first).bits | (u32)bf16_of(second).bits << 16;
}

/* ---- initial contents, which checks can compute again: element i of a buffer's seed ---- */

__device__ inline u32 random_bits(u64 seed, u64 i)
{
    u64 x = i * 0x9e3779b97f4a7c15ull + (seed + 1) * 0xd1b54a32d192ed03ull;

    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
    return (u32)(x >> 32);
}

/* A number in [-1, 1) that a float holds exactly. */
__device__ inline float random_real(u64 seed, u64 i)
{
    return (float)((int)(random_bits(seed, i) >> 8) - (1 << 23)) * (1.0f / (1 << 23));
}

/* ---- threads ---- */

__device__ inline u64 thread_index()
{
    return (u64)blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ inline u64 thread_count()
{
    return (u64)gridDim.x * blockDim.x;
}

struct add {
    template <class T> __device__ static T of(T a, T b)
    {
        return a + b;
    }
};
struct largest {
    template <class T> __device__ static T of(T a, T b)
    {
        return a > b ? a : b;
    }
};

/* The sum (or whatever Of makes of two) over the lanes of a warp, in all of them. */
template <class Of, class T> __device__ inline T warp_all(T value)
{
    for (int distance = 16; distance > 0; distance /= 2)
        value = Of::of(value, __shfl_xor_sync(0xffffffffu, value, distance));
    return value;
}

/* Does the same over a block of whole warps along x; all threads get the result. */
template <class Of, class T> __device__ inline T block_all(T value)
{
    __shared__ T of_warps[32];

    value = warp_all<Of>(value);
    __syncthreads(); /* of_warps may still be read from the time before */
    if (threadIdx.x % 32 == 0)
        of_warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = of_warps[0];
    for (u32 warp = 1; warp < blockDim.x / 32; warp++)
        value = Of::of(value, of_warps[warp]);
    return value;
}

/* ---- checks ---- */

__device__ inline void expect(u32 *wrong, bool is_right)
{
    atomicAdd(&wrong[1], 1);
    if (!is_right)
        atomicAdd(&wrong[0], 1);
}

/* Tells whether a value is within `slack` of what is expected; a NaN never is. */
__device__ inline bool is_near(double value, double expected, double slack)
{
    return fabs(value - expected) <= slack;
}
