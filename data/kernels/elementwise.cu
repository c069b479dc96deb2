/*
 * What stands between the layers: a gelu with its bias, in bf16, and dropout.
 * Macros: COUNT divisible by 8, COLUMNS of the bias by 8. SPDX-License-Identifier: Apache-2.0
 */
#include "lull.cuh"

#define KEEP 0.9f

__device__ inline float gelu_one(float x)
{
    return 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
}

/* Two values in a word. */
__device__ inline u32 gelu_two(u32 in, u32 bias)
{
    const float low = __uint_as_float(in << 16) + __uint_as_float(bias << 16);
    const float high = __uint_as_float(in & 0xffff0000u) + __uint_as_float(bias & 0xffff0000u);

    return pack_bf16(gelu_one(low), gelu_one(high));
}

KERNEL __launch_bounds__(256) gelu(const uint4 *in, const uint4 *bias, uint4 *out)
{
    for (u64 i = thread_index(); i < COUNT / 8; i += thread_count()) {
        const uint4 x = in[i];
        const uint4 b = bias[i % (COLUMNS / 8)];

        out[i] = make_uint4(gelu_two(x.x, b.x), gelu_two(x.y, b.y), gelu_two(x.z, b.z),
                            gelu_two(x.w, b.w));
    }
}

/* The random numbers are made where they are needed. */
KERNEL __launch_bounds__(256) dropout(const float *in, float *out)
{
    for (u64 i = thread_index(); i < COUNT; i += thread_count())
        out[i] = random_real(500, i) < 2 * KEEP - 1 ? in[i] / KEEP : 0.0f;
}

KERNEL check_gelu(const bf16 *in, const bf16 *bias, const bf16 *out, u32 *wrong)
{
    for (u64 i = thread_index(); i < COUNT; i += thread_count()) {
        const double x = (double)real(in[i]) + real(bias[i % COLUMNS]);
        const double expected = 0.5 * x * (1 + erf(x * 0.70710678));

        expect(wrong, is_near(real(out[i]), expected, 0.004 * fabs(expected) + 1e-3));
    }
}

/* What is kept is scaled, the rest is zero, and about KEEP of all is kept. One block. */
KERNEL check_dropout(const float *in, const float *out, u32 *wrong)
{
    u32 kept = 0;

    for (u64 i = threadIdx.x; i < COUNT; i += blockDim.x) {
        kept += out[i] != 0.0f;
        if (!is_near(out[i], in[i] / 0.9, 1e-6) && out[i] != 0.0f)
            expect(wrong, false);
    }
    kept = block_all<add>(kept);
    if (threadIdx.x == 0) /* six standard deviations of a binomial */
        expect(wrong, is_near(kept, 0.9 * COUNT, 1.8 * sqrt((double)COUNT)));
}
