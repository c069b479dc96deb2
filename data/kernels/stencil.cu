/*
 * Stencils: each inner point becomes a mean of itself and its neighbours; points at the edge stay.
 * A block of 32 x 8 threads has 32 x 8 columns; in three dimensions it goes through all planes.
 * Macros: X divisible by 32, Y by 8; Z planes, or none. SPDX-License-Identifier: Apache-2.0
 */
#include "lull.cuh"

#ifdef Z
#define PLANE ((u64)X * Y)

KERNEL __launch_bounds__(256) stencil(const float *in, float *out)
{
    const u32 x = blockIdx.x * 32 + threadIdx.x;
    const u32 y = blockIdx.y * 8 + threadIdx.y;
    const bool is_inner = x > 0 && x < X - 1 && y > 0 && y < Y - 1;
    u64 at = (u64)y * X + x;
    float below = 0;
    float here = in[at];

    for (u32 z = 0; z < Z; z++, at += PLANE) {
        const float above = z < Z - 1 ? in[at + PLANE] : 0.0f;

        if (is_inner && z > 0 && z < Z - 1)
            out[at] = 0.4f * here +
                      0.1f * (in[at - 1] + in[at + 1] + in[at - X] + in[at + X] + below + above);
        else
            out[at] = here;
        below = here;
        here = above;
    }
}

KERNEL check(const float *in, const float *out, u32 *wrong)
{
    for (u64 i = thread_index(); i < PLANE * Z; i += thread_count()) {
        const u32 x = i % X, y = i / X % Y, z = i / PLANE;
        double expected = in[i];

        if (x > 0 && x < X - 1 && y > 0 && y < Y - 1 && z > 0 && z < Z - 1)
            expected = 0.4 * in[i] + 0.1 * ((double)in[i - 1] + in[i + 1] + in[i - X] + in[i + X] +
                                            in[i - PLANE] + in[i + PLANE]);
        expect(wrong, is_near(out[i], expected, 1e-6));
    }
}
#else
KERNEL __launch_bounds__(256) stencil(const float *in, float *out)
{
    __shared__ float tile[10][34];
    const u32 x = blockIdx.x * 32 + threadIdx.x;
    const u32 y = blockIdx.y * 8 + threadIdx.y;
    const u64 at = (u64)y * X + x;
    float(*const here)[34] = &tile[threadIdx.y + 1];
    const u32 column = threadIdx.x + 1;

    here[0][column] = in[at];
    if (threadIdx.x == 0 && x > 0)
        here[0][0] = in[at - 1];
    if (threadIdx.x == 31 && x < X - 1)
        here[0][33] = in[at + 1];
    if (threadIdx.y == 0 && y > 0)
        here[-1][column] = in[at - X];
    if (threadIdx.y == 7 && y < Y - 1)
        here[1][column] = in[at + X];
    __syncthreads();
    if (x > 0 && x < X - 1 && y > 0 && y < Y - 1)
        out[at] = 0.5f * here[0][column] + 0.125f * (here[0][column - 1] + here[0][column + 1] +
                                                     here[-1][column] + here[1][column]);
    else
        out[at] = here[0][column];
}

KERNEL check(const float *in, const float *out, u32 *wrong)
{
    for (u64 i = thread_index(); i < (u64)X * Y; i += thread_count()) {
        const u32 x = i % X, y = i / X;
        double expected = in[i];

        if (x > 0 && x < X - 1 && y > 0 && y < Y - 1)
            expected =
                0.5 * in[i] + 0.125 * ((double)in[i - 1] + in[i + 1] + in[i - X] + in[i + X]);
        expect(wrong, is_near(out[i], expected, 1e-6));
    }
}
#endif
