/*
 * Declarations shared by the files of schedule.h: each family writes a device's row action by
 * action. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_SCHEDULE_FAMILIES_H
#define LULL_CORE_PIPELINE_SCHEDULE_FAMILIES_H

#include "core/pipeline/schedule/schedule.h"

/* Writes one device's row. After the first failure it adds nothing any more. */
struct lull_pipeline_writer {
    struct lull_pipeline_order *order;
    uint32_t device;
    int rc;
};

static inline void lull_pipeline_write(struct lull_pipeline_writer *writer,
                                       enum lull_pipeline_kind kind, uint32_t stage,
                                       uint32_t microbatch)
{
    const struct lull_pipeline_action action = {
        .kind = kind, .stage = stage, .microbatch = microbatch};

    if (writer->rc >= 0)
        writer->rc = lull_pipeline_order_add(writer->order, writer->device, &action);
}

/* Each fills the rows of an order whose numbers are set and whose rows are empty. hoist: how many
 * more forwards of warm-up each device has; null: none. Errors: -ENOMEM, -E2BIG. */
int lull_pipeline_write_gpipe(struct lull_pipeline_order *order);
int lull_pipeline_write_1f1b(struct lull_pipeline_order *order, const uint32_t *hoist,
                             bool recomputes);
int lull_pipeline_write_interleaved(struct lull_pipeline_order *order, uint32_t group);
int lull_pipeline_write_zb_h1(struct lull_pipeline_order *order);
int lull_pipeline_write_zbv(struct lull_pipeline_order *order);
int lull_pipeline_write_dualpipev(struct lull_pipeline_order *order);

#endif
