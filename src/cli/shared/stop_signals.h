/*
 * The signals that end programs, for commands that put something back first. Threads: one; threads
 * that are started later have them blocked. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_SHARED_STOP_SIGNALS_H
#define LULL_CLI_SHARED_STOP_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

struct lull_stop_signals {
    sigset_t signals;
    int stopped_by; /* a signal; 0: none yet */
};

/* Blocks the signals: from now on only lull_is_stopped() takes them. */
void lull_stop_signals_begin(struct lull_stop_signals *stop);

/* Returns whether one has come. */
bool lull_is_stopped(struct lull_stop_signals *stop);

#endif
