/*
 * data/kernels/gpu.cuh for a processor: the same functions, by hand. The layouts of fragments are
 * those that the documentation of PTX gives; each lane takes what it needs from what all lanes
 * brought. SPDX-License-Identifier: Apache-2.0
 */
#pragma once

#include "cpu.h"

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

/* ---- half precision ---- */

static inline float float_of_f16(u16 bits)
{
    _Float16 half;
    memcpy(&half, &bits, sizeof(half));
    return (float)half;
}
static inline u16 f16_of_float(float value)
{
    const _Float16 half = (_Float16)value;
    u16 bits;
    memcpy(&bits, &half, sizeof(bits));
    return bits;
}

/* ---- memory ---- */

static inline uint4 load_l2(const uint4 *from)
{
    return *from;
}
static inline void add_alone(u32 *to, u32 value)
{
    *to += value;
}
static inline u32 *dynamic_shared()
{
    return (u32 *)cpu.shared;
}
static inline void require_aligned(const void *at)
{
    if ((uintptr_t)at % 16 != 0)
        __builtin_trap();
}

/* Copies arrive at the wait and not before: until then they are kept. A group is what lies between
 * commits. */
struct cpu_copy {
    void *to;
    uint4 value;
    u32 group;
};
static cpu_copy cpu_copies[1024][64];
static u32 cpu_copy_count[1024], cpu_groups[1024];

static inline void copy_async(void *shared, const void *global, bool is_there)
{
    const u32 thread = cpu_index();
    cpu_copy copy = {shared, {}, cpu_groups[thread]};

    require_aligned(shared);
    require_aligned(global);
    if (is_there)
        copy.value = *(const uint4 *)global;
    if (cpu_copy_count[thread] == 64)
        __builtin_trap();
    cpu_copies[thread][cpu_copy_count[thread]++] = copy;
}
static inline void copy_async_commit()
{
    cpu_groups[cpu_index()]++;
}
template <int pending> static inline void copy_async_wait()
{
    const u32 thread = cpu_index();
    u32 left = 0;

    for (u32 i = 0; i < cpu_copy_count[thread]; i++) {
        const cpu_copy &copy = cpu_copies[thread][i];
        if (copy.group + pending < cpu_groups[thread])
            *(uint4 *)copy.to = copy.value;
        else
            cpu_copies[thread][left++] = copy;
    }
    cpu_copy_count[thread] = left;
}

static inline void load_matrices(u32 words[4], const void *row)
{
    const u32 lane = cpu_index() % 32;

    require_aligned(row);
    cpu_together(row, [=](const void *const *rows) {
        for (u32 i = 0; i < 4; i++)
            words[i] = ((const u32 *)rows[8 * i + lane / 4])[lane % 4];
        return 0;
    });
}
static inline void load_matrices_transposed(u32 words[4], const void *row)
{
    const u32 lane = cpu_index() % 32;

    require_aligned(row);
    cpu_together(row, [=](const void *const *rows) {
        for (u32 i = 0; i < 4; i++) {
            const u16 *const first = (const u16 *)rows[8 * i + 2 * (lane % 4)];
            const u16 *const second = (const u16 *)rows[8 * i + 2 * (lane % 4) + 1];
            words[i] = (u32)first[lane / 4] | (u32)second[lane / 4] << 16;
        }
        return 0;
    });
}

/* ---- tensor cores ---- */

struct cpu_fragments {
    u32 a[4], b[2];
};

/* Row `row` of a and column `column` of b, 8 words each, from all lanes' fragments. */
static inline u32 a_word(const cpu_fragments *lanes, u32 row, u32 word)
{
    return lanes[row % 8 * 4 + word % 4].a[word / 4 * 2 + row / 8];
}
static inline u32 b_word(const cpu_fragments *lanes, u32 column, u32 word)
{
    return lanes[column * 4 + word % 4].b[word / 4];
}

