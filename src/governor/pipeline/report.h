/*
 * The report's field "pipeline": what a plan promised, and what came of it.
 * Threads: one; the control is stopped. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_PIPELINE_REPORT_H
#define LULL_GOVERNOR_PIPELINE_REPORT_H

#include <stdio.h>

#include <jansson.h>

#include "governor/control.h"
#include "governor/pipeline/online.h"

/* A new reference; null where there was no plan. online: NULL where it was given. */
json_t *lull_pipeline_report_json(const struct lull_control *control,
                                  const struct lull_online *online, double confidence);

/* The same for people, two lines; nothing where no plan was given. */
void lull_pipeline_report_print(const struct lull_control *control, FILE *out);

#endif
