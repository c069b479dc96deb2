/*
 * A convolution of 3 x 3 with padding on tensor cores (sm_80): images of HEIGHT x WIDTH pixels of
 * CHANNELS bf16, FILTERS filters. It is a matrix product whose rows are pixels and whose depth is
 * the 9 neighbours' channels; rows outside of an image are zero. Macros: IMAGES, HEIGHT, WIDTH with
 * 128 dividing their product; CHANNELS divisible by 32, FILTERS by 128. SPDX-License-Identifier:
 * Apache-2.0
 */
#define MMA mma_bf16
#define SUM float
#include "mma_loop.cuh"

#define PIXELS (HEIGHT * WIDTH)
#define PIXEL_WORDS (CHANNELS / 2)

/* The neighbours of pixels, from the block's first. */
struct neighbours {
    const u32 *images;
    u32 first;

    __device__ const u32 *operator()(u32 row, u32 word) const
    {
        const u32 pixel = first + row;
        const u32 tap = word / PIXEL_WORDS;
        const int y = (int)(pixel % PIXELS / WIDTH) + (int)(tap / 3) - 1;
        const int x = (int)(pixel % WIDTH) + (int)(tap % 3) - 1;

        if (y < 0 || y >= HEIGHT || x < 0 || x >= WIDTH)
            return nullptr;
        return images + ((u64)(pixel / PIXELS) * PIXELS + (u32)(y * WIDTH + x)) * PIXEL_WORDS +
               word % PIXEL_WORDS;
    }
};

struct taps { /* filters of 9 x CHANNELS */
    const u32 *first;

    __device__ const u32 *operator()(u32 row, u32 word) const
    {
        return first + (u64)row * 9 * PIXEL_WORDS + word;
    }
};

struct store_pixels {
    bf16 *corner;

    __device__ void operator()(u32 row, u32 column, float first, float second) const
    {
        *(u32 *)(corner + (u64)row * FILTERS + column) = pack_bf16(first, second);
    }
};

KERNEL __launch_bounds__(256) convolve(const bf16 *images, const bf16 *filters, bf16 *result)
{
    const u32 pixel = blockIdx.y * ROWS;
    const u32 filter = blockIdx.x * ROWS;
    const neighbours inputs = {(const u32 *)images, pixel};
    const taps weights = {(const u32 *)filters + (u64)filter * 9 * PIXEL_WORDS};
    const store_pixels to_result = {result + (u64)pixel * FILTERS + filter};
    float sum[4][4][4] = {};

    mma_loop(sum, inputs, weights, 9 * PIXEL_WORDS);
    mma_each(sum, to_result);
}

KERNEL check(const bf16 *images, const bf16 *filters, const bf16 *result, u32 *wrong)
{
    const u64 i = random_bits(100, thread_index()) % ((u64)IMAGES * PIXELS * FILTERS);
    const u64 pixel = i / FILTERS;
    const int row = pixel / WIDTH % HEIGHT;
    const int column = pixel % WIDTH;
    double sum = 0;

    for (int y = -1; y <= 1; y++)
        for (int x = -1; x <= 1; x++)
            for (u32 c = 0; c < CHANNELS; c++)
                if (row + y >= 0 && row + y < HEIGHT && column + x >= 0 && column + x < WIDTH)
                    sum += (double)real(images[(pixel + y * WIDTH + x) * CHANNELS + c]) *
                           (double)real(
                               filters[(i % FILTERS * 9 + (y + 1) * 3 + x + 1) * CHANNELS + c]);
    expect(wrong, is_near(real(result[i]), sum, 0.004 * fabs(sum) + 1e-5 * CHANNELS));
}
