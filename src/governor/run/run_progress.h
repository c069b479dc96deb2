/*
 * The progress of a managed run: the current iteration, what is being measured, an estimate of the
 * remaining time, and the saving so far.
 *
 * The job writes to the same terminal at unknown times, so output on the screen could end up within
 * the job's lines. On a terminal, progress therefore goes to the terminal's title. Elsewhere it is
 * a few whole lines.
 *
 * Threads: the main thread of `lull run`. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_RUN_PROGRESS_H
#define LULL_GOVERNOR_RUN_RUN_PROGRESS_H

#include "governor/run/run_pass.h"

/* Shows the state in the form of --progress, if the job uses a GPU. It holds the control's lock
 * while it processes the events since the last call. */
void lull_run_progress_show(struct lull_run_pass *pass, int64_t now_ns);

/* Gives the terminal its own title again. */
void lull_run_progress_clear(struct lull_run_pass *pass);

/* Writes what the section controller does now: "trying 1230 MHz steady". To be called while the
 * control is locked, as the next. */
void lull_run_progress_describe(const struct lull_control *control, char *text, size_t size);

/* Returns the measured saving of the accepted clocks as a ratio of the job's energy. NAN: none is
 * accepted, or the interval does not exclude 0 yet. */
double lull_run_progress_saving(struct lull_run_pass *pass, int64_t now_ns);

/* Measures the energy of the power profile while it is tested; call it once a second, unlocked. */
void lull_run_progress_measure_profile(struct lull_run_pass *pass, int64_t now_ns);

#endif
