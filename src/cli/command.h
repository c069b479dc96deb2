/*
 * The commands of lull: each has one file and one main function, which returns an enum lull_exit.
 * argv[0] is the command's name as argp shall print it. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_COMMAND_H
#define LULL_CLI_COMMAND_H

#include <stdbool.h>

#include "base/error.h"

/* Reads the runtime directory of lulld: LULL_RUNTIME_DIR, else /run/lull. */
const char *lull_cli_runtime_directory(void);

/* Options that several commands share. */
struct lull_cli_options {
    bool is_json;
    const char *runtime_dir; /* set to the default before parsing */
};

enum lull_cli_option { LULL_CLI_JSON = 1 << 0, LULL_CLI_RUNTIME_DIR = 1 << 1 };

/*
 * Parses the command line of a command that takes no arguments and only these options (enum
 * lull_cli_option). Like argp it prints --help and usage errors itself and then exits.
 */
void lull_cli_parse(int argc, char **argv, unsigned accepted, const char *doc,
                    struct lull_cli_options *options_out);

/* Prints "lull COMMAND: TEXT" for people and returns the exit status that fits the code. */
int lull_cli_fail(const char *command, const struct lull_error *err);

/*
 * Parses two times "A,B" of --switch-ms, 0 to 10000 ms each. Errors: -EINVAL, nothing is changed
 * then.
 */
int lull_cli_parse_latency(const char *text, double *first_ms_out, double *second_ms_out);

#endif
