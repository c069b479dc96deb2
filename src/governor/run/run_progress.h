/*
 * The line of progress of a managed run on a terminal: which iteration it is at, what is being
 * learnt, about how long that still takes, and what is saved so far.
 *
 * Threads: the main thread of `lull run`. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_RUN_PROGRESS_H
#define LULL_GOVERNOR_RUN_RUN_PROGRESS_H

#include "governor/run/run_pass.h"

/* Rewrites the line, if standard error is a terminal and the job uses a GPU. It takes the control's
 * lock, for as long as it takes to look at what has happened since the last call. */
void lull_run_progress_show(struct lull_run_pass *pass, int64_t now_ns);

/* Takes the line away from the terminal. */
void lull_run_progress_clear(void);

/* Says what the section controller does now: "trying 1230 MHz steady". To be called while the
 * control is locked, as the next. */
void lull_run_progress_describe(const struct lull_control *control, char *text, size_t size);

/* Returns what is kept now is found to save of the job's energy, as a ratio; NAN: nothing is kept,
 * or its interval does not exclude 0 yet. */
double lull_run_progress_saving(struct lull_run_pass *pass, int64_t now_ns);

#endif
