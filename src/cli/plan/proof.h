/*
 * lull plan --prove-j: whether any plan holds a deadline with so little energy
 * (core/pipeline/prove/prove.h). Shows how far it is on standard error, if that is a terminal and
 * it takes long. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAN_PROOF_H
#define LULL_CLI_PLAN_PROOF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "cli/plan/task.h"

/*
 * Prints what was found out. Returns 0, or 1 if it was not decided within the limit of branchings.
 * Errors: -ERANGE no plan is as fast; -ENOMEM.
 */
int lull_plan_prove(const struct lull_plan_task *task, int64_t deadline_ns, double energy_j,
                    uint64_t branchings_limit, bool is_json, struct lull_error *err);

#endif