/* dot(x, y) is the sum of products of what two words hold. */
template <class Sum, class Dot>
static inline void cpu_mma(Sum c[4], const u32 a[4], const u32 b[2], const Dot &dot)
{
    const u32 lane = cpu_index() % 32;
    const cpu_fragments own = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};

    cpu_together(own, [=](const cpu_fragments *lanes) {
        for (u32 i = 0; i < 4; i++)
            for (u32 word = 0; word < 8; word++)
                c[i] += dot(a_word(lanes, lane / 4 + i / 2 * 8, word),
                            b_word(lanes, lane % 4 * 2 + i % 2, word));
        return 0;
    });
}

static inline float bf16_at(u32 word, u32 i)
{
    return __uint_as_float(word >> 16 * i << 16);
}
static inline void mma_bf16(float c[4], const u32 a[4], const u32 b[2])
{
    cpu_mma(c, a, b, [](u32 x, u32 y) {
        return bf16_at(x, 0) * bf16_at(y, 0) + bf16_at(x, 1) * bf16_at(y, 1);
    });
}
static inline void mma_tf32(float c[4], const u32 a[4], const u32 b[2]) /* 13 bits are cut off */
{
    cpu_mma(c, a, b, [](u32 x, u32 y) {
        return __uint_as_float(x & ~0x1fffu) * __uint_as_float(y & ~0x1fffu);
    });
}
static inline float e4m3_at(u32 word, u32 i)
{
    const u32 bits = word >> 8 * i & 255;
    const float size = bits & 0x78
                           ? ldexpf(1.0f + (float)(bits & 7) / 8.0f, (int)(bits >> 3 & 15) - 7)
                           : ldexpf((float)(bits & 7) / 8.0f, -6);
    return bits & 128 ? -size : size;
}
static inline void mma_e4m3(float c[4], const u32 a[4], const u32 b[2])
{
    cpu_mma(c, a, b, [](u32 x, u32 y) {
        float sum = 0;
        for (u32 i = 0; i < 4; i++)
            sum += e4m3_at(x, i) * e4m3_at(y, i);
        return sum;
    });
}
static inline void mma_s8(int c[4], const u32 a[4], const u32 b[2])
{
    cpu_mma(c, a, b, [](u32 x, u32 y) {
        int sum = 0;
        for (u32 i = 0; i < 4; i++)
            sum += (int)(signed char)(x >> 8 * i) * (int)(signed char)(y >> 8 * i);
        return sum;
    });
}

/* ---- tiles of 16 by 16: lane l has half a row, l / 2 ---- */

static inline void wmma_load_a(u32 words[8], const u16 *tile, u32 stride)
{
    const u32 lane = cpu_index() % 32;

    if ((uintptr_t)tile % 32 != 0 || stride % 8 != 0)
        __builtin_trap();
    memcpy(words, tile + lane / 2 * stride + lane % 2 * 8, 16);
    memset(words + 4, 0, 16);
}
static inline void wmma_load_b(u32 words[8], const u16 *tile, u32 stride)
{
    wmma_load_a(words, tile, stride);
}
struct cpu_tiles {
    u16 a[8], b[8];
};
static inline void wmma_f16(float c[8], const u32 a[8], const u32 b[8])
{
    const u32 lane = cpu_index() % 32;
    cpu_tiles own;

    memcpy(own.a, a, sizeof(own.a));
    memcpy(own.b, b, sizeof(own.b));
    cpu_together(own, [=](const cpu_tiles *lanes) {
        for (u32 i = 0; i < 8; i++)
            for (u32 k = 0; k < 16; k++)
                c[i] += float_of_f16(lanes[lane / 2 * 2 + k / 8].a[k % 8]) *
                        float_of_f16(lanes[(lane % 2 * 8 + i) * 2 + k / 8].b[k % 8]);
        return 0;
    });
}
static inline void wmma_store(float *tile, const float c[8], u32 stride)
{
    const u32 lane = cpu_index() % 32;

    memcpy(tile + lane / 2 * stride + lane % 2 * 8, c, 32);
}
