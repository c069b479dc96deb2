/*
 * A picture of plans on one time axis: devices as rows, operations coloured by clock, backwards
 * taller than forwards, one critical path outlined, grey where a device waits, in shades of blue
 * where it does so at a clock of its own.
 *
 * Pipelines of many operations are drawn in cells of the mean clock, so that the file stays below
 * LULL_PLAN_PICTURE_MOST_BYTES whatever the plan. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAN_PICTURE_H
#define LULL_CLI_PLAN_PICTURE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cli/plan/waiting.h"
#include "core/pipeline/plan.h"

enum { LULL_PLAN_PICTURE_MOST_BYTES = 4 << 20 };

struct lull_plan_panel {
    char caption[160];                   /* printable ASCII */
    const uint32_t *option;              /* of every operation */
    const struct lull_plan_waits *waits; /* NULL: gaps have no clock of their own */
};

/*
 * Writes an SVG file, the first panel on top. title: printable text; waiting: the
 * points of the panels' waits. Errors: -ENOMEM, and those of
 * lull_file_write_atomic.
 */
int lull_plan_picture_write(const char *path, const char *title,
                            const struct lull_pipeline_problem *problem,
                            const struct lull_plan_waiting_points *waiting,
                            const struct lull_plan_panel *panels, size_t panel_count,
                            struct lull_error *err);

#endif
