/*
 * Random access to a table of COUNT numbers, a power of two that the caches do not hold: many
 * independent reads, many writes, chains of reads that each wait for the one before, and rows of a
 * table of embeddings. Macros: COUNT, and READS of a thread; or ROWS, COLUMNS (divisible by 4 *
 * 32), LOOKUPS. SPDX-License-Identifier: Apache-2.0
 */
#include "lull.cuh"

#ifdef COUNT
__device__ inline u32 place(u32 thread, u32 read)
{
    return random_bits(200 + read, thread) % COUNT;
}

KERNEL __launch_bounds__(256) read(const u32 *table, u32 *sums)
{
    u32 sum = 0;

#pragma unroll 8
    for (u32 i = 0; i < READS; i++)
        sum += table[place(thread_index(), i)];
    sums[thread_index()] = sum;
}

/* Who writes what where is such that no two threads write to the same place: an odd factor permutes
 * the numbers below a power of two. */
KERNEL __launch_bounds__(256) write(u32 *table)
{
#pragma unroll 8
    for (u64 i = thread_index(); i < COUNT; i += thread_count())
        table[(i * 2654435761u) & (COUNT - 1)] = (u32)i;
}

KERNEL __launch_bounds__(256) chase(const u32 *next, u32 *ends)
{
    u32 at = place(thread_index(), 0);

    for (u32 i = 0; i < READS; i++)
        at = next[at];
    ends[thread_index()] = at;
}

KERNEL check_read(const u32 *table, const u32 *sums, u32 *wrong)
{
    u32 sum = 0;

    for (u32 i = 0; i < READS; i++)
        sum += table[random_bits(200 + i, thread_index()) % COUNT];
    expect(wrong, sums[thread_index()] == sum);
}

KERNEL check_write(const u32 *table, u32 *wrong)
{
    for (u64 i = thread_index(); i < COUNT; i += thread_count())
        expect(wrong, table[(i * 2654435761u) & (COUNT - 1)] == i);
}

/* The table was filled by a generator of which READS steps can be taken at once: x -> a x + c, and
 * twice that is x -> a^2 x + (a + 1) c. */
KERNEL check_chase(const u32 *, const u32 *ends, u32 *wrong)
{
    const u32 begin = random_bits(200, thread_index()) % COUNT;
    u32 factor = 1, offset = 0; /* of the steps so far */
    u32 a = 1664525u, c = 1013904223u;

    for (u32 steps = READS; steps > 0; steps /= 2) {
        if (steps % 2 == 1) {
            factor *= a;
            offset = a * offset + c;
        }
        c *= a + 1;
        a *= a;
    }
    expect(wrong, ends[thread_index()] == ((factor * begin + offset) & (COUNT - 1)));
}
#else
/* A warp has a lookup. */
KERNEL __launch_bounds__(256) embed(const float4 *table, const u32 *tokens, float4 *out)
{
    const u64 lookup = thread_index() / 32;
    const u64 row = tokens[lookup] % ROWS;

#pragma unroll 4
    for (u32 i = threadIdx.x % 32; i < COLUMNS / 4; i += 32)
        out[lookup * (COLUMNS / 4) + i] = table[row * (COLUMNS / 4) + i];
}

KERNEL check_embed(const float *table, const u32 *tokens, const float *out, u32 *wrong)
{
    for (u64 i = thread_index(); i < (u64)LOOKUPS * COLUMNS; i += thread_count())
        expect(wrong, out[i] == table[tokens[i / COLUMNS] % ROWS * (u64)COLUMNS + i % COLUMNS]);
}
#endif
