/*
 * The `lull run` under which this program runs. A program that sets power limits itself pauses it,
 * because `lull run` leases the same GPUs. Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_OWN_RUN_H
#define LULL_CLI_OWN_RUN_H

#include <stdbool.h>

#include "wire/live.h"

struct lull_own_run {
    bool is_paused; /* by this program; the run is in `file` */
    char file[LULL_LIVE_WORD_BYTES];
};

/* Pauses the run that has started this program, and waits until it has returned its leases, for two
 * seconds at most. Does nothing without such a run, and for a run that does not manage. */
void lull_own_run_pause(struct lull_own_run *run);

/* Lets the run continue, if it was paused by the function above. */
void lull_own_run_resume(struct lull_own_run *run);

#endif
