/*
 * lull plan --verify: replays a plan file from scratch. It finds the times and the energy again
 * from the options of the profile, and the bound from the flow that came with the plan; the solver
 * takes no part. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAN_VERIFY_H
#define LULL_CLI_PLAN_VERIFY_H

#include <stdbool.h>

#include "base/error.h"

/*
 * Verifies a plan file and prints the result. profile: a measured profile's file to evaluate the
 * plan with; null means the profile in the plan. Returns 0 if all claims of the plan hold.
 * Otherwise reports the reason and returns 1. Errors: a file cannot be read.
 */
int lull_plan_verify(const char *path, const char *profile, bool is_json, struct lull_error *err);

#endif
