/*
 * A whole sweep: every kernel at every point, into a file. Threads: one.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_SWEEP_RUN_H
#define LULL_LAB_SWEEP_RUN_H

#include "lab/sweep/grid.h"
#include "lab/sweep/measure.h"
#include "cli/shared/stop_signals.h"
#include "lab/core/sweep_point.h"

struct lull_sweep_requests {
    uint32_t gpu;
    struct lull_sweep_axes axes;
    struct lull_sweep_protocol protocol;
    uint32_t repeats;
    uint64_t seed;
    const char *path; /* of the table */
    bool is_resuming;
    bool is_quiet; /* no progress */
    const char *runtime_dir;
    bool no_daemon;
    char *const *command;   /* NULL: a suite */
    const char *suite_file; /* NULL: the built-in one */
};

/* The result of a sweep. */
struct lull_sweep_outcome {
    uint64_t rows;   /* of the file, those of earlier runs included */
    uint64_t marked; /* of them, those that are not valid */
    uint32_t marks[LULL_SWEEP_MARKS];
    uint32_t left_out; /* kernels that the GPU cannot run */
};

/*
 * Sweeps until all points are measured or stop is signalled. After an error the file and its
 * sidecar hold the results so far. Errors: -EINTR stopped; -EBUSY another process computes on the
 * GPU; -EINVAL the file is of another sweep; those of the parts.
 */
int lull_sweep(const struct lull_sweep_requests *requests, struct lull_stop_signals *stop,
               struct lull_sweep_outcome *outcome_out, struct lull_error *err);

#endif
