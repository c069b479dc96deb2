/*
 * What the arithmetic units can do, with no memory to wait for: chains of operations on registers,
 * eight chains in a thread, and reads of shared memory. Macros: REAL, ROUNDS.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lull.cuh"

#define CHAINS 8

/* Multiplications and additions, 2 * CHAINS * ROUNDS in a thread: x -> 0.5 x + chain goes to 2
 * chain. */
KERNEL __launch_bounds__(256) multiply_add(REAL *out)
{
    REAL value[CHAINS];
    REAL sum = 0;

#pragma unroll
    for (u32 i = 0; i < CHAINS; i++)
        value[i] = (REAL)(thread_index() % 1024);
#pragma unroll 1
    for (u32 round = 0; round < ROUNDS; round++)
#pragma unroll
        for (u32 i = 0; i < CHAINS; i++)
            value[i] = value[i] * (REAL)0.5 + (REAL)i;
#pragma unroll
    for (u32 i = 0; i < CHAINS; i++)
        sum += value[i];
    out[thread_index()] = sum;
}

/* The sum of all 2 i is CHAINS (CHAINS - 1). */
KERNEL check_multiply_add(const REAL *out, u32 *wrong)
{
    expect(wrong, is_near(out[thread_index()], CHAINS * (CHAINS - 1), 1e-3));
}

/* Multiplications and additions of integers: a generator of random numbers in each chain. */
KERNEL __launch_bounds__(256) integers(u32 *out)
{
    u32 value[CHAINS];
    u32 all = 0;

#pragma unroll
    for (u32 i = 0; i < CHAINS; i++)
        value[i] = (u32)thread_index() * CHAINS + i;
#pragma unroll 1
    for (u32 round = 0; round < ROUNDS; round++)
#pragma unroll
        for (u32 i = 0; i < CHAINS; i++)
            value[i] = value[i] * 1664525u + 1013904223u;
#pragma unroll
    for (u32 i = 0; i < CHAINS; i++)
        all ^= value[i];
    out[thread_index()] = all;
}

/* ROUNDS steps at once: twice x -> a x + c is x -> a^2 x + (a + 1) c. */
KERNEL check_integers(const u32 *out, u32 *wrong)
{
    u32 factor = 1, offset = 0;
    u32 a = 1664525u, c = 1013904223u;
    u32 all = 0;

    for (u32 steps = ROUNDS; steps > 0; steps /= 2) {
        if (steps % 2 == 1) {
            factor *= a;
            offset = a * offset + c;
        }
        c *= a + 1;
        a *= a;
    }
    for (u32 i = 0; i < CHAINS; i++)
        all ^= factor * ((u32)thread_index() * CHAINS + i) + offset;
    expect(wrong, out[thread_index()] == all);
}

/* Special functions: x -> cos x goes to 0.739085. */
KERNEL __launch_bounds__(256) special(REAL *out)
{
    REAL value[CHAINS];
    REAL sum = 0;

#pragma unroll
    for (u32 i = 0; i < CHAINS; i++)
        value[i] = (REAL)(thread_index() % 16 + i) * (REAL)0.1;
#pragma unroll 1
    for (u32 round = 0; round < ROUNDS; round++)
#pragma unroll
        for (u32 i = 0; i < CHAINS; i++)
            value[i] = __cosf(value[i]);
#pragma unroll
    for (u32 i = 0; i < CHAINS; i++)
        sum += value[i];
    out[thread_index()] = sum;
}

KERNEL check_special(const REAL *out, u32 *wrong)
{
    expect(wrong, is_near(out[thread_index()], CHAINS * 0.73908513, 1e-3));
}

/* Reads of shared memory, each of which says where the next is; lane l stays on bank l. */
KERNEL __launch_bounds__(256) shared(u32 *out)
{
    __shared__ u32 next[4096];
    u32 at[4];

    for (u32 i = threadIdx.x; i < 4096; i += 256)
        next[i] = (i * 33 + 1024 * 5) % 4096 / 32 * 32 + i % 32;
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < 4; i++)
        at[i] = (threadIdx.x + i * 1024) % 4096;
#pragma unroll 1
    for (u32 round = 0; round < ROUNDS; round++)
#pragma unroll
        for (u32 i = 0; i < 4; i++)
            at[i] = next[at[i]];
    out[thread_index()] = at[0] + 3 * at[1] + 5 * at[2] + 7 * at[3];
}

KERNEL check_shared(const u32 *out, u32 *wrong)
{
    u32 all = 0;

    for (u32 i = 0; i < 4; i++) {
        u32 at = (threadIdx.x + i * 1024) % 4096;

#pragma unroll 1
        for (u32 round = 0; round < ROUNDS; round++)
            at = (at * 33 + 1024 * 5) % 4096 / 32 * 32 + at % 32;
        all += (2 * i + 1) * at;
    }
    expect(wrong, out[thread_index()] == all);
}
