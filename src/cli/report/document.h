/*
 * A run's report as a document: report.json of one run, from any writer. A field that is missing,
 * of another type or out of range is read as unknown. Threads: one.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_REPORT_DOCUMENT_H
#define LULL_CLI_REPORT_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/error.h"

enum { LULL_REPORT_MAX_BYTES = 1 << 28, LULL_REPORT_MAX_RUNS = 16, LULL_REPORT_MAX_GPUS = 64 };

struct lull_report_document {
    char name[256]; /* the run's name: its folder */
    json_t *root;   /* an object */
};

/*
 * Reads the report in a folder, or a file. lull_report_document_close() must follow a success.
 * Errors: -errno; LULL_E_FORMAT it is no report of `lull run`, the text says where.
 */
int lull_report_document_open(const char *path, struct lull_report_document *document_out,
                              struct lull_error *err);
void lull_report_document_close(struct lull_report_document *document);

/* Parses a text of size bytes, which messages call by this name. Errors: LULL_E_FORMAT. */
int lull_report_document_parse(const char *text, size_t size, const char *name,
                               struct lull_report_document *document_out, struct lull_error *err);

/* Returns the value of a key; NULL: there is none, it is null, or this is no object. */
json_t *lull_report_at(const json_t *object, const char *key);

/* Returns a number; NAN: it is not known. */
double lull_report_number(const json_t *object, const char *key);

/* Returns a number of an array; NAN: it is not known. */
double lull_report_number_at(const json_t *array, size_t index);

/* Returns a text; NULL: it is not known. */
const char *lull_report_text(const json_t *object, const char *key);

/* Returns whether a key is true. */
bool lull_report_is(const json_t *object, const char *key);

/* Returns how many elements an array has; 0 for what is none. */
size_t lull_report_count(const json_t *array);

#endif
