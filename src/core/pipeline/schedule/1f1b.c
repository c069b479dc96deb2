/* GPipe, 1F1B and what EnvPipe makes of it. SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/schedule/families.h"

static uint32_t min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

int lull_pipeline_write_gpipe(struct lull_pipeline_order *order)
{
    struct lull_pipeline_writer writer = {.order = order};

    for (uint32_t d = 0; d < order->devices; d++) {
        writer.device = d;
        for (uint32_t m = 0; m < order->microbatches; m++)
            lull_pipeline_write(&writer, LULL_PIPELINE_FORWARD, d, m);
        for (uint32_t m = 0; m < order->microbatches; m++)
            lull_pipeline_write(&writer, LULL_PIPELINE_BACKWARD, d, m);
    }
    return writer.rc;
}

static void write_row(struct lull_pipeline_writer *writer, uint32_t warm_up, bool recomputes)
{
    const uint32_t microbatches = writer->order->microbatches;
    const uint32_t stage = writer->device;
    uint32_t forwards = 0;

    while (forwards < warm_up)
        lull_pipeline_write(writer, LULL_PIPELINE_FORWARD, stage, forwards++);
    for (uint32_t m = 0; m < microbatches; m++) {
        if (recomputes)
            lull_pipeline_write(writer, LULL_PIPELINE_RECOMPUTE, stage, m);
        lull_pipeline_write(writer, LULL_PIPELINE_BACKWARD, stage, m);
        if (forwards < microbatches)
            lull_pipeline_write(writer, LULL_PIPELINE_FORWARD, stage, forwards++);
    }
}

int lull_pipeline_write_1f1b(struct lull_pipeline_order *order, const uint32_t *hoist,
                             bool recomputes)
{
    struct lull_pipeline_writer writer = {.order = order};

    for (uint32_t d = 0; d < order->devices; d++) {
        const uint32_t more = hoist != NULL ? hoist[d] : 0;
        const uint32_t warm_up = min(order->devices - d, order->microbatches) + more;

        writer.device = d;
        write_row(&writer, min(warm_up, order->microbatches), recomputes);
    }
    return writer.rc;
}
