/*
 * What a layer does to each row of a ROWS x COLUMNS matrix: normalisation, softmax. A block of 256
 * threads has a row, which it keeps in registers.
 * Macros: ROWS; COLUMNS divisible by 256. SPDX-License-Identifier: Apache-2.0
 */
#include "lull.cuh"

#define EACH (COLUMNS / 256)

__device__ inline u64 place(u32 i)
{
    return (u64)blockIdx.x * COLUMNS + i * 256 + threadIdx.x;
}

KERNEL __launch_bounds__(256) layer_norm(const float *in, const float *scale, float *out)
{
    float value[EACH];
    float sum = 0, squares = 0, mean, factor;

#pragma unroll
    for (u32 i = 0; i < EACH; i++)
        sum += value[i] = in[place(i)];
    mean = block_all<add>(sum) / COLUMNS;
#pragma unroll
    for (u32 i = 0; i < EACH; i++)
        squares += (value[i] - mean) * (value[i] - mean);
    factor = rsqrtf(block_all<add>(squares) / COLUMNS + 1e-5f);
#pragma unroll
    for (u32 i = 0; i < EACH; i++)
        out[place(i)] = (value[i] - mean) * factor * scale[i * 256 + threadIdx.x];
}

KERNEL __launch_bounds__(256) rms_norm(const bf16 *in, const float *scale, bf16 *out)
{
    float value[EACH];
    float squares = 0, factor;

#pragma unroll
    for (u32 i = 0; i < EACH; i++) {
        value[i] = real(in[place(i)]);
        squares += value[i] * value[i];
    }
    factor = rsqrtf(block_all<add>(squares) / COLUMNS + 1e-5f);
#pragma unroll
    for (u32 i = 0; i < EACH; i++)
        out[place(i)] = bf16_of(value[i] * factor * scale[i * 256 + threadIdx.x]);
}

KERNEL __launch_bounds__(256) softmax(const float *in, float *out)
{
    float value[EACH];
    float highest = -1e30f, sum = 0;

#pragma unroll
    for (u32 i = 0; i < EACH; i++)
        highest = fmaxf(highest, value[i] = in[place(i)]);
    highest = block_all<largest>(highest);
#pragma unroll
    for (u32 i = 0; i < EACH; i++)
        sum += value[i] = expf(value[i] - highest);
    sum = block_all<add>(sum);
#pragma unroll
    for (u32 i = 0; i < EACH; i++)
        out[place(i)] = value[i] / sum;
}

/* ---- checks: a thread has a row, and looks at some of its columns ---- */

#define LOOKS 16

__device__ inline u32 some_row()
{
    return random_bits(100, thread_index()) % ROWS;
}
__device__ inline u32 some_column(u32 look)
{
    return random_bits(101, thread_index() * LOOKS + look) % COLUMNS;
}

template <class T> __device__ inline double sum_of(const T *row, double less, double power)
{
    double sum = 0;

    for (u32 i = 0; i < COLUMNS; i++)
        sum += power == 2 ? (real(row[i]) - less) * (real(row[i]) - less) : (double)real(row[i]);
    return sum;
}

KERNEL check_layer_norm(const float *in, const float *scale, const float *out, u32 *wrong)
{
    const u64 first = (u64)some_row() * COLUMNS;
    const double mean = sum_of(in + first, 0, 1) / COLUMNS;
    const double deviation = sqrt(sum_of(in + first, mean, 2) / COLUMNS + 1e-5);

    for (u32 look = 0; look < LOOKS; look++) {
        const u32 i = some_column(look);

        expect(wrong, is_near(out[first + i], (in[first + i] - mean) / deviation * scale[i], 1e-4));
    }
}

KERNEL check_rms_norm(const bf16 *in, const float *scale, const bf16 *out, u32 *wrong)
{
    const u64 first = (u64)some_row() * COLUMNS;
    const double size = sqrt(sum_of(in + first, 0, 2) / COLUMNS + 1e-5);

    for (u32 look = 0; look < LOOKS; look++) {
        const u32 i = some_column(look);
        const double expected = real(in[first + i]) / size * scale[i];

        expect(wrong, is_near(real(out[first + i]), expected, 0.004 * fabs(expected) + 1e-5));
    }
}

KERNEL check_softmax(const float *in, const float *out, u32 *wrong)
{
    const u64 first = (u64)some_row() * COLUMNS;
    double sum = 0;

    for (u32 i = 0; i < COLUMNS; i++)
        sum += exp((double)in[first + i]);
    for (u32 look = 0; look < LOOKS; look++) {
        const u32 i = some_column(look);
        const double expected = exp((double)in[first + i]) / sum;

        expect(wrong, is_near(out[first + i], expected, 1e-4 * expected));
    }
}
