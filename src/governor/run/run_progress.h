/*
 * The progress of a managed run: which iteration it is at, what is being learnt, about how long
 * that still takes, and what is saved so far.
 *
 * The job writes to the same terminal, and nothing tells when: whatever lull run writes onto the
 * screen may stand in the job's lines. So on a terminal progress goes to the terminal's own status
 * line, its title, and the screen is the job's. Elsewhere it is a few whole lines.
 *
 * Threads: the main thread of `lull run`. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_RUN_PROGRESS_H
#define LULL_GOVERNOR_RUN_RUN_PROGRESS_H

#include "governor/run/run_pass.h"

/* Shows the state as --progress says, if the job uses a GPU. It takes the control's lock, for as
 * long as it takes to look at what has happened since the last call. */
void lull_run_progress_show(struct lull_run_pass *pass, int64_t now_ns);

/* Gives the terminal its own title again. */
void lull_run_progress_clear(struct lull_run_pass *pass);

/* Says what the section controller does now: "trying 1230 MHz steady". To be called while the
 * control is locked, as the next. */
void lull_run_progress_describe(const struct lull_control *control, char *text, size_t size);

/* Returns what is kept now is found to save of the job's energy, as a ratio; NAN: nothing is kept,
 * or its interval does not exclude 0 yet. */
double lull_run_progress_saving(struct lull_run_pass *pass, int64_t now_ns);

#endif
