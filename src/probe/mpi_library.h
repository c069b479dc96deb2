/*
 * The MPI library of the process: its functions, its handles, and the sizes of its data types.
 * Built once per MPI, for mpi_shim.c and mpi_fortran.c. Threads: any, after lull_mpi_learn_types().
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_PROBE_MPI_LIBRARY_H
#define LULL_PROBE_MPI_LIBRARY_H

#include <mpi.h>

#include <stdint.h>

/* Returns whether the process uses the MPI that this shim is of. A library of another name and ABI
 * is left to its program. */
int lull_mpi_is_own(void);

/* The function to call behind a wrapper. In a process of another MPI it is the next loaded function
 * of the name without P, which may be in the shim of that MPI. */
void *lull_mpi_next(const char *name, int is_own);

/* Learns the sizes of the predefined types. */
void lull_mpi_learn_types(int (*type_size)(MPI_Datatype type, int *bytes));

/* The size of a type; 0 for derived types, because their handles are reused and asking MPI about
 * one may raise an error. */
uint64_t lull_mpi_type_bytes(MPI_Datatype type);

/* Finds MPI_COMM_WORLD. Returns 0 if there is none. */
int lull_mpi_find_world(MPI_Comm *world_out);

/* Returns whether a library with this version text is the MPI that this shim is of. */
int lull_mpi_is_this(const char *library_version);

static inline uint64_t lull_mpi_key_of(MPI_Comm comm)
{
#ifdef OPEN_MPI
    return (uintptr_t)comm;
#else
    return (uint32_t)comm;
#endif
}

#endif
