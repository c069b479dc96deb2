/*
 * Profiling: which clock the next iteration of a running pipeline is to be measured at, and what
 * was found: the least energy of each stage (its *valley*), from whole iterations in which every
 * GPU stays at one clock.
 *
 *   sweep   measures every clock from the highest down, for some iterations each (EnvPipe,
 *           ATC'23: 6)
 *   search  finds the same valley from a third of those iterations at most: it measures a few
 *           clocks over the whole range a few times, those around the best one, and the best of
 *           these as often as the sweep does
 *
 * Of more than three values of a clock those further than a standard deviation from their mean are
 * dropped, as EnvPipe does. Energies may bend either way between clocks (measured ones do); the
 * search only takes for granted that what is least lies next to what is least of the coarse look.
 *
 * Pure; create/destroy; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_FOLLOW_PROFILING_H
#define LULL_CORE_PIPELINE_FOLLOW_PROFILING_H

#include <stdbool.h>
#include <stdint.h>

enum lull_profiling_method { LULL_PROFILING_SWEEP, LULL_PROFILING_SEARCH };

/* Energy and times of a stage at one clock: means over the iterations that were not dropped. */
struct lull_profiling_mean {
    uint32_t count; /* of iterations; 0: it was never measured */
    double energy_j;
    double forward_ms;
    double backward_ms;
};

/* Energy and times of a stage in one iteration: the energy of its GPUs, mean lengths of its
 * operations. */
struct lull_profiling_sample {
    double energy_j;
    double forward_ms;
    double backward_ms;
};

struct lull_profiling;

/*
 * Clocks are numbered from the highest, 0, down; clock_count >= 1, stage_count >= 1, iterations per
 * clock of the sweep >= 1. null: out of memory.
 */
struct lull_profiling *lull_profiling_create(enum lull_profiling_method method,
                                             uint32_t clock_count, uint32_t stage_count,
                                             uint32_t iterations);
void lull_profiling_destroy(struct lull_profiling *profiling);

/* Finds the clock that the next iteration is to run at. Returns false once all is known. */
bool lull_profiling_next(struct lull_profiling *profiling, uint32_t *clock_out);

/* Takes what an iteration at a clock has measured: a sample of each stage. Any clock may be given.
 */
void lull_profiling_take(struct lull_profiling *profiling, uint32_t clock,
                         const struct lull_profiling_sample *samples);

/* Number of iterations taken so far. */
uint32_t lull_profiling_iterations(const struct lull_profiling *profiling);

/* Returns the means of a stage over the iterations at a clock; their count is 0 if there were none.
 */
struct lull_profiling_mean lull_profiling_mean(const struct lull_profiling *profiling,
                                               uint32_t stage, uint32_t clock);

#endif
