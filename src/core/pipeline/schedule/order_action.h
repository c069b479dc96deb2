/*
 * Declarations shared by the files of order.h: the parts of a forward and a backward that an action
 * has. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_SCHEDULE_ORDER_ACTION_H
#define LULL_CORE_PIPELINE_SCHEDULE_ORDER_ACTION_H

#include <stdbool.h>

#include "core/pipeline/schedule/order.h"

/* Returns whether the action has a forward of action->stage and action->microbatch, alone or in an
 * overlap.
 */
bool lull_pipeline_action_is_forward(const struct lull_pipeline_action *action);

/* Returns whether the action computes the gradient of an input (backward, input, overlap), and of
 * which stage and micro-batch. */
bool lull_pipeline_action_backward(const struct lull_pipeline_action *action, uint32_t *stage_out,
                                   uint32_t *microbatch_out);

/* Number of actions of all devices together. */
size_t lull_pipeline_order_actions(const struct lull_pipeline_order *order);

#endif
