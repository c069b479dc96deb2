/*
 * Calls every MPI function that the shim wraps, on two ranks, and prints checksums of the results:
 * the same with and without the shim. Also uses a communicator, frees it, and uses another.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emulated_cuda.h"

enum { INTS = 64 };

static int rank;
static int out[INTS];
static int in[INTS];
static MPI_Comm world;
static MPI_Comm ring;

static void clear(void)
{
    for (int i = 0; i < INTS; i++) {
        out[i] = 1000 * (rank + 1) + i;
        in[i] = -1;
    }
}

static void report(const char *name)
{
    unsigned sum = 0;

    for (int i = 0; i < INTS; i++)
        sum = sum * 31u + (unsigned)in[i];
    printf("rank %d %s %u\n", rank, name, sum);
}

#define COUNT int
#define DISPLACEMENT int
#define F(name) MPI_##name
#define FLAVOR(name) small_##name
#include "mpi_calls_body.h"
#if MPI_VERSION >= 4
#undef COUNT
#undef DISPLACEMENT
#undef F
#undef FLAVOR
#define COUNT MPI_Count
#define DISPLACEMENT MPI_Aint
#define F(name) MPI_##name##_c
#define FLAVOR(name) large_##name
#include "mpi_calls_body.h"
#endif

static void waits(void)
{
    const int other = 1 - rank;
    MPI_Request requests[4];
    int indices[4];
    int found;
    int index;

    clear();
    for (int way = 0; way < 4; way++) {
        for (int i = 0; i < 2; i++) {
            MPI_Irecv(in + 4 * i, 4, MPI_INT, other, i, world, &requests[i]);
            MPI_Isend(out, 4, MPI_INT, other, i, world, &requests[2 + i]);
        }
        if (way == 1)
            MPI_Waitany(4, requests, &index, MPI_STATUS_IGNORE);
        if (way == 2)
            MPI_Waitsome(4, requests, &found, indices, MPI_STATUSES_IGNORE);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    }
    report("waits");
}

static void tests(void)
{
    const int other = 1 - rank;
    MPI_Message message;
    MPI_Request requests[2];
    int indices[2];
    int index;
    int flag = 0;

    clear();
    for (int way = 0; way < 4; way++) {
        MPI_Irecv(in, 4, MPI_INT, other, way, world, &requests[0]);
        MPI_Barrier(world);
        MPI_Isend(out, 4, MPI_INT, other, way, world, &requests[1]);
        for (flag = 0; flag == 0;) {
            if (way == 0)
                MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
            else if (way == 1)
                MPI_Testany(2, requests, &index, &flag, MPI_STATUS_IGNORE);
            else if (way == 2)
                MPI_Testsome(2, requests, &flag, indices, MPI_STATUSES_IGNORE);
            else
                MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
        }
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    report("tests");
    MPI_Isend(out, 4, MPI_INT, other, 20, world, &requests[0]);
    MPI_Isend(out, 4, MPI_INT, other, 21, world, &requests[1]);
    for (flag = 0; flag == 0;)
        MPI_Iprobe(other, 20, world, &flag, MPI_STATUS_IGNORE);
    MPI_Probe(other, 20, world, MPI_STATUS_IGNORE);
    MPI_Recv(in, 4, MPI_INT, other, 20, world, MPI_STATUS_IGNORE);
    for (flag = 0; flag == 0;)
        MPI_Improbe(other, 21, world, &flag, &message, MPI_STATUS_IGNORE);
    MPI_Mrecv(in, 4, MPI_INT, &message, MPI_STATUS_IGNORE);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    report("probes");
}

static void persistent(void)
{
    const int other = 1 - rank;
    MPI_Request requests[2];

    clear();
    MPI_Recv_init(in, 4, MPI_INT, other, 0, world, &requests[0]);
    MPI_Send_init(out, 4, MPI_INT, other, 0, world, &requests[1]);
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Start(&requests[0]);
    MPI_Start(&requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    report("persistent");
}

static void communicators(void)
{
    MPI_Request request;
    MPI_Comm copy;

    for (int i = 0; i < 300; i++) {
        MPI_Comm_dup(world, &copy);
        MPI_Barrier(copy);
        if (i % 2 == 0)
            MPI_Comm_free(&copy);
        else
            MPI_Comm_disconnect(&copy);
    }
    MPI_Ibarrier(world, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    report("communicators");
}

int main(int argc, char **argv)
{
    static char buffer[1 << 16];
    const int periodic = 1;
    const int ranks = 2;
    void *detached;
    int size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    /* It lives long enough to be seen there. */
    if (emulated_cuda_take(rank))
        usleep(500000);
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Cart_create(world, 1, &ranks, &periodic, 0, &ring);
    MPI_Buffer_attach(buffer, sizeof(buffer));
    small_collectives();
    small_sends();
    small_exchanges();
#if MPI_VERSION >= 4
    large_collectives();
    large_sends();
    large_exchanges();
#endif
    waits();
    tests();
    persistent();
    communicators();
    MPI_Buffer_detach(&detached, &size);
    MPI_Comm_free(&ring);
    MPI_Finalize();
    return 0;
}
