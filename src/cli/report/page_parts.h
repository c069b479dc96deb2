/*
 * Private to page*.c: the parts of a run's page below its head. Threads: any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_REPORT_PAGE_PARTS_H
#define LULL_CLI_REPORT_PAGE_PARTS_H

#include <stdbool.h>
#include <stdio.h>

#include <jansson.h>

/* page_style.c: the style of the page, between <style> and </style>. */
extern const char lull_report_page_style[];

/* page_tables.c: what an iteration cost; levers; GPUs and their sections; energy. */
void lull_report_write_iterations(FILE *out, const json_t *report);
void lull_report_write_levers(FILE *out, const json_t *report);
void lull_report_write_gpus(FILE *out, const json_t *report);
void lull_report_write_energy(FILE *out, const json_t *report);

/* Returns whether two levers differ in nothing but their names and figures. */
bool lull_report_is_same_lever(const json_t *a, const json_t *b);

/* page_serving.c: the server that was managed. Whether there is one; whether the share of requests
 * that lowered clocks have added to the missed ones is proven to be within the promise. */
void lull_report_write_serving(FILE *out, const json_t *report);
bool lull_report_has_serving(const json_t *report);
bool lull_report_keeps_objective(const json_t *report);

/* page_validity.c: what was not done, and why; how each figure is known. */
void lull_report_write_undone(FILE *out, const json_t *report);
void lull_report_write_validity(FILE *out, const json_t *report);

#endif
