/*
 * The document that `lull model fit` writes and `lull model predict` reads: fitted devices with the
 * names of their kernels.
 * Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_TRACE_DOCUMENT_H
#define LULL_LAB_TRACE_DOCUMENT_H

#include <jansson.h>

#include "lab/core/fitted.h"
#include "lab/trace/kernel_table.h"

struct lull_model_set {
    char gpu[LULL_KERNEL_NAME];
    char set[LULL_KERNEL_NAME]; /* may be empty */
    struct lull_fitted_device device;
    struct lull_kernel_name *kernel_names; /* of the device's kernels */
};

struct lull_model_sets {
    struct lull_model_set *all;
    size_t count;
};

void lull_model_sets_fini(struct lull_model_sets *sets);

/* Makes the document; source: the file that was fitted. Null: out of memory. */
json_t *lull_model_document_make(const struct lull_model_sets *sets, const char *source);

/* Reads a document from a text of this size; name is for messages. Errors: LULL_E_FORMAT with
 * the position and the error; -ENOMEM. The output is empty then. */
int lull_model_document_parse(const char *text, size_t size, const char *name,
                              struct lull_model_sets *sets_out, struct lull_error *err);

/* Reads a file. Errors: those of lull_file_read and lull_model_document_parse. */
int lull_model_sets_read(const char *path, struct lull_model_sets *sets_out,
                         struct lull_error *err);

#endif
