/*
 * The files of a sweep: the table, to which rows are appended and synced one by one, and beside it
 * the sidecar, a JSON document that says how they came about. Whatever ends the process, at most
 * the row that was being written is lost. Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_SWEEP_OUTPUT_H
#define LULL_LAB_SWEEP_OUTPUT_H

#include <jansson.h>
#include <limits.h>

#include "lab/trace/sweep_table.h"

#define LULL_SWEEP_SCHEMA "lull-sweep-1"

struct lull_sweep_output {
    char path[PATH_MAX];
    char sidecar_path[PATH_MAX];
    int fd; /* locked; -1: closed */
};

/*
 * Creates the table, or with is_resuming opens one that an earlier sweep has left; an incomplete
 * row at its end is removed. Errors: -EEXIST it exists and is_resuming is false; -ENOENT; -EBUSY
 * another sweep writes to it; LULL_E_FORMAT its first line is not that of a sweep.
 */
int lull_sweep_output_open(const char *path, bool is_resuming, struct lull_sweep_output *output_out,
                           struct lull_error *err);
void lull_sweep_output_close(struct lull_sweep_output *output);

/* Returns whether a file that was just opened has a row. */
bool lull_sweep_output_has_rows(const struct lull_sweep_output *output);

/* Appends a row, which is on the disk when this returns. On an
 * error the file does not contain the row: -errno. */
int lull_sweep_output_append(struct lull_sweep_output *output, const struct lull_sweep_row *row,
                             struct lull_error *err);

/* Writes the path of the sidecar of a table. Errors: -ENAMETOOLONG. */
int lull_sweep_sidecar_path(const char *path, char path_out[PATH_MAX], struct lull_error *err);

/* Writes the sidecar whole or not at all. Errors: those of lull_file_write_atomic. */
int lull_sweep_sidecar_write(const char *path, const json_t *sidecar, struct lull_error *err);

/* Reads a sidecar of this schema. Errors: -ENOENT and others; LULL_E_FORMAT. */
int lull_sweep_sidecar_read(const char *path, json_t **sidecar_out, struct lull_error *err);

#endif
