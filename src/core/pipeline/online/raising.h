/*
 * Raising: EnvPipe's loop in the running job (Choi et al., USENIX ATC'23): execute the plan, find
 * the critical path of what happened, raise clocks on it, until the path has stayed in the outer
 * envelope for ten iterations in a row. core/pipeline/envpipe.h says what differs from the
 * publication; besides, the path is found from when operations really ended, not from receive
 * times.
 *
 * Pure; create/destroy; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_ONLINE_RAISING_H
#define LULL_CORE_PIPELINE_ONLINE_RAISING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/pipeline/envpipe.h"

struct lull_raising;

/* The problem is borrowed until destroy. tie_ns: see lull_envpipe_step(). NULL: no memory. */
struct lull_raising *lull_raising_create(const struct lull_pipeline_problem *problem,
                                         int64_t tie_ns);
void lull_raising_destroy(struct lull_raising *raising);

/* The plan to be executed, op_count indices into the options. */
const uint32_t *lull_raising_options(const struct lull_raising *raising);

/* An iteration was executed at the plan: when each operation ended, ns of a clock that all devices
 * share. True: the plan has changed. */
bool lull_raising_take(struct lull_raising *raising, const int64_t *end_ns);

/* Whether nothing will be raised any more. */
bool lull_raising_is_done(const struct lull_raising *raising);

/* How many times the plan was changed. */
uint32_t lull_raising_count(const struct lull_raising *raising);

#endif
