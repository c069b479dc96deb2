/*
 * Compute runs: kernels that follow each other closely, or overlap, count as one interval of
 * computation. Kernels come in roughly by time; runs go out in order, up to a time that the caller
 * knows to be complete.
 *
 * Fixed memory, no allocation; plain struct, zeroed before the first use. One thread at a time.
 * Times: int64_t ns of one clock. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_PROBE_COMPUTE_RUNS_H
#define LULL_PROBE_COMPUTE_RUNS_H

#include <stdint.h>

enum {
    LULL_COMPUTE_RUNS = 4096,        /* the most that are kept at once */
    LULL_COMPUTE_GAP_NS = 20 * 1000, /* kernels that are closer than this form one run; */
};

struct lull_compute_run {
    int64_t begin_ns;
    int64_t end_ns;
    uint64_t kernels;
};

struct lull_compute_runs {
    struct lull_compute_run
        runs[LULL_COMPUTE_RUNS]; /* in the order of time, at least the gap apart */
    uint32_t count;
    uint64_t dropped; /* number of kernels for which there was no room */
};

/*
 * Adds one kernel; it joins the runs that it touches or lies close to. Linear in the number of runs
 * that begin later. A kernel that ends before it begins is skipped.
 */
void lull_compute_runs_add(struct lull_compute_runs *runs, int64_t begin_ns, int64_t end_ns);

/* Returns the number of runs that began before a time; they are the first ones of runs[]. */
uint32_t lull_compute_runs_before(const struct lull_compute_runs *runs, int64_t before_ns);

/* Forgets the `count` oldest runs. A kernel that would have joined one of them becomes a run of its
 * own. */
void lull_compute_runs_forget(struct lull_compute_runs *runs, uint32_t count);

#endif
