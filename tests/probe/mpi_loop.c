/*
 * A job of MPI that goes on for so many steps: each sleeps for 20 ms, and adds up over all ranks.
 * Usage: mpi_loop STEPS. SPDX-License-Identifier: Apache-2.0
 */
#include <mpi.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    const int steps = argc > 1 ? atoi(argv[1]) : 100;
    double sum;

    MPI_Init(&argc, &argv);
    for (int i = 0; i < steps; i++) {
        const double one = 1.0;

        nanosleep(&pause, NULL);
        MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
