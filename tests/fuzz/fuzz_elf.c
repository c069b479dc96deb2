/*
 * Programs whose MPI is looked for: any file may be named on a command line.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fuzz.h"

#include <stdlib.h>

#include "governor/run/mpi_flavor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum lull_mpi_flavor flavor = lull_mpi_flavor_of_elf(data, size);

    if (flavor != LULL_MPI_NONE && flavor != LULL_MPI_OPENMPI && flavor != LULL_MPI_MPICH)
        abort();
    return 0;
}
