/*
 * Convolutions of 3 x 3 with padding, of 32-bit floats, without tensor cores; planes of HEIGHT x
 * WIDTH, filters of CHANNELS x 3 x 3. A block of 32 x 8 threads makes 32 x 8 pixels of the plane
 * and filters that blockIdx.z counts: of FILTERS_EACH filters in `convolve`, of one plane in
 * `depthwise`. Macros: IMAGES; WIDTH divisible by 32, HEIGHT by 8; CHANNELS; FILTERS divisible by
 * FILTERS_EACH. SPDX-License-Identifier: Apache-2.0
 */
#include "lull.cuh"

#define FILTERS_EACH 8

struct patch {
    float pixels[10][34];
};

/* Loads the pixels of the block and those around them. */
__device__ inline void load(patch &to, const float *plane)
{
    const int y = blockIdx.y * 8 - 1;
    const int x = blockIdx.x * 32 - 1;

    for (int i = threadIdx.y * 32 + threadIdx.x; i < 10 * 34; i += 256) {
        const int row = y + i / 34;
        const int column = x + i % 34;
        const bool is_inside = row >= 0 && row < HEIGHT && column >= 0 && column < WIDTH;

        to.pixels[i / 34][i % 34] = is_inside ? plane[row * WIDTH + column] : 0.0f;
    }
}

__device__ inline float convolve_pixel(const patch &from, const float *filter)
{
    float sum = 0;

#pragma unroll
    for (int y = 0; y < 3; y++)
#pragma unroll
        for (int x = 0; x < 3; x++)
            sum += from.pixels[threadIdx.y + y][threadIdx.x + x] * filter[y * 3 + x];
    return sum;
}

/* Where the thread's pixel lies in a plane. */
__device__ inline u64 pixel()
{
    return (u64)(blockIdx.y * 8 + threadIdx.y) * WIDTH + blockIdx.x * 32 + threadIdx.x;
}

KERNEL __launch_bounds__(256) convolve(const float *images, const float *filters, float *result)
{
    __shared__ patch shared;
    const u32 image = blockIdx.z / (FILTERS / FILTERS_EACH);
    const u32 first = blockIdx.z % (FILTERS / FILTERS_EACH) * FILTERS_EACH;
    float sum[FILTERS_EACH] = {};

    for (u32 channel = 0; channel < CHANNELS; channel++) {
        __syncthreads();
        load(shared, images + ((u64)image * CHANNELS + channel) * HEIGHT * WIDTH);
        __syncthreads();
#pragma unroll
        for (u32 filter = 0; filter < FILTERS_EACH; filter++)
            sum[filter] +=
                convolve_pixel(shared, filters + ((first + filter) * CHANNELS + channel) * 9);
    }
#pragma unroll
    for (u32 filter = 0; filter < FILTERS_EACH; filter++)
        result[((u64)image * FILTERS + first + filter) * HEIGHT * WIDTH + pixel()] = sum[filter];
}

KERNEL __launch_bounds__(256) depthwise(const float *images, const float *filters, float *result)
{
    __shared__ patch shared;
    const u64 plane = (u64)blockIdx.z * HEIGHT * WIDTH;

    load(shared, images + plane);
    __syncthreads();
    result[plane + pixel()] = convolve_pixel(shared, filters + blockIdx.z % CHANNELS * 9);
}

/* One pixel of a plane anew. */
__device__ inline double expected(const float *plane, const float *filter, int row, int column)
{
    double sum = 0;

    for (int y = -1; y <= 1; y++)
        for (int x = -1; x <= 1; x++)
            if (row + y >= 0 && row + y < HEIGHT && column + x >= 0 && column + x < WIDTH)
                sum += (double)plane[(row + y) * WIDTH + column + x] *
                       (double)filter[(y + 1) * 3 + x + 1];
    return sum;
}

KERNEL check_convolve(const float *images, const float *filters, const float *result, u32 *wrong)
{
    const u64 i = random_bits(100, thread_index()) % ((u64)IMAGES * FILTERS * HEIGHT * WIDTH);
    const u32 image = i / ((u64)FILTERS * HEIGHT * WIDTH);
    const u32 filter = i / (HEIGHT * WIDTH) % FILTERS;
    double sum = 0;

    for (u32 channel = 0; channel < CHANNELS; channel++)
        sum += expected(images + ((u64)image * CHANNELS + channel) * HEIGHT * WIDTH,
                        filters + (filter * CHANNELS + channel) * 9, i / WIDTH % HEIGHT, i % WIDTH);
    expect(wrong, is_near(result[i], sum, 1e-5 * CHANNELS));
}

KERNEL check_depthwise(const float *images, const float *filters, const float *result, u32 *wrong)
{
    const u64 i = random_bits(100, thread_index()) % ((u64)IMAGES * CHANNELS * HEIGHT * WIDTH);
    const u64 plane = i / (HEIGHT * WIDTH);

    expect(wrong, is_near(result[i],
                          expected(images + plane * HEIGHT * WIDTH, filters + plane % CHANNELS * 9,
                                   i / WIDTH % HEIGHT, i % WIDTH),
                          1e-5));
}
