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

/* Prints "lull COMMAND: TEXT" for people and returns the exit status that fits the code. */
int lull_cli_fail(const char *command, const struct lull_error *err);

#endif
