/*
 * The instructions that CUDA C has no word for without its headers: tensor cores, copies that run
 * beside computation, half precision. Tests on a processor replace this file by one in which the
 * lanes of a warp do the same by hand (tests/cli/sweep/suite/gpu.cuh).
 *
 * Fragments are those of PTX: lane l = 4g + t of a warp holds what belongs to row g and column t. A
 * word has 32 bits: two values of 16 bits, four of 8, or one tf32.
 * SPDX-License-Identifier: Apache-2.0
 */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

/* ---- half precision ---- */

__device__ inline u16 f16_of_float(float value)
{
    u16 bits;

    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

__device__ inline float float_of_f16(u16 bits)
{
    float value;

    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

/* ---- memory ---- */

/* Loads from the level-2 cache, each time anew. */
__device__ inline uint4 load_l2(const uint4 *from)
{
    uint4 value;

    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "l"(__cvta_generic_to_global(from))
                 : "memory");
    return value;
}

/* Adds, for this lane alone: compilers join atomic additions of a warp to one number, but not
 * these. */
__device__ inline void add_alone(u32 *to, u32 value)
{
    asm volatile("red.global.add.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "r"(value)
                 : "memory");
}

/* The shared memory that the launch asked for. */
__device__ inline u32 *dynamic_shared()
{
    extern __shared__ __align__(16) u32 memory[];

    return memory;
}

__device__ inline u32 shared_address(const void *shared)
{
    return (u32)__cvta_generic_to_shared(shared);
}

/* Copies 16 bytes to shared memory in the background, or zeros where is_there is false (sm_80). */
__device__ inline void copy_async(void *shared, const void *global, bool is_there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
                 "l"(__cvta_generic_to_global(global)), "r"(is_there ? 16 : 0)
                 : "memory");
}

/* Ends a group of copies. */
__device__ inline void copy_async_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until all but the last `pending` groups are there. */
template <int pending> __device__ inline void copy_async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

/*
 * Loads four matrices of 8 rows by 16 bytes (sm_75). Lane 8i + r names row r of matrix i; lane l
 * gets word l % 4 of row l / 4 of each.
 */
__device__ inline void load_matrices(u32 words[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/* The same of transposed matrices of 16-bit values: lane l gets the values of column l / 4 in the
 * rows 2 (l % 4) and the next. */
__device__ inline void load_matrices_transposed(u32 words[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/* ---- tensor cores: c += a b with a of 16 rows and b of 8 columns, both 8 words deep ---- */

#define MMA_OF_FLOATS(name, instruction)                                                           \
    __device__ inline void name(float c[4], const u32 a[4], const u32 b[2])                        \
    {                                                                                              \
        asm(instruction " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"         \
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                       \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                   \
    }

MMA_OF_FLOATS(mma_bf16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32") /* sm_80 */
MMA_OF_FLOATS(mma_tf32, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")  /* sm_80 */
MMA_OF_FLOATS(mma_e4m3, "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32") /* sm_89 */

__device__ inline void mma_s8(int c[4], const u32 a[4], const u32 b[2]) /* sm_80 */
{
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* ---- tensor cores since sm_70: tiles of 16 by 16; only these functions know the fragments ---- */

/* a from rows, b from columns, both with `stride` values from one to the next, in shared memory. */
__device__ inline void wmma_load_a(u32 words[8], const u16 *tile, u32 stride)
{
    asm volatile(
        "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, "
        "[%8], %9;"
        : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]), "=r"(words[4]),
          "=r"(words[5]), "=r"(words[6]), "=r"(words[7])
        : "r"(shared_address(tile)), "r"(stride)
        : "memory");
}

__device__ inline void wmma_load_b(u32 words[8], const u16 *tile, u32 stride)
{
    asm volatile(
        "wmma.load.b.sync.aligned.col.m16n16k16.shared.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, "
        "[%8], %9;"
        : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]), "=r"(words[4]),
          "=r"(words[5]), "=r"(words[6]), "=r"(words[7])
        : "r"(shared_address(tile)), "r"(stride)
        : "memory");
}

__device__ inline void wmma_f16(float c[8], const u32 a[8], const u32 b[8])
{
    asm volatile(
        "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, "
        "{%8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19, %20, %21, %22, %23}, "
        "{%0, %1, %2, %3, %4, %5, %6, %7};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]),
          "+f"(c[7])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]),
          "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(b[4]), "r"(b[5]), "r"(b[6]), "r"(b[7]));
}

/* Stores c to rows of global memory. */
__device__ inline void wmma_store(float *tile, const float c[8], u32 stride)
{
    asm volatile(
        "wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%0], {%1, %2, %3, %4, %5, %6, "
        "%7, %8}, %9;" ::"l"(__cvta_generic_to_global(tile)),
        "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]), "f"(c[4]), "f"(c[5]), "f"(c[6]), "f"(c[7]),
        "r"(stride)
        : "memory");
}
