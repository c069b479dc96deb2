/*
 * Directory of the data that outlives a job. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_STATE_DIRECTORY_H
#define LULL_BASE_STATE_DIRECTORY_H

#include <stddef.h>

#include "base/error.h"

/*
 * Writes the path of Lull's state directory, which holds calibrations, power limits, batch jobs and
 * the scheduler's journal. It is the given directory. If that is null, it is $LULL_STATE_DIR; else,
 * for root, /var/lib/lull; else $XDG_STATE_HOME/lull or ~/.local/state/lull. On an emulated node it
 * is the subdirectory `emulated` of that, so that no result from there is used on hardware. The
 * directory need not exist. Errors: -ENAMETOOLONG; -ENOENT none of the variables is set.
 * Thread-safe as long as no thread changes the environment.
 */
int lull_state_directory_find(const char *chosen, char *path_out, size_t size,
                              struct lull_error *err);

/*
 * Writes the path of root's state directory, used by all users: $LULL_STATE_DIR, else
 * /var/lib/lull; on an emulated node its subdirectory `emulated`. Errors: -ENAMETOOLONG.
 */
int lull_state_directory_find_node(char *path_out, size_t size, struct lull_error *err);

#endif
