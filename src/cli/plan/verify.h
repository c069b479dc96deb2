/*
 * lull plan --verify: replays a plan file from scratch. Its times and energy are found anew from
 * the options of the profile, its bound from the flow that came with it; the solver takes no part.
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAN_VERIFY_H
#define LULL_CLI_PLAN_VERIFY_H

#include <stdbool.h>

#include "base/error.h"

/*
 * Prints what was found. profile: a measured profile to evaluate the plan with, NULL: the one in
 * the plan. Returns 0 if the plan holds all that it claims, 1 if not (and says why). Errors: what
 * cannot be read.
 */
int lull_plan_verify(const char *path, const char *profile, bool is_json, struct lull_error *err);

#endif
