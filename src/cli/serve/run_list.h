/*
 * The last runs in a folder of runs, each as a few figures of its report.json. A report is read
 * once, and again when it has changed. Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_SERVE_RUN_LIST_H
#define LULL_CLI_SERVE_RUN_LIST_H

#include <jansson.h>

#include "base/error.h"
#include "cli/report/document.h"

/* So many are listed; of a folder with more than LULL_SERVE_MAX_FOLDERS the rest is left unchanged.
 * Larger reports are not read. */
enum {
    LULL_SERVE_RUNS = 20,
    LULL_SERVE_MAX_FOLDERS = 4096,
    LULL_SERVE_MAX_REPORT = 16 << 20,
};

struct lull_serve_run_list;

/* Begins for a folder, whose name is borrowed; NULL: out of memory. */
struct lull_serve_run_list *lull_serve_run_list_create(const char *folder);
void lull_serve_run_list_destroy(struct lull_serve_run_list *list);

/* Looks at the folder, and writes a new array, the last run first; what is no report, or may not be
 * read, is omitted. A folder that is not there has no runs. Errors: those of lull_path_do(), such
 * as -ETIMEDOUT its file system does not answer. */
int lull_serve_run_list_look(struct lull_serve_run_list *list, json_t **runs_out,
                             struct lull_error *err);

/*
 * Reads the report of a run in the folder by its name (lull_serve_is_run_name()). Errors: those of
 * lull_path_read() and lull_report_document_parse(); -EFBIG it is too large to be
 * shown.
 */
int lull_serve_run_open(const char *folder, const char *name,
                        struct lull_report_document *document_out, struct lull_error *err);

#endif
