/*
 * Measures the time of a cheap MPI call; to be run with and without the shim (bench_mpi.py): prints
 * the median over rounds of an MPI_Barrier on MPI_COMM_SELF, an MPI_Allreduce there, and two
 * clock_gettime. SPDX-License-Identifier: Apache-2.0
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 201, CALLS = 500, KINDS = 3 };

static double now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void call(int kind)
{
    struct timespec now;
    int in = 1;
    int out = 0;

    if (kind == 0) {
        MPI_Barrier(MPI_COMM_SELF);
    } else if (kind == 1) {
        MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    } else {
        clock_gettime(CLOCK_MONOTONIC, &now);
        clock_gettime(CLOCK_MONOTONIC, &now);
    }
}

static int by_value(const void *a, const void *b)
{
    const double left = *(const double *)a;
    const double right = *(const double *)b;

    return (left > right) - (left < right);
}

int main(int argc, char **argv)
{
    static double times_ns[KINDS][ROUNDS];

    MPI_Init(&argc, &argv);
    for (int round = 0; round < ROUNDS; round++)
        for (int kind = 0; kind < KINDS; kind++) {
            const double begin_ns = now_ns();

            for (int i = 0; i < CALLS; i++)
                call(kind);
            times_ns[kind][round] = (now_ns() - begin_ns) / CALLS;
            usleep(500); /* gives the reader time to empty the ring */
        }
    for (int kind = 0; kind < KINDS; kind++) {
        qsort(times_ns[kind], ROUNDS, sizeof(double), by_value);
        printf("%s%.2f", kind > 0 ? " " : "bench ", times_ns[kind][ROUNDS / 2]);
    }
    printf("\n");
    MPI_Finalize();
    return 0;
}
