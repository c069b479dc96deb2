/*
 * Which MPI a command uses, and so which shim fits. Reads files only; starts nothing.
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_MPI_FLAVOR_H
#define LULL_GOVERNOR_RUN_MPI_FLAVOR_H

#include <stddef.h>

enum lull_mpi_flavor {
    LULL_MPI_NONE = 0, /* no sign of MPI, or an MPI that no shim fits */
    LULL_MPI_OPENMPI,
    LULL_MPI_MPICH, /* MPICH and what shares its ABI: libmpi.so.12 */
};

/*
 * Looks at each program that the command names, in order (program.h): first for a word whose ELF
 * file needs an MPI library, itself or through a library that it needs; failing that, for a
 * launcher (mpirun, mpiexec, srun) whose resolved name tells the MPI. Programs take precedence over
 * launchers: they are what the shim is loaded into. argv ends with NULL. Of scripts, those of a
 * shell are looked into.
 */
enum lull_mpi_flavor lull_mpi_flavor_of_command(char *const argv[]);

/*
 * Looks at the bytes of one 64-bit little-endian ELF file, without the libraries that it needs.
 * Anything else, and anything damaged, is LULL_MPI_NONE.
 */
enum lull_mpi_flavor lull_mpi_flavor_of_elf(const void *data, size_t size);

#endif
