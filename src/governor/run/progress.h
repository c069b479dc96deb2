/*
 * One line on a terminal that says how far a run is. Nothing where stderr is no terminal.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_PROGRESS_H
#define LULL_GOVERNOR_RUN_PROGRESS_H

#include "governor/control/control.h"

/* Rewrites the line; takes the control's lock. what: "unmanaged", "managed". */
void lull_progress_show(struct lull_control *control, const char *what);

/* Clears the line. */
void lull_progress_end(void);

#endif
