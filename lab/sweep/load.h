/*
 * Load on the GPU while it is measured: a thread of its own runs a workload repeatedly, from its
 * beginning to its end, and records each run.
 *
 * Threads: one owner calls these functions. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_SWEEP_LOAD_H
#define LULL_LAB_SWEEP_LOAD_H

#include <stdbool.h>

#include "lab/sweep/time.h"
#include "lab/sweep/workload.h"

/* A run that has ended. */
struct lull_sweep_run {
    double begin_s; /* of the sweep's time */
    double end_s;
    struct lull_workload_run run;
};

struct lull_sweep_load; /* opaque */

/* Called at intervals while one of these functions waits for the thread. */
struct lull_sweep_meanwhile {
    void (*call)(void *context);
    void *context;
};

/* Opens a workload on a thread of its own; borrows time until the close. Errors: those of the
 * kind's open; -EAGAIN no thread. */
int lull_sweep_load_open(const struct lull_workload_kind *kind,
                         const struct lull_workload_place *place,
                         const struct lull_sweep_time *time,
                         const struct lull_sweep_meanwhile *meanwhile,
                         struct lull_sweep_load **load_out, struct lull_error *err);
void lull_sweep_load_close(struct lull_sweep_load *load); /* NULL is allowed */

const struct lull_workload_kind *lull_sweep_load_kind(const struct lull_sweep_load *load);
uint32_t lull_sweep_load_count(const struct lull_sweep_load *load);
struct lull_workload_kernel lull_sweep_load_kernel(const struct lull_sweep_load *load,
                                                   uint32_t index);

/* Starts a kernel, after stopping another. Errors: those of the kind's start. */
int lull_sweep_load_start(struct lull_sweep_load *load, uint32_t index, struct lull_error *err);

/* Start running it repeatedly, which returns at once; stop
 * after the current run. Both are idempotent. */
void lull_sweep_load_begin(struct lull_sweep_load *load);
void lull_sweep_load_end(struct lull_sweep_load *load);

/* Returns whether no run is under way or pending. */
bool lull_sweep_load_is_idle(struct lull_sweep_load *load);

/* Lets a run that is under way end early, if the kind can; nothing but end and close may follow. */
void lull_sweep_load_cancel(struct lull_sweep_load *load);

/* Takes the earliest run that was not taken. 1: there was one; 0: none. Errors: those of the run
 * that failed, after which the load is idle. */
int lull_sweep_load_take(struct lull_sweep_load *load, struct lull_sweep_run *run_out,
                         struct lull_error *err);

#endif
