/*
 * Job signals: what is sent to `lull run` is meant for its job. Every signal that can be blocked
 * and that no fault of this process raises is passed on, and ends or stops nothing here: the exit
 * status is the job's. The job gets the mask and the ignored signals that this process inherited;
 * no handler is ever installed.
 *
 * What a terminal sends (Ctrl-C) reaches the job by itself, as both are of one process group. TSTP,
 * TTIN and TTOU are left unchanged: the shell waits for this process to stop, too.
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
    int fd; /* readable when there is something to pass on */
    struct lull_child_signals inherited;
    sigset_t early; /* what had come before the job could get anything */
};

/* Blocks the signals, until the process ends: what comes after the job must not change the exit
 * status. Errors: -errno, and nothing is blocked. */
int lull_job_signals_open(struct lull_job_signals *signals, struct lull_error *err);

/* Notes what has come so far. To be called right before the job starts, which then gets it, from
 * wherever it came. */
void lull_job_signals_await_job(struct lull_job_signals *signals);

/* Passes on to the job what has come. */
void lull_job_signals_pass_on(struct lull_job_signals *signals, const struct lull_child *job);

/* Signals stay blocked, and pass nowhere any more. */
void lull_job_signals_close(struct lull_job_signals *signals);

#endif
