/*
 * Pipelines of many micro-batches: their relaxation from a short one
 * (core/pipeline/frontier/periodic.h), built here from the same profile and schedule. How short it
 * may be depends on the schedule: some repeat themselves only after many micro-batches.
 * Threads: any, one per object. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAN_LONG_H
#define LULL_CLI_PLAN_LONG_H

#include <stdint.h>

#include "base/error.h"
#include "cli/plan/task.h"
#include "core/pipeline/certificate.h"
#include "core/pipeline/frontier/frontier.h"

struct lull_plan_long;

/* Extends the shortest pipeline whose relaxation comes near to its bound, as a few probes tell.
 * NULL: not worth while, not possible, or none is near and all of it can be solved in a few
 * seconds; the whole pipeline is then to be solved. */
struct lull_plan_long *lull_plan_long_create(const struct lull_plan_task *task);
void lull_plan_long_destroy(struct lull_plan_long *extended);

/* Estimates of the corners, the slow end first. */
const struct lull_frontier_point *lull_plan_long_points(const struct lull_plan_long *extended,
                                                        size_t *count_out);

/*
 * Relaxed durations for a time, and a checked flow (initialised with the task's graph) for its
 * bound. Errors: -ERANGE, -EINVAL: not this way; -ENOMEM.
 */
int lull_plan_long_relax(struct lull_plan_long *extended, int64_t time_ns, int64_t *duration_out,
                         struct lull_certificate *certificate);

#endif
