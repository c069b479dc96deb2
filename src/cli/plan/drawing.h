/*
 * Within the picture of plans: one plan over time, its operations one by one or in cells.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAN_DRAWING_H
#define LULL_CLI_PLAN_DRAWING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/picture/picture.h"
#include "cli/plan/waiting.h"
#include "core/pipeline/model/plan.h"

enum { LULL_PLAN_MOST_DETAILED = 6000 /* operations drawn one by one; more: in cells */ };

struct lull_plan_drawing {
    FILE *file;
    const struct lull_pipeline_problem *problem;
    struct lull_clock_colours colours;
    const struct lull_plan_waiting_points *waiting; /* the clocks of gaps */
    int64_t span_ns; /* the time axis shows this long from left to left + width */
    double left;     /* in pixels, like the next ones */
    double width;
    double top; /* the top of the first device's row */
    double row; /* the height of a row */

    /* The plan at hand, which lull_plan_drawing_set sets. */
    const uint32_t *option;
    int64_t makespan_ns;
    int64_t *duration_ns; /* of every operation */
    int64_t *begin_ns;
    uint32_t *path; /* the critical operations, the last first */
    size_t path_length;
};

bool lull_plan_drawing_is_detailed(const struct lull_plan_drawing *drawing);

/* The clock of an operation, 0 if it has none. */
uint32_t lull_plan_drawing_clock(const struct lull_plan_drawing *drawing, size_t op);

double lull_plan_drawing_x(const struct lull_plan_drawing *drawing, int64_t time_ns);
double lull_plan_drawing_y(const struct lull_plan_drawing *drawing, uint32_t device);

/* Takes a plan, which has an option for every operation. */
void lull_plan_drawing_set(struct lull_plan_drawing *drawing, const uint32_t *option);

/* The colour of gaps that wait at a point: the lower the clock, the darker. */
uint32_t lull_plan_drawing_wait_rgb(const struct lull_plan_drawing *drawing, uint32_t point);

/* Draws the gaps that have a clock of their own, from the command to go down to the one to wake. */
void lull_plan_drawing_draw_waits(const struct lull_plan_drawing *drawing,
                                  const struct lull_plan_waits *waits);

/* Draws the plan's operations and its critical path. Error: -ENOMEM. */
int lull_plan_drawing_draw(const struct lull_plan_drawing *drawing);

#endif
