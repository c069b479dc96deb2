/*
 * Job signals: passes signals sent to `lull run` on to its job. It passes every signal that can be
 * blocked, except those raised by faults of this process. They do not end or stop this process,
 * because its exit status is the job's. The job gets the mask and the ignored signals that this
 * process inherited. No handler is installed.
 *
 * Signals from a terminal (Ctrl-C) reach the job directly, because both are in one process group.
 * TSTP, TTIN and TTOU keep their default action, because the shell also waits for this process to
 * stop.
 *
 * Threads: one owns it, and opens it before there are others, so that they block the same.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_JOB_SIGNALS_H
#define LULL_GOVERNOR_RUN_JOB_SIGNALS_H

#include <signal.h>

#include "base/error.h"
#include "base/child.h"

struct lull_job_signals {
    int fd; /* readable when there are signals to pass on */
    struct lull_child_signals inherited;
    sigset_t early; /* signals received before the job started */
};

/* Blocks the signals until the process ends, because signals after the job must not change the exit
 * status. Errors: -errno, and nothing is blocked. */
int lull_job_signals_open(struct lull_job_signals *signals, struct lull_error *err);

/* Notes the signals received so far. Call it right before the job starts; the job then gets them,
 * whatever their source. */
void lull_job_signals_await_job(struct lull_job_signals *signals);

/* Takes the pending signals, where there is no job. Returns whether one of them is to end this
 * process: SIGINT, SIGTERM, SIGHUP or SIGQUIT. */
bool lull_job_signals_ask_for_end(struct lull_job_signals *signals);

/* Passes pending signals on to the job. */
void lull_job_signals_pass_on(struct lull_job_signals *signals, const struct lull_child *job);

/* Stops passing signals. They stay blocked. */
void lull_job_signals_close(struct lull_job_signals *signals);

#endif
