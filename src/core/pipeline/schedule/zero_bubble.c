/* Zero-bubble schedules, whose backward is in two parts. SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "base/minmax.h"
#include "core/pipeline/schedule/families.h"

/* ---- ZB-H1 ---- */

/* Device d puts its first d weight gradients off to the end, where others wait for it to begin. */
static void write_h1_row(struct lull_pipeline_writer *writer)
{
    const uint32_t microbatches = writer->order->microbatches;
    const uint32_t stage = writer->device;
    const uint32_t warm_up = writer->order->devices - stage - 1;
    uint32_t forwards = 0;
    uint32_t weights = 0;

    while (forwards < warm_up && forwards < microbatches)
        lull_pipeline_write(writer, LULL_PIPELINE_FORWARD, stage, forwards++);
    for (uint32_t m = 0; m < microbatches; m++) {
        if (forwards < microbatches)
            lull_pipeline_write(writer, LULL_PIPELINE_FORWARD, stage, forwards++);
        lull_pipeline_write(writer, LULL_PIPELINE_INPUT, stage, m);
        if (m >= stage)
            lull_pipeline_write(writer, LULL_PIPELINE_WEIGHT, stage, weights++);
    }
    while (weights < microbatches)
        lull_pipeline_write(writer, LULL_PIPELINE_WEIGHT, stage, weights++);
}

int lull_pipeline_write_zb_h1(struct lull_pipeline_order *order)
{
    struct lull_pipeline_writer writer = {.order = order};

    for (writer.device = 0; writer.device < order->devices; writer.device++)
        write_h1_row(&writer);
    return writer.rc;
}

/* ---- ZB-V ---- */

/* Counters of one device: the next micro-batch of each chunk (0 the way down, 1 the way back). */
struct v_row {
    struct lull_pipeline_writer *writer;
    uint32_t
        microbatches; /* those that the pattern plays; those that the order lacks are left out */
    uint32_t forward[2];
    uint32_t input[2];
    uint32_t weight[2];
};

/* The pattern may play more micro-batches than the order has; those are counted but not written. */
static void write_v(struct v_row *row, enum lull_pipeline_kind kind, uint32_t chunk)
{
    const struct lull_pipeline_order *order = row->writer->order;
    const uint32_t device = row->writer->device;
    const uint32_t stage = chunk == 0 ? device : order->stages - 1 - device;
    uint32_t *next = row->weight;
    uint32_t microbatch;

    assert(chunk < 2);
    if (kind == LULL_PIPELINE_FORWARD)
        next = row->forward;
    else if (kind == LULL_PIPELINE_INPUT)
        next = row->input;
    microbatch = next[chunk]++;
    if (microbatch < order->microbatches)
        lull_pipeline_write(row->writer, kind, stage, microbatch);
}

static void write_v_backward(struct v_row *row, uint32_t chunk)
{
    write_v(row, LULL_PIPELINE_INPUT, chunk);
    write_v(row, LULL_PIPELINE_WEIGHT, chunk);
}

/* Writes what comes before all backwards run. In the last of the three parts those of one chunk
 * already do. */
static void write_v_warm_up(struct v_row *row, uint32_t from_end, uint32_t from_begin)
{
    for (uint32_t i = 0; i < 2 * from_end + 1; i++)
        write_v(row, LULL_PIPELINE_FORWARD, 0);
    for (uint32_t i = 0; i < from_begin; i++) {
        write_v(row, LULL_PIPELINE_FORWARD, 1);
        write_v(row, LULL_PIPELINE_FORWARD, 0);
    }
    for (uint32_t i = 0; i < from_end + 1; i++) {
        write_v(row, LULL_PIPELINE_FORWARD, 1);
        write_v_backward(row, 1);
    }
}

static void write_v_steady(struct v_row *row)
{
    while (row->forward[1] < row->forward[0] || row->forward[0] < row->microbatches) {
        if (row->forward[0] < row->microbatches)
            write_v(row, LULL_PIPELINE_FORWARD, 0);
        write_v_backward(row, 0);
        write_v(row, LULL_PIPELINE_FORWARD, 1);
        write_v_backward(row, 1);
    }
}

/* Gradients of inputs come first, since others wait for them; weights' fill what is left. */
static void write_v_end(struct v_row *row, uint32_t from_end, uint32_t from_begin)
{
    for (uint32_t i = 0; i < from_begin; i++) {
        write_v(row, LULL_PIPELINE_INPUT, 0);
        write_v(row, LULL_PIPELINE_INPUT, 1);
    }
    for (uint32_t i = 0; i < from_end + 1; i++)
        write_v_backward(row, 0);
    while (row->weight[1] < row->microbatches)
        write_v(row, LULL_PIPELINE_WEIGHT, 1);
    while (row->weight[0] < row->microbatches)
        write_v(row, LULL_PIPELINE_WEIGHT, 0);
}

int lull_pipeline_write_zbv(struct lull_pipeline_order *order)
{
    const uint32_t fewest = 2 * order->devices - 1; /* micro-batches that the pattern needs */
    struct lull_pipeline_writer writer = {.order = order};

    for (uint32_t d = 0; d < order->devices; d++) {
        const uint32_t from_end = order->devices - d - 1;
        struct v_row row = {.writer = &writer,
                            .microbatches = lull_max_u32(order->microbatches, fewest)};

        writer.device = d;
        write_v_warm_up(&row, from_end, d);
        write_v_steady(&row);
        write_v_end(&row, from_end, d);
    }
    return writer.rc;
}
