/*
 * One run of a recurring job's command: its output passes through unchanged while the metric is
 * read from it, and it is stopped when the target is reached or the run exceeds its cost limit.
 *
 * Threads: one. While it runs it receives SIGTERM, SIGINT, SIGHUP and SIGQUIT of the process and
 * passes them to the command. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_BATCH_BATCH_ATTEMPT_H
#define LULL_GOVERNOR_BATCH_BATCH_ATTEMPT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "core/tuning/cost.h"
#include "store/batch_jobs.h"
#include "governor/energy/energy_meter.h"
#include "governor/batch/metric.h"

struct lull_batch_attempt_options {
    char *const *command; /* NULL-terminated, at least one word */
    const struct lull_metric *metric;
    double target; /* up to 1: a metric printed in percent is compared as a ratio; above 1:
                      unchanged */
    bool is_lower_better;
    uint32_t max_epochs; /* values of the metric after which the run has failed; 0: no limit */
    double bound;        /* the cost that ends the run, J; INFINITY: there is none */
    struct lull_job_price price;
    int64_t grace_ns; /* between SIGTERM and SIGKILL */
};

enum lull_batch_end {
    LULL_BATCH_END_TARGET,  /* the target was reached, even if something else ended the run then */
    LULL_BATCH_END_BOUND,   /* its cost exceeded the bound */
    LULL_BATCH_END_EPOCHS,  /* the target was not reached within max_epochs values */
    LULL_BATCH_END_OWN,     /* it ended with status 0, and its metric was short of the target */
    LULL_BATCH_END_BLIND,   /* it ended with status 0, and no value of the metric was ever seen */
    LULL_BATCH_END_CRASHED, /* it ended with another status */
    LULL_BATCH_END_INTERRUPTED, /* Lull was sent a signal that ends programs */
};

struct lull_batch_attempt {
    enum lull_batch_end end;
    enum lull_batch_event event; /* the outcome for the search; LOST: its energy is unknown */
    int status;                  /* of the command; 128 + N for a signal */
    double estimated_s;          /* time in which polled power replaced an energy counter */
    char unread[LULL_METRIC_UNREAD_BYTES]; /* BLIND: the matched text, which is not a number */
    struct lull_batch_progress progress;
};

/*
 * Runs it to its end. meter counts the energy of its GPUs. NULL: the energy cannot be measured, and
 * there is no bound. jobs (may be NULL) receives the progress of that run of the job every second.
 * Errors: only if the command could not be run.
 */
int lull_batch_attempt_run(const struct lull_batch_attempt_options *options,
                           struct lull_energy_meter *meter, struct lull_batch_jobs *jobs,
                           const char *name, uint64_t run, struct lull_batch_attempt *attempt_out,
                           struct lull_error *err);

#endif
