/*
 * Which programs a command names, in its words and in the shell scripts among them, and whether it
 * runs Python, and so perhaps PyTorch: what the gloo shim is preloaded for. Reads files only;
 * starts nothing. Threads: any that do not change the environment meanwhile.
 * SPDX-License-Identifier: Apache-2.0
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
 * Visits the path of each program that the command names (argv ends with NULL), by path or in PATH:
 * its words, and where one is a shell script, or behind a shell a text, all words of that text as
 * well, as they stand there where they are no program. Scripts that scripts name are looked into
 * two levels deep, 64 KiB of each. A visit that returns true ends it; returns whether one has.
 */
bool lull_command_visit(char *const argv[], bool (*visit)(const char *path, void *context),
                        void *context);

/* Tells whether the command is a shell script, or a shell with one. */
bool lull_command_is_script(char *const argv[]);

/*
 * Whether the command, or a shell script in it, names a Python interpreter, by the name of the file
 * that links lead to, a script whose first line names one (torchrun, deepspeed), or in a shell
 * script a file *.py. A wrong yes is harmless: the shim does nothing in a program that never calls
 * gloo.
 */
bool lull_command_runs_python(char *const argv[]);

#endif
