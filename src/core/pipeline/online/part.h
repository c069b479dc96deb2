/*
 * Part: what one device does in a plan, in the form that a follower and a conductor need. Fixed
 * operations (collectives, the optimizer) are left out: nobody sees them, and they have no clock.
 *
 * Of several devices that an operation sends to, or receives from, only the first one is named.
 *
 * Pure. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_ONLINE_PART_H
#define LULL_CORE_PIPELINE_ONLINE_PART_H

#include <stdint.h>

#include "core/pipeline/online/conductor.h"
#include "core/pipeline/online/follower.h"
#include "core/pipeline/plan.h"

/* The number of operations of a device that are not fixed. */
uint32_t lull_part_count(const struct lull_pipeline_problem *problem, uint32_t device);

/* Fills in the operations that a follower is to follow, lull_part_count() of them, with their
 * lengths in the plan. */
void lull_part_follow(const struct lull_pipeline_problem *problem, const uint32_t *option,
                      uint32_t device, struct lull_follower_op *ops_out);

/*
 * Fills in the operations that a conductor is to set clocks for. clocks_mhz: the clocks of the
 * device's GPU, the highest first, clock_count >= 1; an operation gets the lowest one that is not
 * below what the plan says. begin_ns: of every operation of the graph.
 */
void lull_part_conduct(const struct lull_pipeline_problem *problem, const uint32_t *option,
                       const int64_t *begin_ns, uint32_t device, const uint32_t *clocks_mhz,
                       uint32_t clock_count, struct lull_conductor_op *ops_out);

#endif
