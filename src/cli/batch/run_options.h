/* The options of `lull batch run`, and the command line of the job that it runs.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_CLI_BATCH_RUN_OPTIONS_H
#define LULL_CLI_BATCH_RUN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/option.h"
#include "governor/batch/batch_attempt.h"

/* Rule by which the learning rate follows the batch size b, from b0 (Zeus: sqrt for Adam and its
 * kin, linear for SGD). */
enum lull_rate_rule {
    LULL_RATE_SQRT,   /* lr sqrt(b / b0) */
    LULL_RATE_LINEAR, /* lr b / b0 */
};

struct lull_batch_run_options {
    struct lull_batch_job job; /* its GPUs are filled in when they are opened */
    const char *store;         /* null: the state directory */
    const char *pattern;       /* the regular expression of the metric */
    double rate;               /* learning rate at the default size; NAN: none */
    enum lull_rate_rule rule;
    uint32_t tries; /* the most runs of one recurrence */
    bool has_seed;
    bool is_quiet;
    char *const *command; /* with {batch} and {lr} in it */
    struct lull_batch_attempt_options
        attempt; /* its command and bound are filled in for each run */
};

/* The rows that fill a struct lull_batch_run_options; its rate must be NAN before. */
extern const struct lull_option lull_batch_run_rows[];

/* Checks the options against each other, which rows cannot do, and fills in what follows from them.
 * The caller destroys attempt.metric after success. Errors: -EINVAL. */
int lull_batch_run_options_check(struct lull_batch_run_options *options, struct lull_error *err);

/* Returns the learning rate for a batch size; both sizes are above 0. */
double lull_rate_scale(enum lull_rate_rule rule, double rate, uint32_t size, uint32_t default_size);

/* Returns the user's command with {batch} replaced by the batch size and {lr} by the learning rate,
 * as a new list with null at its end, which lull_arguments_free frees. Null: out of memory. */
char **lull_arguments_fill(char *const *command, uint32_t size, double rate);

/* Frees a list of lull_arguments_fill; null is allowed. */
void lull_arguments_free(char **arguments);

/* The option that says where jobs are kept; its field is null for the state directory. */
#define LULL_BATCH_STORE_ROW(OBJECT, FIELD)                                                        \
    LULL_VALUE("store", "WHERE", TEXT, OBJECT, FIELD,                                              \
               "Store the history of jobs in this directory, or in a database shared by nodes: "   \
               "postgresql://...",                                                                 \
               .hint = LULL_OPTION_FOLDER, .environment = "LULL_BATCH_STORE",                      \
               .otherwise = "the state directory",                                                 \
               .more = "The state directory is $LULL_STATE_DIR; else, for root, /var/lib/lull; "   \
                       "else $XDG_STATE_HOME/lull or ~/.local/state/lull. On an emulated node "    \
                       "jobs are stored separately, in the subdirectory or schema `emulated`.")

#endif
