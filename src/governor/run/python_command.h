/*
 * Whether a command runs Python, and so perhaps PyTorch: what the gloo shim is preloaded for.
 * Reads files only; starts nothing. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_PYTHON_COMMAND_H
#define LULL_GOVERNOR_RUN_PYTHON_COMMAND_H

#include <stdbool.h>

/*
 * Looks at each word of the command (argv ends with NULL) that names a program, by path or in
 * PATH: a Python interpreter, by the name of the file that links lead to, or a script whose first
 * line names one (torchrun, deepspeed). Shell scripts are not looked into. A wrong yes is
 * harmless: the shim does nothing in a program that never calls gloo.
 */
bool lull_command_runs_python(char *const argv[]);

#endif
