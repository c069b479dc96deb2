/*
 * Operations of one device in a plan, in the form that an op tracker and a plan controller need.
 * Fixed operations (collectives, the optimizer) are left out: they are not observed, and they have
 * no clock.
 *
 * Of several devices that an operation sends to, or receives from, only the first one is named.
 *
 * Pure. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_FOLLOW_DEVICE_PLAN_H
#define LULL_CORE_PIPELINE_FOLLOW_DEVICE_PLAN_H

#include <stdint.h>

#include "core/pipeline/follow/plan_controller.h"
#include "core/pipeline/follow/op_tracker.h"
#include "core/pipeline/model/plan.h"

/* The number of operations of a device that are not fixed. */
uint32_t lull_device_plan_count(const struct lull_pipeline_problem *problem, uint32_t device);

/* Fills in the operations that a tracker is to follow, lull_device_plan_count() of them, with their
 * lengths in the plan. */
void lull_device_plan_track(const struct lull_pipeline_problem *problem, const uint32_t *point,
                            uint32_t device, struct lull_op_tracker_op *ops_out);

/*
 * Fills in the operations that a plan controller is to set clocks for. clocks_mhz: the clocks of
 * the device's GPU, the highest first, clock_count >= 1; an operation gets the lowest one that is
 * not below what the plan says. begin_ns: of every operation of the graph.
 */
void lull_device_plan_control(const struct lull_pipeline_problem *problem, const uint32_t *point,
                              const int64_t *begin_ns, uint32_t device, const uint32_t *clocks_mhz,
                              uint32_t clock_count, struct lull_plan_controller_op *ops_out);

#endif
