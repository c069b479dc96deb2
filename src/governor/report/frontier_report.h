/*
 * The frontier of a job as text and as JSON. The report of a run has the measured frontier, or a
 * prediction from measurements. The analysis of a recorded job has a predicted one.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_REPORT_FRONTIER_REPORT_H
#define LULL_GOVERNOR_REPORT_FRONTIER_REPORT_H

#include <stddef.h>

#include <jansson.h>

#include "core/energy/job_frontier.h"

/* Writes "at 0 % slowdown: 7.1 % saved (6.4 to 7.9); at ..." as one line without its end. points:
 * LULL_JOB_FRONTIER_BUDGETS of them. Returns text, cut short where size bytes are too few. */
const char *lull_job_frontier_report_text(const struct lull_job_frontier_point *points, char *text,
                                          size_t size);

/* Makes the element of an array for each budget. A new reference. */
json_t *lull_job_frontier_report_json(const struct lull_job_frontier_point *points);

#endif
