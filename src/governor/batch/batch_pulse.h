/*
 * Tells the store every second how far a run has come, from a thread of its own: a store that is
 * slow to answer must not hold up the job's output. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_BATCH_BATCH_PULSE_H
#define LULL_GOVERNOR_BATCH_BATCH_PULSE_H

#include "base/error.h"
#include "store/batch_jobs.h"

struct lull_batch_pulse;

/* Begins. Borrows jobs, which nobody else uses meanwhile, and name until the end. NULL: no thread
 * could be had; the run then goes on without. */
struct lull_batch_pulse *lull_batch_pulse_begin(struct lull_batch_jobs *jobs, const char *name,
                                                uint64_t run);

/* Sets what is told next; returns at once. NULL is allowed. */
void lull_batch_pulse_set(struct lull_batch_pulse *pulse,
                          const struct lull_batch_progress *progress);

/* Ends it; jobs is the caller's again. NULL is allowed. */
void lull_batch_pulse_end(struct lull_batch_pulse *pulse);

#endif
