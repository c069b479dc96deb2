/* The command line of lull batch run. SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_CLI_BATCH_RUN_OPTIONS_H
#define LULL_CLI_BATCH_RUN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/batch/arguments.h"
#include "governor/batch/batch_attempt.h"

struct lull_batch_run_options {
    struct lull_batch_job job; /* without what the GPUs tell */
    const char *store;         /* NULL: the state directory */
    const char *pattern;
    double rate; /* learning rate at the default size; NAN: none */
    enum lull_rate_rule rule;
    int64_t tries; /* of a recurrence */
    bool is_quiet;
    char *const *command;                      /* with its places */
    struct lull_batch_attempt_options attempt; /* without command and bound */
};

/* Prints usage errors and --help itself, and then exits. The caller destroys attempt.metric. */
void lull_batch_run_options_parse(int argc, char **argv,
                                  struct lull_batch_run_options *options_out);

/* Where jobs are kept: given, else LULL_BATCH_STORE, else NULL (the state directory). */
const char *lull_batch_store_location(const char *given);

#endif
