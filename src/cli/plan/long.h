/*
 * Pipelines of many micro-batches: their relaxation from that of a short one
 * (core/pipeline/frontier/periodic.h), which is built here from the same profiles and schedule. How
 * short it may be depends on the schedule: some repeat themselves only after many micro-batches.
 * Threads: any, one per object. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAN_LONG_H
#define LULL_CLI_PLAN_LONG_H

#include <stdint.h>

#include "base/error.h"
#include "cli/plan/task.h"
#include "core/pipeline/frontier/certificate.h"
#include "core/pipeline/frontier/frontier.h"

struct lull_plan_long;

/*
 * Extends the shortest pipeline whose relaxation comes near to its bound, as a few probes tell.
 * Returns null, and the caller solves the whole pipeline, where extending is not worth while or not
 * possible, or where no extension is near and the whole can be solved in a few seconds; for a
 * single deadline also where the short pipeline is itself too long to be solved at all times.
 */
struct lull_plan_long *lull_plan_long_create(const struct lull_plan_task *task, bool is_single);
void lull_plan_long_destroy(struct lull_plan_long *extended);

/* The estimated corners of the frontier, the slow end first. */
const struct lull_frontier_point *lull_plan_long_points(const struct lull_plan_long *extended,
                                                        size_t *count_out);

/*
 * Finds relaxed durations for a time, and a checked flow for its bound; the certificate has been
 * initialised with the task's graph. Errors: -ERANGE, -EINVAL the time cannot be extended to;
 * -ENOMEM.
 */
int lull_plan_long_relax(struct lull_plan_long *extended, int64_t time_ns, int64_t *duration_out,
                         struct lull_certificate *certificate);

#endif
