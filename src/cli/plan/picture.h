/*
 * A picture of plans on one time axis. Devices are rows, operations are coloured by clock,
 * backwards are taller than forwards, one critical path is outlined. A device that waits is grey,
 * or a shade of blue where it waits at a clock of its own.
 *
 * Pipelines of many operations are drawn in cells of the mean clock, so that the file stays below
 * LULL_PLAN_PICTURE_MAX_BYTES whatever the plan. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAN_PICTURE_H
#define LULL_CLI_PLAN_PICTURE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cli/plan/waiting.h"
#include "core/pipeline/model/plan.h"

enum { LULL_PLAN_PICTURE_MAX_BYTES = 4 << 20 };

struct lull_plan_panel {
    char caption[160];                   /* printable ASCII */
    const uint32_t *option;              /* of every operation */
    const struct lull_plan_waits *waits; /* null: gaps have no clocks of their own */
};

/*
 * Writes an SVG file, the first panel on top. title is printable text; waiting has the points of
 * the panels' waits. Errors: -ENOMEM, and those of lull_file_write_atomic.
 */
int lull_plan_picture_write(const char *path, const char *title,
                            const struct lull_pipeline_problem *problem,
                            const struct lull_plan_waiting_points *waiting,
                            const struct lull_plan_panel *panels, size_t panel_count,
                            struct lull_error *err);

#endif
