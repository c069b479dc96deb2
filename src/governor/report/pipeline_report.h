/*
 * The report's field "pipeline": what a plan promised, and what came of it.
 * Threads: one; the control is stopped. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_REPORT_PIPELINE_REPORT_H
#define LULL_GOVERNOR_REPORT_PIPELINE_REPORT_H

#include <stdio.h>

#include <jansson.h>

#include "governor/control/control.h"
#include "governor/plan/online.h"
#include "governor/plan/straggler_response.h"

/* A new reference; null where there was no plan. online: NULL where it was given. straggler
 * response: NULL where nobody looked for stragglers. */
json_t *lull_pipeline_report_json(const struct lull_control *control,
                                  const struct lull_plan_runner *runner,
                                  const struct lull_online *online,
                                  const struct lull_straggler_response *response,
                                  double confidence);

/* The same for people, two or three lines; nothing where no plan was given. */
void lull_pipeline_report_print(const struct lull_control *control,
                                const struct lull_plan_runner *runner,
                                const struct lull_straggler_response *response, FILE *out);

/* What the job's GPUs drew between two moments, J. False: the counters were not read then. */
bool lull_pipeline_energy_between(const struct lull_control *control, int64_t begin_ns,
                                  int64_t end_ns, double *energy_out);

#endif
