/*
 * What the files of order.h share: reading an action. Private to core/pipeline.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_SCHEDULE_ORDER_ACTION_H
#define LULL_CORE_PIPELINE_SCHEDULE_ORDER_ACTION_H

#include <stdbool.h>

#include "core/pipeline/schedule/order.h"

/* A forward, alone or in an overlap; of action->stage and action->microbatch. */
bool lull_pipeline_action_is_forward(const struct lull_pipeline_action *action);

/* Does the action compute a gradient of an input (backward, input, overlap), and whose? */
bool lull_pipeline_action_backward(const struct lull_pipeline_action *action, uint32_t *stage_out,
                                   uint32_t *microbatch_out);

/* Of all devices. */
size_t lull_pipeline_order_actions(const struct lull_pipeline_order *order);

#endif
