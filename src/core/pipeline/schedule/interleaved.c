/* Interleaved 1F1B as Megatron-LM runs it. SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/schedule/families.h"

/* Forward number `step` of a device: groups of micro-batches pass chunk after chunk. */
struct step {
    uint32_t chunk;
    uint32_t microbatch;
};

static struct step step_at(const struct lull_pipeline_order *order, uint32_t group, uint64_t step)
{
    const uint32_t chunks = order->stages / order->devices;
    const uint64_t first = step / ((uint64_t)group * chunks) * group;
    const uint64_t rest = step - first * chunks;
    const uint64_t left = order->microbatches - first;
    const uint64_t size = left < group ? left : group; /* the last group may be smaller */

    return (struct step){(uint32_t)(rest / size), (uint32_t)(first + rest % size)};
}

static void write_forward(struct lull_pipeline_writer *writer, uint32_t group, uint64_t at)
{
    const struct step step = step_at(writer->order, group, at);

    lull_pipeline_write(writer, LULL_PIPELINE_FORWARD,
                        step.chunk * writer->order->devices + writer->device, step.microbatch);
}

/* Chunks in the opposite order. */
static void write_backward(struct lull_pipeline_writer *writer, uint32_t group, uint64_t at)
{
    const struct lull_pipeline_order *order = writer->order;
    const struct step step = step_at(order, group, at);
    const uint32_t chunk = order->stages / order->devices - 1 - step.chunk;

    lull_pipeline_write(writer, LULL_PIPELINE_BACKWARD, chunk * order->devices + writer->device,
                        step.microbatch);
}

int lull_pipeline_write_interleaved(struct lull_pipeline_order *order, uint32_t group)
{
    const uint64_t chunks = order->stages / order->devices;
    const uint64_t steps = chunks * order->microbatches;
    struct lull_pipeline_writer writer = {.order = order};

    for (uint32_t d = 0; d < order->devices; d++) {
        const uint64_t wanted = 2 * (uint64_t)(order->devices - d - 1) + (chunks - 1) * group;
        const uint64_t warm_up = wanted < steps ? wanted : steps;

        writer.device = d;
        for (uint64_t i = 0; i < warm_up; i++)
            write_forward(&writer, group, i);
        for (uint64_t i = warm_up; i < steps; i++) {
            write_forward(&writer, group, i);
            write_backward(&writer, group, i - warm_up);
        }
        for (uint64_t i = steps - warm_up; i < steps; i++)
            write_backward(&writer, group, i);
    }
    return writer.rc;
}
