/*
 * Independent timer of MPI communication, to compare the shim with. Shares no code with it: each
 * MPI function is found by dlsym(RTLD_NEXT), so it may stand before the shim in the same run.
 * Prints, at MPI_Finalize, one line per rank to the file named by MPI_TIMER_OUTPUT:
 *   rank seconds communication_seconds polling_seconds
 * Only the functions that hpcc and LAMMPS import. SPDX-License-Identifier: Apache-2.0
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "emulated_cuda.h"

static double started;
static double communicating;
static double polling;

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

#define TIMED(sum, name, parameters, arguments)                                                    \
    int MPI_##name parameters                                                                      \
    {                                                                                              \
        static int(*next) parameters;                                                              \
        double begin;                                                                              \
        int result;                                                                                \
                                                                                                   \
        if (next == NULL)                                                                          \
            *(void **)&next = dlsym(RTLD_NEXT, "MPI_" #name);                                      \
        begin = now();                                                                             \
        result = next arguments;                                                                   \
        sum += now() - begin;                                                                      \
        return result;                                                                             \
    }

#define C communicating
#define IN const void *a, int n, MPI_Datatype t
#define OUT void *b, int m, MPI_Datatype u

TIMED(C, Allreduce, (const void *a, void *b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c),
      (a, b, n, t, o, c))
TIMED(C, Reduce, (const void *a, void *b, int n, MPI_Datatype t, MPI_Op o, int r, MPI_Comm c),
      (a, b, n, t, o, r, c))
TIMED(C, Reduce_scatter,
      (const void *a, void *b, const int n[], MPI_Datatype t, MPI_Op o, MPI_Comm c),
      (a, b, n, t, o, c))
TIMED(C, Scan, (const void *a, void *b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c),
      (a, b, n, t, o, c))
TIMED(C, Exscan, (const void *a, void *b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c),
      (a, b, n, t, o, c))
TIMED(C, Allgather, (IN, OUT, MPI_Comm c), (a, n, t, b, m, u, c))
TIMED(C, Allgatherv, (IN, void *b, const int m[], const int d[], MPI_Datatype u, MPI_Comm c),
      (a, n, t, b, m, d, u, c))
TIMED(C, Gather, (IN, OUT, int r, MPI_Comm c), (a, n, t, b, m, u, r, c))
TIMED(C, Gatherv, (IN, void *b, const int m[], const int d[], MPI_Datatype u, int r, MPI_Comm c),
      (a, n, t, b, m, d, u, r, c))
TIMED(C, Scatter, (IN, OUT, int r, MPI_Comm c), (a, n, t, b, m, u, r, c))
TIMED(C, Scatterv,
      (const void *a, const int n[], const int d[], MPI_Datatype t, OUT, int r, MPI_Comm c),
      (a, n, d, t, b, m, u, r, c))
TIMED(C, Bcast, (OUT, int r, MPI_Comm c), (b, m, u, r, c))
TIMED(C, Alltoall, (IN, OUT, MPI_Comm c), (a, n, t, b, m, u, c))
TIMED(C, Alltoallv,
      (const void *a, const int n[], const int d[], MPI_Datatype t, void *b, const int m[],
       const int e[], MPI_Datatype u, MPI_Comm c),
      (a, n, d, t, b, m, e, u, c))
TIMED(C, Barrier, (MPI_Comm c), (c))
TIMED(C, Send, (IN, int d, int g, MPI_Comm c), (a, n, t, d, g, c))
TIMED(C, Ssend, (IN, int d, int g, MPI_Comm c), (a, n, t, d, g, c))
TIMED(C, Rsend, (IN, int d, int g, MPI_Comm c), (a, n, t, d, g, c))
TIMED(C, Isend, (IN, int d, int g, MPI_Comm c, MPI_Request *q), (a, n, t, d, g, c, q))
TIMED(C, Recv, (OUT, int s, int g, MPI_Comm c, MPI_Status *x), (b, m, u, s, g, c, x))
TIMED(C, Irecv, (OUT, int s, int g, MPI_Comm c, MPI_Request *q), (b, m, u, s, g, c, q))
TIMED(C, Sendrecv, (IN, int d, int g, OUT, int s, int h, MPI_Comm c, MPI_Status *x),
      (a, n, t, d, g, b, m, u, s, h, c, x))
TIMED(C, Wait, (MPI_Request * q, MPI_Status *x), (q, x))
TIMED(C, Waitall, (int n, MPI_Request q[], MPI_Status x[]), (n, q, x))
TIMED(C, Waitany, (int n, MPI_Request q[], int *i, MPI_Status *x), (n, q, i, x))
TIMED(C, Waitsome, (int n, MPI_Request q[], int *k, int i[], MPI_Status x[]), (n, q, k, i, x))
TIMED(C, Probe, (int s, int g, MPI_Comm c, MPI_Status *x), (s, g, c, x))
TIMED(polling, Iprobe, (int s, int g, MPI_Comm c, int *f, MPI_Status *x), (s, g, c, f, x))
TIMED(polling, Test, (MPI_Request * q, int *f, MPI_Status *x), (q, f, x))
TIMED(polling, Testany, (int n, MPI_Request q[], int *i, int *f, MPI_Status *x), (n, q, i, f, x))
TIMED(polling, Testall, (int n, MPI_Request q[], int *f, MPI_Status x[]), (n, q, f, x))
TIMED(polling, Testsome, (int n, MPI_Request q[], int *k, int i[], MPI_Status x[]), (n, q, k, i, x))

static void begin(void)
{
    int rank = 0;

    started = now();
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    /* It is seen on its GPU before it communicates: events of before may be too many to be kept. */
    if (emulated_cuda_take(rank))
        usleep(500000);
}

int MPI_Init(int *argc, char ***argv)
{
    int (*next)(int *, char ***);
    int result;

    *(void **)&next = dlsym(RTLD_NEXT, "MPI_Init");
    result = next(argc, argv);
    begin();
    return result;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    int (*next)(int *, char ***, int, int *);
    int result;

    *(void **)&next = dlsym(RTLD_NEXT, "MPI_Init_thread");
    result = next(argc, argv, required, provided);
    begin();
    return result;
}

int MPI_Finalize(void)
{
    const double seconds = now() - started;
    const char *output = getenv("MPI_TIMER_OUTPUT");
    FILE *file = output != NULL ? fopen(output, "a") : NULL;
    int (*next)(void);
    int rank = -1;

    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (file != NULL) {
        fprintf(file, "%d %.6f %.6f %.6f\n", rank, seconds, communicating + polling, polling);
        fclose(file);
    }
    *(void **)&next = dlsym(RTLD_NEXT, "MPI_Finalize");
    return next();
}
