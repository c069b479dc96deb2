/* The command line of lull batch run, and of the job that it runs. SPDX-License-Identifier:
 * Apache-2.0 */
#ifndef LULL_CLI_BATCH_RUN_OPTIONS_H
#define LULL_CLI_BATCH_RUN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/option.h"
#include "governor/batch/batch_attempt.h"

/* How the learning rate follows the batch size b, from b0 (Zeus: sqrt for Adam and its kin, linear
 * for SGD). */
enum lull_rate_rule {
    LULL_RATE_SQRT,   /* lr sqrt(b / b0) */
    LULL_RATE_LINEAR, /* lr b / b0 */
};

struct lull_batch_run_options {
    struct lull_batch_job job; /* without what the GPUs tell */
    const char *store;         /* null: the state directory */
    const char *pattern;       /* the regular expression of the metric */
    double rate;               /* learning rate at the default size; NAN: none */
    enum lull_rate_rule rule;
    uint32_t tries; /* runs of a recurrence, at most */
    bool has_seed;
    bool is_quiet;
    char *const *command;                      /* with its places */
    struct lull_batch_attempt_options attempt; /* without command and bound */
};

/* Fill a struct lull_batch_run_options, whose rate is NAN before. */
extern const struct lull_option lull_batch_run_rows[];

/*
 * Checks what rows cannot say, and fills in what follows from other options. The caller destroys
 * attempt.metric after success. Errors: -EINVAL.
 */
int lull_batch_run_options_check(struct lull_batch_run_options *options, struct lull_error *err);

/* b, b0 > 0. */
double lull_rate_scale(enum lull_rate_rule rule, double rate, uint32_t size, uint32_t default_size);

/* The user's command with its places filled in: {batch} the batch size, {lr} the learning rate. A
 * new list with null at its end, to be freed by lull_arguments_free; null: there is no memory. */
char **lull_arguments_fill(char *const *command, uint32_t size, double rate);

/* Null is allowed. */
void lull_arguments_free(char **arguments);

/* Where jobs are kept; null: in the state directory. */
#define LULL_BATCH_STORE_ROW(OBJECT, FIELD)                                                        \
    LULL_VALUE("store", "WHERE", TEXT, OBJECT, FIELD,                                              \
               "Keep what is known of jobs in this directory, or in a database that nodes share: " \
               "postgresql://...",                                                                 \
               .hint = LULL_OPTION_FOLDER, .environment = "LULL_BATCH_STORE",                      \
               .otherwise = "the state directory",                                                 \
               .more = "The state directory is $LULL_STATE_DIR; else, for root, /var/lib/lull; "   \
                       "else $XDG_STATE_HOME/lull or ~/.local/state/lull.")

#endif
