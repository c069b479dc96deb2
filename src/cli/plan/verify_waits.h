/*
 * Within lull plan --verify: whether a plan's gaps can wait as it says. Threads: any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAN_VERIFY_WAITS_H
#define LULL_CLI_PLAN_VERIFY_WAITS_H

#include "trace/plan_file.h"

/*
 * Finds every wait's gap in the replayed timeline (of each operation) and adds up what it saves;
 * *saved_out only if all is well. Returns 0, or 1 and why not in reason.
 */
int lull_plan_verify_waits(const struct lull_plan_file *plan, const int64_t *begin_ns,
                           const int64_t *end_ns, double *saved_out, char *reason,
                           size_t reason_size);

#endif
