/*
 * The parts of a run's report, each written by the file of its name: run_report.c, gpu_report.c,
 * levers_report.c,
 * pipeline_report.c, limits_report.c, energy_report.c. docs/report.md explains every field.
 *
 * JSON values are new references. What prints, prints lines of the table for people.
 * Threads: one; the controls are stopped. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_REPORT_REPORT_PARTS_H
#define LULL_GOVERNOR_REPORT_REPORT_PARTS_H

#include <stdio.h>

#include <jansson.h>

#include "governor/report/report.h"

/* Sets the fields from "unmanaged_wall_s" to "comparison": what an iteration cost. */
void lull_run_report_add(const struct lull_report *report, json_t *root);
void lull_run_report_print(const struct lull_report *report, FILE *out);

/* Makes "levers": the descent of each lever, over all GPUs. What prints, prints every step. */
json_t *lull_levers_report_json(const struct lull_report *report);
void lull_levers_report_print(const struct lull_report *report, FILE *out);

/* Makes the steps of a target's descent with the clocks of one GPU; empty for a target that is
 * NULL. */
json_t *lull_report_descent_json(const struct lull_report *report, uint32_t gpu,
                                 const struct lull_target *target);

/* The clock that was kept on a GPU, MHz: the highest for a target that is NULL; 0: it has none. */
uint32_t lull_report_kept_mhz(const struct lull_report *report, uint32_t gpu,
                              const struct lull_target *target);

/* Makes an element of "gpus": a GPU that a rank of the managed run used, and its sections. */
json_t *lull_gpu_report_json(const struct lull_report *report, uint32_t gpu);
void lull_gpu_report_print(const struct lull_report *report, uint32_t gpu, FILE *out);

/* Makes "pipeline": what a plan promised, and what came of it; null where no plan was given. */
json_t *lull_pipeline_report_json(const struct lull_report *report);
void lull_pipeline_report_print(const struct lull_report *report, FILE *out);

/* Makes "power_limit": what the limits came to; null where they were left alone. */
json_t *lull_limits_report_json(const struct lull_report *report);
void lull_limits_report_print(const struct lull_report *report, FILE *out);

/* Makes "energy": the whole run, and the program's windows; null where nothing was measured. */
json_t *lull_energy_report_json(const struct lull_energy_report *report);
void lull_energy_report_print(const struct lull_energy_report *report, FILE *out);

/* Makes "swing": how the power of the job's GPUs goes up and down; null where none was managed. */
json_t *lull_swing_report_json(const struct lull_report *report);
void lull_swing_report_print(const struct lull_report *report, FILE *out);

#endif
