/*
 * Threads of a warp that part: points of the plane, each until it leaves a circle or ROUNDS are
 * over. Macros: ROUNDS; LOOKS points that the check looks at. SPDX-License-Identifier: Apache-2.0
 */
#include "lull.cuh"

KERNEL __launch_bounds__(256) diverge(u32 *out)
{
    const u32 i = (u32)thread_index();
    const float cx = (float)(i % 1024) * (2.5f / 1024) - 2.0f;
    const float cy = (float)(i * 37 % 1024) * (2.5f / 1024) - 1.25f;
    float x = 0, y = 0;
    u32 round = 0;

    while (round < ROUNDS && x * x + y * y < 4.0f) {
        const float next = x * x - y * y + cx;

        y = 2.0f * x * y + cy;
        x = next;
        round++;
    }
    out[i] = round;
}

/* How many rounds there are for a point, with more digits, the first being over. */
__device__ inline u32 expected(double re, double im)
{
    double z_re = re, z_im = im;
    u32 rounds = 1;

    for (; rounds < ROUNDS && sqrt(z_re * z_re + z_im * z_im) < 2; rounds++) {
        const double square_re = (z_re + z_im) * (z_re - z_im);

        z_im = z_re * z_im * 2 + im;
        z_re = square_re + re;
    }
    return rounds;
}

/* A block of 256 threads looks at the first LOOKS points. Where a point is near the edge, rounding
 * decides when it leaves; that may be so for one in fifty. */
KERNEL check_diverge(const u32 *out, u32 *wrong)
{
    u32 differ = 0;

    for (u32 i = threadIdx.x; i < LOOKS; i += 256)
        differ += out[i] != expected(i % 1024 * 2.5 / 1024 - 2, i * 37 % 1024 * 2.5 / 1024 - 1.25);
    differ = block_all<add>(differ);
    if (threadIdx.x == 0)
        expect(wrong, differ * 50 <= LOOKS);
}
