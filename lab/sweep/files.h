/*
 * Operations of `lull sweep` on existing datasets. Threads: one.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_SWEEP_FILES_H
#define LULL_LAB_SWEEP_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/*
 * Joins datasets into a new one, with a sidecar that contains
 * all of theirs. Rows in several datasets are taken once. *rows_out: how many there are. Errors:
 * those of reading and writing, after which nothing is written.
 */
int lull_sweep_merge(const char *out, char *const *paths, uint32_t count, uint64_t *rows_out,
                     struct lull_error *err);

/*
 * Validates a dataset and prints the findings, one document if is_json. 0: no findings. 1:
 * findings. Errors: the file cannot be read as a dataset.
 */
int lull_sweep_validate(const char *path, bool is_json, struct lull_error *err);

/* Draws a dataset into two pictures in a directory, which is created.
 * Errors: the dataset has nothing to draw; those of reading and writing. */
int lull_sweep_plot(const char *path, const char *directory, struct lull_error *err);

#endif
