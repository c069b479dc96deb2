/*
 * The description of a suite of kernels, such as data/kernels/suite.conf: what
 * data/kernels/README.md explains, as numbers. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_SWEEP_SUITE_DESCRIPTION_H
#define LULL_LAB_SWEEP_SUITE_DESCRIPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    LULL_SUITE_MAX_KERNELS = 1024,
    LULL_SUITE_MAX_SIZES = 12,
    LULL_SUITE_MAX_DEFINES = 8,
    LULL_SUITE_MAX_BUFFERS = 8,
    LULL_SUITE_MAX_LAUNCHES = 8,
    LULL_SUITE_MIN_CAPABILITY = 70,
};

/* A function on the GPU, and how it is launched. */
struct lull_suite_launch {
    const char *entry; /* its name in the source */
    uint32_t grid[3];  /* blocks; > 0 */
    uint32_t block[3]; /* threads; > 0, at most 1024 together */
    uint32_t shared;   /* bytes of shared memory that are requested at the launch */
    uint32_t buffer_count;
    uint32_t buffers[LULL_SUITE_MAX_BUFFERS]; /* its arguments, numbers of buffers */
};

struct lull_suite_buffer {
    const char *name;
    const char *type; /* such as "bf16" */
    const char *fill; /* initial contents: FILL_TYPE of fill.cu makes them; NULL: zeros */
    uint64_t count;   /* of elements; > 0 */
    uint64_t bytes;   /* of all elements */
};

/* A macro of the source. */
struct lull_suite_define {
    const char *name;
    const char *value;
};

/* The NCCL operation on a buffer of each GPU, instead of launches. */
enum lull_suite_collective {
    LULL_SUITE_NO_COLLECTIVE,
    LULL_SUITE_ALL_REDUCE,
    LULL_SUITE_ALL_GATHER,
    LULL_SUITE_REDUCE_SCATTER,
    LULL_SUITE_BROADCAST,
};

struct lull_suite_kernel {
    const char *name; /* unique together with arg */
    const char *arg;  /* "": none */
    uint32_t line;    /* its first line */
    const char *source;
    uint32_t capability; /* least compute capability, 80 for 8.0 */
    uint32_t define_count;
    struct lull_suite_define defines[LULL_SUITE_MAX_SIZES + LULL_SUITE_MAX_DEFINES];
    uint32_t buffer_count;
    struct lull_suite_buffer buffers[LULL_SUITE_MAX_BUFFERS];
    uint32_t launch_count; /* one after another; together they are one launch of the kernel */
    struct lull_suite_launch launches[LULL_SUITE_MAX_LAUNCHES];
    struct lull_suite_launch check; /* its last argument points to two counters: of wrong values,
                                       and of checked values */
    enum lull_suite_collective collective; /* of buffers 0 to 1; then there are no launches */
    uint64_t bytes;                        /* of memory, per launch; at least, caches being ideal */
    uint64_t flops;                        /* operations on numbers, per launch */
};

struct lull_suite; /* opaque; its strings live as long */

/*
 * Reads a description of size bytes; name is for messages. Errors: LULL_E_FORMAT with name, line
 * and field, and what to write instead; -ENOMEM.
 */
int lull_suite_read(const char *name, const char *text, size_t size, struct lull_suite **suite_out,
                    struct lull_error *err);
void lull_suite_destroy(struct lull_suite *suite); /* NULL is allowed */

/* Returns how many kernels there are, at least one. */
uint32_t lull_suite_count(const struct lull_suite *suite);
const struct lull_suite_kernel *lull_suite_kernel_at(const struct lull_suite *suite,
                                                     uint32_t index);

#endif
