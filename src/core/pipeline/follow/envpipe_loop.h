/*
 * EnvPipe's loop in the running job (Choi et al., USENIX ATC'23): execute the plan, find
 * the critical path of what happened, raise clocks on it, until the path has stayed in the outer
 * envelope for ten iterations in a row. core/pipeline/frontier/envpipe_planner.h says what differs
 * from the publication; besides, the path is found from when operations really ended, not from
 * receive times.
 *
 * Pure; create/destroy; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_FOLLOW_ENVPIPE_LOOP_H
#define LULL_CORE_PIPELINE_FOLLOW_ENVPIPE_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "core/pipeline/frontier/envpipe_planner.h"

struct lull_envpipe_loop;

/* The problem is borrowed until destroy. tie_ns: see lull_envpipe_step(). null: no memory. */
struct lull_envpipe_loop *lull_envpipe_loop_create(const struct lull_pipeline_problem *problem,
                                                   int64_t tie_ns);
void lull_envpipe_loop_destroy(struct lull_envpipe_loop *loop);

/* The plan to be executed, op_count indices into the operating points. */
const uint32_t *lull_envpipe_loop_points(const struct lull_envpipe_loop *loop);

/* An iteration was executed at the plan: when each operation ended, ns of a clock that all devices
 * share. True: the plan has changed. */
bool lull_envpipe_loop_take(struct lull_envpipe_loop *loop, const int64_t *end_ns);

/* Whether nothing will be raised any more. */
bool lull_envpipe_loop_is_done(const struct lull_envpipe_loop *loop);

/* How many times the plan was changed. */
uint32_t lull_envpipe_loop_count(const struct lull_envpipe_loop *loop);

#endif
