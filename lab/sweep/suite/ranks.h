/*
 * Collectives of NCCL over all GPUs that CUDA shows, in one process: rank 0 is the GPU that is
 * measured. NCCL is opened at run time and declared from its documentation. Threads: that of the
 * GPU's context. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_SWEEP_SUITE_RANKS_H
#define LULL_LAB_SWEEP_SUITE_RANKS_H

#include "lab/sweep/suite/cuda.h"
#include "lab/sweep/suite/description.h"

enum { LULL_SUITE_MAX_RANKS = 64 };

struct lull_suite_ranks; /* opaque */

/*
 * Opens NCCL (LULL_NCCL names another file) and a communicator of all GPUs; borrows cuda until the
 * close. Errors: LULL_E_UNSUPPORTED there is one GPU, or no NCCL; -ENOMEM; those of CUDA and NCCL.
 */
int lull_suite_ranks_open(const struct lull_cuda *cuda, struct lull_suite_ranks **ranks_out,
                          struct lull_error *err);
void lull_suite_ranks_close(struct lull_suite_ranks *ranks); /* NULL is allowed */

/* Returns the number of GPUs, 2 to LULL_SUITE_MAX_RANKS. */
uint32_t lull_suite_ranks_count(const struct lull_suite_ranks *ranks);

/* Gives the other ranks buffers like those two of rank 0, with the same contents. Errors, after
 * which they have no buffers: those of CUDA. */
int lull_suite_ranks_begin(struct lull_suite_ranks *ranks, const struct lull_suite_kernel *kernel,
                           const cuda_address buffers[2], struct lull_error *err);
void lull_suite_ranks_end(struct lull_suite_ranks *ranks);

/* Launches the collective on all ranks, from the first buffers to the second. Errors: those of
 * NCCL. */
int lull_suite_ranks_launch(const struct lull_suite_ranks *ranks,
                            const struct lull_suite_kernel *kernel, struct lull_error *err);

#endif
