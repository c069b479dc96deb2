/*
 * The files of a suite: those of a folder, and behind them the built-in ones, which were in
 * data/kernels when Lull was built. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_SWEEP_SUITE_FILES_H
#define LULL_LAB_SWEEP_SUITE_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct lull_suite_file {
    const char *name;
    const char *text;
    size_t size; /* without the NUL behind it */
};

/* All built-in files, sorted by name (generated). */
extern const struct lull_suite_file lull_suite_built_in[];
extern const uint32_t lull_suite_built_in_count;

/* The description among them. */
#define LULL_SUITE_DESCRIPTION "suite.conf"

enum { LULL_SUITE_MAX_HEADERS = 64 };

struct lull_suite_files; /* opaque */

/*
 * Reads the description at path and finds the folder that it lies in; NULL: the built-in one.
 * Errors: -ENOENT and others of reading; -E2BIG more than LULL_SUITE_MAX_HEADERS headers; -ENOMEM.
 */
int lull_suite_files_open(const char *path, struct lull_suite_files **files_out,
                          struct lull_error *err);
void lull_suite_files_close(struct lull_suite_files *files); /* NULL is allowed */

/* Returns the description, whose name is for messages; valid until the close. */
struct lull_suite_file lull_suite_files_description(const struct lull_suite_files *files);

/* Finds a source; borrowed until the close. Errors: -ENOENT it is neither in the folder nor built
 * in; others of reading; -ENOMEM. */
int lull_suite_files_source(struct lull_suite_files *files, const char *name,
                            struct lull_suite_file *source_out, struct lull_error *err);

/* Returns the headers (.cuh) for sources to include; borrowed until the close. */
const struct lull_suite_file *lull_suite_files_headers(const struct lull_suite_files *files,
                                                       uint32_t *count_out);

#endif
