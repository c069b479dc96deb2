/*
 * The part of a report about a managed server: "serving", and the lines at the end.
 *
 * Threads: one; the control is stopped. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_REPORT_SERVING_REPORT_H
#define LULL_GOVERNOR_REPORT_SERVING_REPORT_H

#include "governor/report/report_parts.h"
#include "governor/report/verdict_lines.h"

/* Makes "serving"; null if no server was managed. */
json_t *lull_serving_report_json(const struct lull_report *report);

/* Prints the figures of the server; nothing if none was managed. */
void lull_serving_report_print(const struct lull_report *report, FILE *out);

/* The functions below are for reports with a server. */

/* Returns whether a clock was lowered at any time. */
bool lull_serving_report_has_lowered(const struct lull_report *report);

/* Returns the estimated saving; its slowdown is unknown, because a server has no iterations. */
struct lull_report_gain lull_serving_report_gain(const struct lull_report *report);

/* Prints the result as one sentence, and writes the three lines. */
void lull_serving_report_sentence(const struct lull_report *report, FILE *out);
void lull_serving_report_lines(const struct lull_report *report,
                               struct lull_verdict_lines *lines_out);

#endif
