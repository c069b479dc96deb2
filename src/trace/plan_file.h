/*
 * Plan files: Lull's own form of a plan, complete in itself. JSON with everything needed to execute
 * a plan (the clock of every operation of every device, in order) and to prove it: the measured
 * options, what waits for what, what the plan claims, and the flow that proves the bound.
 * docs/reference/pipeline-formats.md describes every field.
 *
 * Times have 9 decimals of a second and are exact. A file is not trusted: every refusal names the
 * byte. What a plan claims has not been checked when it has been read; `lull plan --verify` does.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_PLAN_FILE_H
#define LULL_TRACE_PLAN_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "core/pipeline/frontier/certificate.h"
#include "core/pipeline/model/plan.h"
#include "core/pipeline/switching/switching.h"
#include "core/pipeline/rounding/waiting.h"

enum { LULL_PLAN_FILE_TITLE = 128, LULL_PLAN_FILE_PLANNER = 32 };

struct lull_plan_file {
    char title[LULL_PLAN_FILE_TITLE];
    char planner[LULL_PLAN_FILE_PLANNER]; /* which planner made it; empty: not said */
    int64_t
        parts; /* stages of the pipeline that share a measured one (core/pipeline/model/fit.h) */
    int64_t deadline_ns; /* the deadline for which it was planned */
    int64_t period_ns;   /* length of the iteration, waiting for others included */

    /* Claims of the plan. */
    int64_t time_ns; /* makespan, in the worst case for switching */
    double energy_j; /* of an iteration of period_ns */
    double bound_j;  /* lower bound on the energy of any plan of this makespan */

    struct lull_pipeline_switching switching; /* all 0: not considered */
    struct lull_pipeline_profile profile;
    struct lull_pipeline_graph graph; /* finished */
    double *blocking_w;               /* of every device */
    uint32_t *option;                 /* of every operation */
    struct lull_certificate certificate;

    /* Gaps that wait at a clock of their own. Of a wait, only device, before_op, point, begin_ns
     * and wake_ns are in the file. The saving that the plan claims for them is not included in
     * energy_j. */
    struct lull_pipeline_waiting_point *waiting_points;
    size_t waiting_point_count; /* 0: the plan has none */
    struct lull_pipeline_wait *waits;
    size_t wait_count;
    double waiting_saved_j;
};

void lull_plan_file_fini(struct lull_plan_file *plan);

/* Writes a plan to a stream, whose errors the caller checks. -ENOMEM: nothing was written. */
int lull_plan_file_write(const struct lull_plan_file *plan, FILE *file);

/*
 * Reads a file, plain or gzip ("-" is standard input). On success the caller owns the contents of
 * *plan_out. Errors: LULL_E_FORMAT no such JSON, or a plan that contradicts itself: no such class,
 * clock or operation, a cycle; -ENOMEM; those of lull_source_open and lull_source_read.
 */
int lull_plan_file_read(const char *path, struct lull_plan_file *plan_out, struct lull_error *err);

#endif
