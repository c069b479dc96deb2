/*
 * A kernel of a suite on a GPU: its module, its buffers, its launches. Threads: the one in which
 * the GPU's context is current. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_SWEEP_SUITE_PROGRAM_H
#define LULL_LAB_SWEEP_SUITE_PROGRAM_H

#include "lab/sweep/suite/compiler.h"
#include "lab/sweep/suite/cuda.h"
#include "lab/sweep/suite/ranks.h"

struct lull_suite_program {
    const struct lull_cuda *cuda;
    const struct lull_suite_kernel *kernel;
    struct lull_suite_ranks *ranks; /* of a collective; else NULL */
    void *module;
    void *functions[LULL_SUITE_MAX_LAUNCHES];
    void *check;
    cuda_address buffers[LULL_SUITE_MAX_BUFFERS];
    cuda_address counters; /* of the check */
};

/*
 * Loads a kernel from its image, allocates its buffers and fills them by the functions of the
 * module fills; ranks is NULL unless it is a collective. Borrows all until the end. Errors, after
 * which nothing is allocated: LULL_E_UNSUPPORTED there is too little memory; LULL_E_FORMAT the
 * image has no such entry; the driver's.
 */
int lull_suite_program_begin(struct lull_suite_program *program, const struct lull_cuda *cuda,
                             const struct lull_suite_kernel *kernel, struct lull_suite_ranks *ranks,
                             const void *image, void *fills, struct lull_error *err);
void lull_suite_program_end(struct lull_suite_program *program);

/* Launches the kernel once, and does not wait for it. Errors: the driver's. */
int lull_suite_program_launch(const struct lull_suite_program *program, struct lull_error *err);

/* Launches the kernel's check, to be called after the first launch, and waits. Errors: -EIO the
 * result is wrong, with the number of wrong values; the driver's. */
int lull_suite_program_check(const struct lull_suite_program *program, struct lull_error *err);

#endif
