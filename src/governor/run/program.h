/*
 * Which program a word of a command means, and whether a command runs Python, and so perhaps
 * PyTorch: what the gloo shim is preloaded for. Reads files only; starts nothing. Threads: any that
 * do not change the environment meanwhile. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_PROGRAM_H
#define LULL_GOVERNOR_RUN_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The file that a word would run: itself if it has a slash, else as found in PATH.
 * -ENOENT: none, or its path is longer than size.
 */
int lull_program_find(const char *word, char *path_out, size_t size);

/*
 * Takes the next directory off a colon-separated list (NULL: an empty one), with a leading $ORIGIN
 * replaced by origin. 1: found; 0: no more; -1: too long for out, skipped.
 */
int lull_path_next(const char **rest, const char *origin, char *out, size_t size);

/* Points to what follows the last slash of a path. */
const char *lull_path_base(const char *path);

/*
 * Looks at each word of the command (argv ends with NULL) that names a program, by path or in
 * PATH: a Python interpreter, by the name of the file that links lead to, or a script whose first
 * line names one (torchrun, deepspeed). Shell scripts are not looked into. A wrong yes is
 * harmless: the shim does nothing in a program that never calls gloo.
 */
bool lull_command_runs_python(char *const argv[]);

#endif
