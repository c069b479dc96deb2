/*
 * Recording MPI calls, for the wrappers of C (mpi_shim.c) and Fortran (mpi_fortran.c). Threads:
 * any; a run is each thread's own. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_PROBE_MPI_SHIM_H
#define LULL_PROBE_MPI_SHIM_H

#include "wire/event.h"

#define EXPORT __attribute__((visibility("default")))

/* Returns whether this call is to be recorded; finds the functions first. */
int lull_mpi_is_recording(void);

struct lull_event lull_mpi_new_event(enum lull_operation operation, int peer, uint64_t bytes);

/* Adds a call that began at begin_ns and ends now. With is_done the run ends; a long enough one is
 * recorded. */
void lull_mpi_add_to_run(int64_t begin_ns, int is_done);

void lull_mpi_begin_section(struct lull_event *event);
void lull_mpi_end_section(struct lull_event *event);
void lull_mpi_begin_post(struct lull_event *event);
void lull_mpi_end_post(struct lull_event *event);

/* MPI has been initialised, and is about to be finalised. */
void lull_mpi_start(void);
void lull_mpi_finish(void);

#endif
