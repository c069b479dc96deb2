/*
 * Clocks for waiting in `lull plan`: as the user names them, chosen for a plan's gaps, and printed.
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAN_WAITING_H
#define LULL_CLI_PLAN_WAITING_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "core/pipeline/switching/switching.h"
#include "core/pipeline/rounding/waiting.h"

enum { LULL_PLAN_MAX_WAITING = 16 };

struct lull_plan_waiting_points {
    size_t count;
    struct lull_pipeline_waiting_point points[LULL_PLAN_MAX_WAITING];
};

/* The clocks that a plan's gaps wait at. */
struct lull_plan_waits {
    struct lull_pipeline_wait *waits; /* by device and time */
    size_t count;
    size_t gap_count; /* number of gaps of any length */
    double saved_j;   /* their saving of the plan's energy */
};

/*
 * Reads points such as "210:60,1050:64.5:3": MHz, the power of a stage in W, and the ms until it is
 * awake again where that is not up_ms; or a GPU model whose waiting power was measured, 8xH100-SXM5
 * for stages of eight. Error: -EINVAL.
 */
int lull_plan_waiting_parse(const char *text, double down_ms, double up_ms,
                            struct lull_plan_waiting_points *points_out, struct lull_error *err);

/* Chooses points for the gaps of a plan. The caller frees waits_out->waits. Error: -ENOMEM. */
int lull_plan_waiting_choose(const struct lull_pipeline_problem *problem,
                             const struct lull_plan_waiting_points *points,
                             const struct lull_pipeline_switching *switching,
                             const uint32_t *option, int64_t period_ns,
                             struct lull_plan_waits *waits_out);

/* Prints a line for each clock on standard output, and the energy that is left of energy_j. */
void lull_plan_waiting_print(const struct lull_plan_waiting_points *points,
                             const struct lull_plan_waits *waits, double energy_j);

/* Prints the member "waiting" of the JSON document, with a comma ahead of it. */
void lull_plan_waiting_print_json(const struct lull_pipeline_problem *problem,
                                  const struct lull_plan_waiting_points *points,
                                  const struct lull_plan_waits *waits, double energy_j);

#endif
