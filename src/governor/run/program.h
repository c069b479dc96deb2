/*
 * Which program a word of a command means. Reads files only; starts nothing.
 * Threads: any that do not change the environment meanwhile. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_PROGRAM_H
#define LULL_GOVERNOR_RUN_PROGRAM_H

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

#endif
