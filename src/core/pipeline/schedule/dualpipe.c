/*
 * DualPipeV: DeepSeek's DualPipe, cut in half, on a V of two chunks per device. In its middle every
 * device runs the forward of one chunk and the backward of the other at once.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/pipeline/schedule/families.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct dual_row {
    struct lull_pipeline_writer *writer;
    uint32_t forward[2];  /* the next micro-batch of each chunk */
    uint32_t backward[2]; /* the same for backwards, whole or the input's part */

    /* Weight gradients that were put off, in the order of their backwards. There is room for one
     * per device and chunk, and two more. */
    struct lull_pipeline_action *pending;
    size_t pending_begin;
    size_t pending_end;
};

static uint32_t stage_of(const struct dual_row *row, uint32_t chunk)
{
    const uint32_t device = row->writer->device;

    return chunk == 0 ? device : row->writer->order->stages - 1 - device;
}

static void dualpipe_write_forward(struct dual_row *row, uint32_t chunk)
{
    lull_pipeline_write(row->writer, LULL_PIPELINE_FORWARD, stage_of(row, chunk),
                        row->forward[chunk]++);
}

static void dualpipe_write_backward(struct dual_row *row, uint32_t chunk)
{
    lull_pipeline_write(row->writer, LULL_PIPELINE_BACKWARD, stage_of(row, chunk),
                        row->backward[chunk]++);
}

/* The weight gradient is put off, so that the stage before gets its input gradient sooner. */
static void write_input(struct dual_row *row, uint32_t chunk)
{
    const struct lull_pipeline_action weight = {.kind = LULL_PIPELINE_WEIGHT,
                                                .stage = stage_of(row, chunk),
                                                .microbatch = row->backward[chunk]};

    lull_pipeline_write(row->writer, LULL_PIPELINE_INPUT, weight.stage, weight.microbatch);
    row->backward[chunk]++;
    assert(row->pending_end < 2 * (size_t)row->writer->order->devices + 2);
    row->pending[row->pending_end++] = weight;
}

static void write_pending(struct dual_row *row)
{
    const struct lull_pipeline_action *weight;

    if (row->pending_begin == row->pending_end)
        return;
    weight = &row->pending[row->pending_begin++];
    lull_pipeline_write(row->writer, weight->kind, weight->stage, weight->microbatch);
}

/* Writes the forward of one chunk with the backward of the other. */
static void write_overlap(struct dual_row *row, uint32_t chunk)
{
    const uint32_t other = 1 - chunk;
    const struct lull_pipeline_action action = {
        .kind = LULL_PIPELINE_OVERLAP,
        .stage = stage_of(row, chunk),
        .microbatch = row->forward[chunk]++,
        .partner_stage = stage_of(row, other),
        .partner_microbatch = row->backward[other]++,
    };

    if (row->writer->rc >= 0)
        row->writer->rc = lull_pipeline_order_add(row->writer->order, row->writer->device, &action);
}

/* Devices near the start of the V run more forwards of the first chunk ahead, those near its end
 * more pairs of forwards, until the first backward can come back to them. */
static void write_begin(struct dual_row *row, uint32_t from_begin, uint32_t from_end)
{
    for (uint32_t i = 0; i < 2 * from_end; i++)
        dualpipe_write_forward(row, 0);
    for (uint32_t i = 0; i < from_begin + 1; i++) {
        dualpipe_write_forward(row, 0);
        dualpipe_write_forward(row, 1);
    }
    for (uint32_t i = 0; i < from_end; i++) {
        write_input(row, 1);
        write_pending(row);
        dualpipe_write_forward(row, 1);
    }
}

/* The last device's first pair does not overlap: the backward would wait for the pair's end. */
static void write_middle(struct dual_row *row, uint32_t from_begin, uint32_t from_end)
{
    const struct lull_pipeline_order *order = row->writer->order;
    const uint32_t pairs = order->microbatches + from_begin + 1 - 2 * order->devices;

    for (uint32_t i = 0; i < pairs; i++) {
        if (i == 0 && from_end == 0) {
            dualpipe_write_forward(row, 0);
            dualpipe_write_backward(row, 1);
        } else {
            write_overlap(row, 0);
        }
        write_overlap(row, 1);
    }
    for (uint32_t i = 0; i < from_end; i++) {
        dualpipe_write_backward(row, 1);
        write_overlap(row, 1);
    }
}

static void write_either(struct dual_row *row, uint32_t chunk, bool is_split)
{
    if (is_split)
        write_input(row, chunk);
    else
        dualpipe_write_backward(row, chunk);
}

/* The second half of the last backwards is split, so that neighbours wait less; where in a pair the
 * split begins depends on the device, odd or even. */
static void write_end(struct dual_row *row, uint32_t from_begin, uint32_t from_end)
{
    const uint32_t half = (from_begin + 1) / 2;
    const bool is_odd = from_begin % 2 == 1;

    for (uint32_t i = 0; i < from_begin + 1; i++) {
        write_either(row, 1, is_odd ? i >= half : i > half);
        write_either(row, 0, i >= half);
    }
    for (uint32_t i = 0; i < from_end; i++) {
        write_pending(row);
        write_input(row, 0);
    }
    while (row->pending_begin < row->pending_end)
        write_pending(row);
}

int lull_pipeline_write_dualpipev(struct lull_pipeline_order *order)
{
    const size_t room = 2 * (size_t)order->devices + 2;
    struct lull_pipeline_writer writer = {.order = order};
    struct dual_row row = {.writer = &writer};

    row.pending = calloc(room, sizeof(*row.pending));
    if (row.pending == NULL)
        return -ENOMEM;
    for (uint32_t d = 0; d < order->devices; d++) {
        row = (struct dual_row){.writer = &writer, .pending = row.pending};
        writer.device = d;
        write_begin(&row, d, order->devices - d - 1);
        write_middle(&row, d, order->devices - d - 1);
        write_end(&row, d, order->devices - d - 1);
    }
    free(row.pending);
    return writer.rc;
}
