/*
 * The pull of COUNT bodies on each other, with positions in x, y, z and masses in w. A thread has a
 * body; the others come by 256 through shared memory. Macros: COUNT divisible by 256.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lull.cuh"

#define SOFTENING 0.01f

KERNEL __launch_bounds__(256) pull(const float4 *bodies, float4 *forces)
{
    __shared__ float4 others[256];
    const float4 own = bodies[thread_index()];
    float x = 0, y = 0, z = 0;

    for (u32 first = 0; first < COUNT; first += 256) {
        __syncthreads();
        others[threadIdx.x] = bodies[first + threadIdx.x];
        __syncthreads();
#pragma unroll 8
        for (u32 i = 0; i < 256; i++) {
            const float dx = others[i].x - own.x;
            const float dy = others[i].y - own.y;
            const float dz = others[i].z - own.z;
            const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + SOFTENING);
            const float strength = others[i].w * inverse * inverse * inverse;

            x += strength * dx;
            y += strength * dy;
            z += strength * dz;
        }
    }
    forces[thread_index()] = make_float4(x, y, z, 0);
}

KERNEL check(const float4 *bodies, const float4 *forces, u32 *wrong)
{
    const u32 body = random_bits(100, thread_index()) % COUNT;
    const float4 own = bodies[body];
    double x = 0, y = 0, z = 0, size = 0;

    for (u32 i = 0; i < COUNT; i++) {
        const double dx = (double)bodies[i].x - own.x;
        const double dy = (double)bodies[i].y - own.y;
        const double dz = (double)bodies[i].z - own.z;
        const double square = dx * dx + dy * dy + dz * dz + SOFTENING;
        const double strength = bodies[i].w / (square * sqrt(square));

        x += strength * dx;
        y += strength * dy;
        z += strength * dz;
        size += fabs(strength) * sqrt(square);
    }
    expect(wrong, is_near(forces[body].x, x, 1e-5 * size) &&
                      is_near(forces[body].y, y, 1e-5 * size) &&
                      is_near(forces[body].z, z, 1e-5 * size));
}
