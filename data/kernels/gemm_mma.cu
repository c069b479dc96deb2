/*
 * c = a b on tensor cores (sm_80): a is M x K by rows, b is N columns of K, c is M x N by rows.
 * Macros: INPUT, MMA, SUM; SLACK of a sum, relative to its products; M, N divisible by 128, K by 64
 * bytes. SPDX-License-Identifier: Apache-2.0
 */
#include "mma_loop.cuh"

#define DEPTH (K * sizeof(INPUT) / 4)

/* Rows of a matrix from its first, as words. */
struct rows {
    const u32 *first;

    __device__ const u32 *operator()(u32 row, u32 word) const
    {
        return first + (u64)row * DEPTH + word;
    }
};

struct store_c {
    SUM *corner;

    __device__ void operator()(u32 row, u32 column, SUM first, SUM second) const
    {
        corner[(u64)row * N + column] = first;
        corner[(u64)row * N + column + 1] = second;
    }
};

KERNEL __launch_bounds__(256) gemm(const INPUT *a, const INPUT *b, SUM *c)
{
    const u32 row = blockIdx.y * ROWS;
    const u32 column = blockIdx.x * ROWS;
    const rows a_rows = {(const u32 *)a + (u64)row * DEPTH};
    const rows b_rows = {(const u32 *)b + (u64)column * DEPTH};
    const store_c to_c = {c + (u64)row * N + column};
    SUM sum[4][4][4] = {};

    mma_loop(sum, a_rows, b_rows, DEPTH);
    mma_each(sum, to_c);
}

/* A thread computes one number of c anew, at a random place. Tensor cores cut tf32's floats to 10
 * bits, so each product may be off by 2^-9 of its size; products and sums of the other types are
 * nearly exact. */
KERNEL check(const INPUT *a, const INPUT *b, const SUM *c, u32 *wrong)
{
    const u64 i = random_bits(100, thread_index()) % ((u64)M * N);
    double sum = 0, size = 0;

    for (u32 k = 0; k < K; k++) {
        const double product = (double)real(a[i / N * K + k]) * (double)real(b[i % N * K + k]);

        sum += product;
        size += fabs(product);
    }
    expect(wrong, is_near((double)c[i], sum, SLACK * size + 1e-6));
}
