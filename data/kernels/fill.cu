/* Initial contents of buffers: element i of so many, by the buffer's seed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lull.cuh"

#define FILL(name, type, value)                                                                    \
    KERNEL name(type *data, u64 count, u64 seed)                                                   \
    {                                                                                              \
        for (u64 i = thread_index(); i < count; i += thread_count())                               \
            data[i] = value;                                                                       \
    }

__device__ inline f16 f16_of(float value)
{
    const f16 half = {f16_of_float(value)};

    return half;
}

/* Returns a number of either sign, of 1/8 to below 2. */
__device__ inline e4m3 random_e4m3(u64 seed, u64 i)
{
    const u32 bits = random_bits(seed, i);
    const e4m3 value = {(u8)((bits & 0x87) | (4 + (bits >> 3) % 4) << 3)};

    return value;
}

/* Random: numbers in [-1, 1), and integers of any bits. */
FILL(random_f32, float, random_real(seed, i))
FILL(random_f64, double, (double)random_real(seed, i))
FILL(random_f16, f16, f16_of(random_real(seed, i)))
FILL(random_bf16, bf16, bf16_of(random_real(seed, i)))
FILL(random_e4m3, e4m3, random_e4m3(seed, i))
FILL(random_u32, u32, random_bits(seed, i))
FILL(random_s8, signed char, (signed char)random_bits(seed, i))

/* One cycle through all elements in an order without pattern: element i says which is next. The
 * count must be a power of two of at least 4; then this generator has its full period. */
FILL(cycle_u32, u32, (u32)((i * 1664525u + 1013904223u) & (count - 1)))
