/*
 * Checks of collectives over GPUS GPUs that all begin with the same COUNT numbers; this is rank 0.
 * What each rank has a share of is COUNT / GPUS numbers. Sums of 16 bits are rounded up to GPUS
 * times. Macros: REAL, COUNT, GPUS. SPDX-License-Identifier: Apache-2.0
 */
#include "lull.cuh"

#define SHARE (COUNT / GPUS)

__device__ inline void expect_sum(u32 *wrong, REAL value, REAL of)
{
    expect(wrong,
           is_near(real(value), GPUS * (double)real(of), 0.004 * GPUS * GPUS * fabs(real(of))));
}

KERNEL check_all_reduce(const REAL *in, const REAL *out, u32 *wrong)
{
    for (u64 i = thread_index(); i < COUNT; i += thread_count())
        expect_sum(wrong, out[i], in[i]);
}

KERNEL check_reduce_scatter(const REAL *in, const REAL *out, u32 *wrong)
{
    for (u64 i = thread_index(); i < SHARE; i += thread_count())
        expect_sum(wrong, out[i], in[i]);
}

KERNEL check_all_gather(const REAL *in, const REAL *out, u32 *wrong)
{
    for (u64 i = thread_index(); i < (u64)SHARE * GPUS; i += thread_count())
        expect(wrong, real(out[i]) == real(in[i % SHARE]));
}

KERNEL check_broadcast(const REAL *in, const REAL *out, u32 *wrong)
{
    for (u64 i = thread_index(); i < COUNT; i += thread_count())
        expect(wrong, real(out[i]) == real(in[i]));
}
