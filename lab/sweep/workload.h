/*
 * Workloads: the kernels that `lull sweep --suite` keeps a GPU busy with, one kind of suite per
 * table of functions. The sweep sets the operating points and reads the GPU; a workload only runs
 * kernels and reports their number and duration.
 *
 * A workload is opened once in a sweep. Its kernels are then started, run and stopped many times,
 * in a random order, at most one at a time: start, run, run, ..., stop, start, ...
 *
 * Threads: all calls for a workload come from one thread, which does nothing else. Another thread
 * reads the GPU meanwhile. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_SWEEP_WORKLOAD_H
#define LULL_LAB_SWEEP_WORKLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* The GPU and the source of a workload; borrowed during the open. */
struct lull_workload_place {
    uint32_t gpu;     /* as `lull gpus` numbers it */
    const char *uuid; /* the same GPU by its UUID, as the driver writes it: CUDA may number GPUs
                       * in another order */
    const char *file; /* the suite's description; NULL: the built-in one */
    double slice_s; /* the duration of each run that the sweep will request, for choices of size */
    char *const *command; /* of a command line that is swept, null-terminated; NULL: a suite */
};

/* A kernel as the columns kernel and arg of the dataset name it; borrowed until the close. */
struct lull_workload_kernel {
    const char *kernel; /* unique together with arg; letters, digits, '_', '-', '.' */
    const char *arg;    /* its size or type, such as "bf16_8192"; "": there is none */
};

/* The result of a run. The seconds count from before the first launch to the end of the last one
 * and are those of the GPU's world: CLOCK_MONOTONIC, or the emulated node's clock. */
struct lull_workload_run {
    uint64_t launches; /* > 0 */
    double seconds;    /* > 0 */
};

/* A kind of workloads. An opened one is a pointer of the kind's own. */
struct lull_workload_kind {
    const char *name;   /* the column suite, such as "cuda" or "emulated" */
    bool has_idle_ends; /* a run is a whole process, so the GPU idles at its begin and
                         * end; such runs are measured as a whole */

    /*
     * Opens the suite on a GPU. Errors: LULL_E_UNSUPPORTED this kind is not available here (no
     * emulated node, no CUDA driver), so that the sweep continues to the next kind; LULL_E_FORMAT
     * the file is wrong; -ENOENT; -ENOMEM; the text says what to do.
     */
    int (*open)(const struct lull_workload_place *place, void **workload_out,
                struct lull_error *err);

    /* Returns how many kernels there are, at least 1 and the same until the close. */
    uint32_t (*count)(const void *workload);

    /* Returns the kernel of this index. */
    struct lull_workload_kernel (*kernel)(const void *workload, uint32_t index);

    /*
     * Prepares a kernel: compiles it, allocates and fills its data, launches it once. Errors, after
     * which it holds no resources: LULL_E_UNSUPPORTED this GPU cannot run it (no fp8, too little
     * memory, one GPU where two are needed), so the sweep skips it and reports why; others end the
     * sweep.
     */
    int (*start)(void *workload, uint32_t index, struct lull_error *err);

    /*
     * Launches the started kernel back to back for about this long, at least once, and returns when
     * the last launch has ended: the GPU must not idle in between for more than a few
     * microseconds. A kernel that takes longer than seconds runs once. Errors: the GPU's.
     */
    int (*run)(void *workload, double seconds, struct lull_workload_run *run_out,
               struct lull_error *err);

    /* Makes a run end early, and every later one at once with -EINTR; called from another
     * thread. NULL: runs never exceed the requested time. */
    void (*cancel)(void *workload);

    /* Frees what start allocated. Does nothing without a started kernel. */
    void (*stop)(void *workload);

    /* Stops and frees everything; NULL is allowed. */
    void (*close)(void *workload);
};

/* Kernels of the emulated node, whose times and powers follow the emulated GPU. */
extern const struct lull_workload_kind lull_emulated_workload;

/* A command line, each run of which is a launch unless it reports another number
 * (lull-sweep(1)). */
extern const struct lull_workload_kind lull_command_workload;

#endif
