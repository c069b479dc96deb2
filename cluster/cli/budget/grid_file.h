/*
 * The requests in the file of `grid-file`. A separate thread reads it, because its file system may
 * hang: the caps would expire during a blocked read.
 *
 * Threads: any one thread calls these. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CLI_BUDGET_GRID_FILE_H
#define LULL_CLUSTER_CLI_BUDGET_GRID_FILE_H

#include "base/error.h"
#include "cluster/cli/budget/grid.h"

struct lull_grid_file;

/* Starts the thread for a file, which need not exist. Errors: -ENOMEM; -EAGAIN no thread. */
int lull_grid_file_start(const char *path, struct lull_grid_file **file_out,
                         struct lull_error *err);

/* Ends it. A thread that waits for the file is left behind. NULL: does nothing. */
void lull_grid_file_stop(struct lull_grid_file *file);

/* Reads the file if it has changed, and returns its requests: none if there is no file. If it
 * cannot be read within 0.2 s, the earlier requests remain, and the error is logged once. NULL:
 * nothing is requested. */
void lull_grid_file_read(struct lull_grid_file *file, struct lull_grid_events *grid_out);

#endif
