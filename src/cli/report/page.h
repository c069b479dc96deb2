/*
 * The page of one or several runs: one HTML file that needs no network and no script.
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_REPORT_PAGE_H
#define LULL_CLI_REPORT_PAGE_H

#include <stdio.h>

#include "cli/report/document.h"

/* Content that lull_file_write_with() writes. */
struct lull_report_page {
    const struct lull_report_document *documents;
    size_t count; /* 1..LULL_REPORT_MAX_RUNS */
};

/* Writes the page of a struct lull_report_page. Returns 0. */
int lull_report_page_write(const void *page, FILE *out);

/* Writes report.html into the folder of a run, from its report.json. Errors: those of
 * lull_report_document_open() and lull_file_write_with(). */
int lull_report_page_add(const char *folder, struct lull_error *err);

#endif
