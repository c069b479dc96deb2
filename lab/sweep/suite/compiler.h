/*
 * Compiles sources of a suite for a GPU by NVRTC, which is opened at run time and declared from its
 * documentation. Threads: one at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_SWEEP_SUITE_COMPILER_H
#define LULL_LAB_SWEEP_SUITE_COMPILER_H

#include "lab/sweep/suite/description.h"
#include "lab/sweep/suite/files.h"

struct lull_suite_compiler; /* opaque */

/*
 * Opens NVRTC: the file that LULL_NVRTC names, else what the system finds, else that of
 * /usr/local/cuda. Errors: LULL_E_UNSUPPORTED there is none, or it is older than 11.2; the text
 * names the package to install.
 */
int lull_suite_compiler_open(struct lull_suite_compiler **compiler_out, struct lull_error *err);
void lull_suite_compiler_close(struct lull_suite_compiler *compiler); /* NULL is allowed */

/* The result of a compilation. */
struct lull_suite_image {
    char *bytes; /* to be freed */
    size_t size;
};

/* A source with its headers and macros. */
struct lull_suite_unit {
    const struct lull_suite_file *source;
    const struct lull_suite_file *headers;
    uint32_t header_count;
    const struct lull_suite_define *defines;
    uint32_t define_count;
};

/*
 * Compiles a source with macros for a compute capability: to machine code, or, for a GPU newer than
 * NVRTC knows, to PTX, which the driver compiles. Errors: LULL_E_UNSUPPORTED NVRTC no longer knows
 * this GPU; LULL_E_FORMAT the source does not compile, with the first error; -ENOMEM.
 */
int lull_suite_compile(struct lull_suite_compiler *compiler, const struct lull_suite_unit *unit,
                       uint32_t capability, struct lull_suite_image *image_out,
                       struct lull_error *err);

#endif
