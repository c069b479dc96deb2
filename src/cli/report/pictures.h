/*
 * The pictures of a run's page, each with the figures it shows as a table, or with a sentence that
 * says why there is none. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_REPORT_PICTURES_H
#define LULL_CLI_REPORT_PICTURES_H

#include <stdio.h>

#include "cli/report/document.h"

/* Draws saving over slowdown: the job's frontier, what was tried, and what was chosen. */
void lull_report_draw_frontier(FILE *out, const json_t *report);

/* Draws the frontiers of several runs in one picture. */
void lull_report_draw_frontiers(FILE *out, const struct lull_report_document *documents,
                                size_t count);

/* Draws the energy of each GPU over its clock, as far as it was tried. */
void lull_report_draw_valleys(FILE *out, const json_t *report);

/* Draws the steps of the descent of a lever or section from the highest clock. */
void lull_report_draw_descent(FILE *out, const char *name, const json_t *descent,
                              double highest_mhz);

/* timeline_picture.c: draws the last iterations, with sections, clocks and power of each GPU. */
void lull_report_draw_timeline(FILE *out, const json_t *report);

#endif
