/*
 * Additional time that a run needs until a lowered clock can be accepted. These functions only read
 * a control that is stopped or locked. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_RUN_MISSING_H
#define LULL_GOVERNOR_RUN_RUN_MISSING_H

#include "governor/run/run_pass.h"

/* Returns the track of a GPU's rank. */
static inline const struct lull_track *lull_run_track(const struct lull_run_pass *pass,
                                                      uint32_t gpu)
{
    return lull_controller_look_gpu(lull_control_controller(pass->control), gpu).track;
}

/* Returns how many iterations a GPU's rank has had; 0: not one is known. A track counts them from
 * the last deviation on, the log from the first that was known. */
uint64_t lull_run_seen_iterations(const struct lull_run_pass *pass, uint32_t gpu);

/* Returns how long an iteration was on average, s; 0: not one is known. */
double lull_run_iteration_s(const struct lull_run_pass *pass, uint32_t gpu);

/* Returns about how many iterations are missing until something can be kept. */
uint64_t lull_run_missing_iterations(const struct lull_run_pass *pass, uint32_t gpu);

#endif
