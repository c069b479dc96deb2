/*
 * The requests in the file of `grid-file`. Its file system may hang, and the caps would expire
 * during a blocked read, so the file is read as base/path.h does.
 *
 * Threads: any one thread calls these. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CLI_BUDGET_GRID_FILE_H
#define LULL_CLUSTER_CLI_BUDGET_GRID_FILE_H

#include <limits.h>
#include <stdbool.h>

#include "base/file.h"
#include "cluster/cli/budget/grid.h"

/* Zero-initialised, except for the path. */
struct lull_grid_file {
    char path[PATH_MAX]; /* "": there is none */
    bool is_late;        /* it does not answer, which was logged */
    struct lull_file_stamp stamp;
    struct lull_grid_events grid;
};

/* Reads the file if it has changed, and returns its requests: none if there is no file. If it
 * cannot be read within 0.2 s, the earlier requests remain, and the error is logged once. */
const struct lull_grid_events *lull_grid_file_read(struct lull_grid_file *file);

#endif
