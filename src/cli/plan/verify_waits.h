/*
 * The part of lull plan --verify that checks a plan's gaps. Threads: any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAN_VERIFY_WAITS_H
#define LULL_CLI_PLAN_VERIFY_WAITS_H

#include "trace/plan_file.h"

/*
 * Finds every wait's gap in the replayed times of operations, checks that the device can wait there
 * as the plan says, and adds up what it saves. Returns 0 and sets *saved_out; or 1 and writes to
 * reason what is wrong.
 */
int lull_plan_verify_waits(const struct lull_plan_file *plan, const int64_t *begin_ns,
                           const int64_t *end_ns, double *saved_out, char *reason,
                           size_t reason_size);

#endif
