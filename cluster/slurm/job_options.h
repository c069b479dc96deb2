/*
 * Wishes: what a job's user has asked of Lull by options of Slurm, and what follows for `lull run`.
 * The texts come from users and, on the nodes, from the controller; each is checked in both places.
 *
 * Threads: any. SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef LULL_CLUSTER_SLURM_JOB_OPTIONS_H
#define LULL_CLUSTER_SLURM_JOB_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

enum { LULL_JOB_OPTIONS_TEXT = 64, LULL_JOB_OPTIONS_WORDS = 8 };

/* All zero: nothing is asked. Empty texts are not given. */
struct lull_job_options {
    bool is_given; /* there is a policy */
    unsigned policy;
    char tolerance[LULL_JOB_OPTIONS_TEXT];
    char deadline[LULL_JOB_OPTIONS_TEXT];
    char batch_job[LULL_JOB_OPTIONS_TEXT];
    bool is_schedule_given; /* is_scheduled means something */
    bool is_scheduled;      /* by lull schedule */
};

/* Returns the word of the wish's policy, or of the one that counts where none is given. */
const char *lull_job_options_policy(const struct lull_job_options *job_options);

/*
 * Take one option's text to the wish; NULL or "" is the first policy for the first of them, and yes
 * for the last. Return
 * 0; -1: it is no such text, the wish is as it was, and *expected_out says what is one.
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

/* Returns whether the job is for lull schedule; where nothing is asked that is what the site says.
 */
bool lull_job_options_is_scheduled(const struct lull_job_options *job_options, bool is_default);

/* Returns whether the job's GPUs are to be managed; without a policy that is what the site says. */
bool lull_job_options_is_on(const struct lull_job_options *job_options, bool is_default);

/* Writes the options of `lull run` that the wish comes to, at most LULL_JOB_OPTIONS_WORDS, which
 * are borrowed from the wish; returns how many. */
size_t lull_job_options_table(const struct lull_job_options *job_options,
                              const char *words_out[LULL_JOB_OPTIONS_WORDS]);

/*
 * Returns when a deadline is: a local time, YYYY-MM-DDTHH:MM[:SS], or as long after now as Slurm
 * writes times: MINUTES, MINUTES:SECONDS, HOURS:MINUTES:SECONDS, DAYS-HOURS[:MINUTES[:SECONDS]].
 * Returns 0; -1: it is neither, or lies more than ten years ahead.
 */
int lull_job_options_parse_deadline(const char *text, time_t now, time_t *deadline_out);

#endif
