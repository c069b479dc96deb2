/*
 * Scalar files: rows of numbers, appended while a job runs to two files of one folder: an event
 * file (trace/event_file.h), which TensorBoard shows, and scalars.jsonl, a line of JSON for each
 * row, which any program can follow.
 *
 * A separate process writes the rows from a socket of fixed size, so a disk that is slow, hangs or
 * is full delays no caller, and not the end of its process either (base/path.h). A file that cannot
 * be written ends with its last complete row.
 *
 * Threads: the owner calls these functions. Two of them wait for a disk: open up to 1 s, and close
 * up to the given time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_REPORT_SCALAR_FILES_H
#define LULL_GOVERNOR_REPORT_SCALAR_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* As many as 64 GPUs and their job have (scalars.h). */
enum { LULL_SCALARS_MAX = 320, LULL_SCALAR_NAME_BYTES = 48 };

struct lull_scalar {
    char name[LULL_SCALAR_NAME_BYTES]; /* "lull/gpu0/power_w" */
    const char *help;                  /* lives as long as the files */
};

struct lull_scalar_row {
    double unix_s; /* of the wall clock */
    int64_t step;
    double values[LULL_SCALARS_MAX]; /* NAN: not known, null in JSON and not in the event file */
};

struct lull_scalar_files; /* opaque */

/*
 * Creates the folder, and opens both files for appending. scalars[count] is copied. Files that take
 * longer than 1 s to open are opened later. Errors: -errno with the path; -EINVAL not a regular
 * file.
 */
int lull_scalar_files_open(const char *folder, const struct lull_scalar *scalars, uint32_t count,
                           double unix_s, struct lull_scalar_files **files_out,
                           struct lull_error *err);

/* Sends a copy of a row. If the socket is full the row is lost, and lull_scalar_files_take_error
 * reports it. */
void lull_scalar_files_add(struct lull_scalar_files *files, const struct lull_scalar_row *row);

/* Returns whether there is a new message about the files, and copies it to text_out: a file can no
 * longer be written, or rows were lost. Each is reported once. */
bool lull_scalar_files_take_error(struct lull_scalar_files *files, struct lull_error *text_out);

/* Waits until all rows are written or until_ns of CLOCK_MONOTONIC has passed, and closes the files.
 * A process stuck in disk I/O is left behind; text_out then has the message that rows are missing.
 * Otherwise text_out is unchanged. NULL is allowed. */
void lull_scalar_files_close(struct lull_scalar_files *files, int64_t until_ns,
                             struct lull_error *text_out);

#endif
