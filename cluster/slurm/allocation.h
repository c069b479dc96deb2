/*
 * The GPUs of a job on this node, as reported by slurmd. A step's environment may be set by its
 * user, so it may only narrow them. slurmd passes the GPUs to the prolog, which stores them for the
 * steps in a folder that belongs to root.
 *
 * Threads: one. SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef LULL_CLUSTER_SLURM_ALLOCATION_H
#define LULL_CLUSTER_SLURM_ALLOCATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Keeps the GPUs of a job (numbers with commas), or, for NULL and "", that it has none, below
 * runtime_dir, which must exist. Errors: -errno. */
int lull_allocation_keep(const char *runtime_dir, uint32_t job, const char *gpus);

/* Reads the stored GPUs; gpus_out is "" if there are none, or if they do not fit. */
void lull_allocation_read(const char *runtime_dir, uint32_t job, char *gpus_out, size_t size);

/* Forgets a job. */
void lull_allocation_forget(const char *runtime_dir, uint32_t job);

/* True if every number of the list claimed is in the list allocated. Anything but numbers with
 * commas between them is not. */
bool lull_allocation_covers(const char *allocated, const char *claimed);

#endif
