/*
 * Growth: what one more period adds to a frontier, read off the column in the middle of the small
 * pipeline (periodic.h).
 *
 * Where a flow repeats itself, an operation that it goes through and the same one a period later
 * are joined by paths without slack: their distance is the period's time, and the column's
 * operations cost what a period costs. The watts that flow there are those of the slope, so that no
 * second frontier is needed for the difference.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_FRONTIER_PERIODIC_GROWTH_H
#define LULL_CORE_PIPELINE_FRONTIER_PERIODIC_GROWTH_H

#include "core/pipeline/frontier/periodic_expand.h"
#include "core/pipeline/frontier/state.h"

/* An operation of the column and the same one a period later, by place. */
struct lull_periodic_column_op {
    uint32_t here;
    uint32_t later;
};

struct lull_periodic_growth {
    struct lull_periodic_column_op *ops;
    size_t op_count;
    double blocking_w; /* of all devices */
};

/* Finds the column. The caller calls fini also after an error: -EINVAL the column does not repeat
 * itself, -ENOMEM. */
int lull_periodic_growth_init(struct lull_periodic_growth *growth,
                              const struct lull_periodic_expansion *expansion,
                              struct lull_error *err);
void lull_periodic_growth_fini(struct lull_periodic_growth *growth);

/* The point of a pipeline that is `periods` periods longer, at the slope where the small frontier
 * stands. */
struct lull_frontier_point lull_periodic_growth_extend(const struct lull_periodic_growth *growth,
                                                       const struct lull_frontier *small,
                                                       int64_t periods);

#endif
