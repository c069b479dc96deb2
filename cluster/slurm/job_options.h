/*
 * Job options: what a job's user has requested of Lull by options of Slurm, and the equivalent
 * options of `lull run`. The texts come from users and, on the nodes, from the controller; each is
 * checked in both places.
 *
 * Threads: any. SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef LULL_CLUSTER_SLURM_JOB_OPTIONS_H
#define LULL_CLUSTER_SLURM_JOB_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

enum { LULL_JOB_OPTIONS_TEXT = 64, LULL_JOB_OPTIONS_WORDS = 8 };

/* All zero: nothing is requested. Empty texts were not given. */
struct lull_job_options {
    bool is_given; /* there is a policy */
    unsigned policy;
    char tolerance[LULL_JOB_OPTIONS_TEXT];
    char deadline[LULL_JOB_OPTIONS_TEXT];
    char batch_job[LULL_JOB_OPTIONS_TEXT];
    bool is_schedule_given; /* is_scheduled means something */
    bool is_scheduled;      /* by lull-schedule */
};

/* Returns the name of the requested policy, or of the default one. */
const char *lull_job_options_policy(const struct lull_job_options *job_options);

/*
 * Apply one option's text to the job options; NULL or "" is the first policy for the first of them,
 * and yes for the last. Return 0; -1: invalid text, the job options are unchanged, and
 * *expected_out describes valid text.
 */
int lull_job_options_set_policy(struct lull_job_options *job_options, const char *text,
                                const char **expected_out);
int lull_job_options_set_tolerance(struct lull_job_options *job_options, const char *text,
                                   const char **expected_out);
int lull_job_options_set_deadline(struct lull_job_options *job_options, const char *text,
                                  const char **expected_out);
int lull_job_options_set_batch_job(struct lull_job_options *job_options, const char *text,
                                   const char **expected_out);

int lull_job_options_set_schedule(struct lull_job_options *job_options, const char *text,
                                  const char **expected_out);

/* Returns whether the job is for lull-schedule; without a request the site's setting applies. */
bool lull_job_options_is_scheduled(const struct lull_job_options *job_options, bool is_default);

/* Returns whether the job's GPUs are to be managed; without a policy the site's setting applies. */
bool lull_job_options_is_on(const struct lull_job_options *job_options, bool is_default);

/* Writes the equivalent options of `lull run`, at most LULL_JOB_OPTIONS_WORDS, borrowed from the
 * job options; returns how many. */
size_t lull_job_options_table(const struct lull_job_options *job_options,
                              const char *words_out[LULL_JOB_OPTIONS_WORDS]);

/*
 * Parses a deadline: a local time, YYYY-MM-DDTHH:MM[:SS], or a duration from now in Slurm's format:
 * MINUTES, MINUTES:SECONDS, HOURS:MINUTES:SECONDS, DAYS-HOURS[:MINUTES[:SECONDS]]. Returns 0; -1:
 * it is neither, or is more than ten years ahead.
 */
int lull_job_options_parse_deadline(const char *text, time_t now, time_t *deadline_out);

#endif
