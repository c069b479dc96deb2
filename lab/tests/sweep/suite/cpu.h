/*
 * CUDA C for a processor: the part that the sources of the
 * suite use, so that g++ compiles them unchanged. A thread is a fibre of mock_cuda.c, which calls a
 * kernel once for each and fills in `cpu`; fibres change only at barriers, and blocks follow one
 * another. SPDX-License-Identifier: Apache-2.0
 */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

struct dim3 {
    unsigned x, y, z;
};

/* Shared with mock_cuda.c. */
struct cpu_thread {
    dim3 thread, block, block_size, grid_size;
    unsigned char *shared;    /* shared memory that the launch requested */
    void (*wait_block)(void); /* until all threads of the block are there */
    void (*wait_warp)(void);
};
extern "C" {
__attribute__((visibility("default"))) cpu_thread cpu;
}

#define threadIdx cpu.thread
#define blockIdx cpu.block
#define blockDim cpu.block_size
#define gridDim cpu.grid_size
#define __global__ __attribute__((visibility("default")))
#define __device__
#define __shared__ static
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(threads)

struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
static inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return {x, y, z, w};
}

static inline float rsqrtf(float x)
{
    return 1.0f / sqrtf(x);
}
#define __cosf cosf
static inline float __uint_as_float(unsigned bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}
static inline unsigned __float_as_uint(float value)
{
    unsigned bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}
static inline int __popc(unsigned bits)
{
    return __builtin_popcount(bits);
}

static inline unsigned atomicAdd(unsigned *at, unsigned more)
{
    const unsigned before = *at;
    *at += more;
    return before;
}

/* ---- threads together ---- */

static inline void __syncthreads()
{
    cpu.wait_block();
}
static inline void __syncwarp()
{
    cpu.wait_warp();
}

static inline unsigned cpu_index()
{
    return (cpu.thread.z * cpu.block_size.y + cpu.thread.y) * cpu.block_size.x + cpu.thread.x;
}

/* Values that the lanes of a warp exchange. */
static unsigned char cpu_exchange[32][32][64];

/* Calls make(lanes) once all lanes have put a value there; lanes[i] is that of lane i. */
template <class T, class Make> static inline auto cpu_together(const T &value, const Make &make)
{
    static_assert(sizeof(T) <= sizeof(cpu_exchange[0][0]), "room of a lane");
    const unsigned warp = cpu_index() / 32;
    T lanes[32];

    memcpy(cpu_exchange[warp][cpu_index() % 32], &value, sizeof(value));
    cpu.wait_warp();
    for (unsigned i = 0; i < 32; i++)
        memcpy(&lanes[i], cpu_exchange[warp][i], sizeof(T));
    auto result = make(lanes);
    cpu.wait_warp();
    return result;
}

template <class T> static inline T __shfl_xor_sync(unsigned, T value, int distance)
{
    return cpu_together(value, [=](const T *lanes) { return lanes[cpu_index() % 32 ^ distance]; });
}
template <class T> static inline T __shfl_up_sync(unsigned, T value, unsigned distance)
{
    const unsigned lane = cpu_index() % 32;
    return cpu_together(
        value, [=](const T *lanes) { return lanes[lane < distance ? lane : lane - distance]; });
}
static inline unsigned __ballot_sync(unsigned, int is_set)
{
    return cpu_together(is_set, [](const int *lanes) {
        unsigned bits = 0;
        for (unsigned i = 0; i < 32; i++)
            bits |= (unsigned)(lanes[i] != 0) << i;
        return bits;
    });
}
