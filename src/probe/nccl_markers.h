/*
 * Markers around a collective on its stream: the GPU writes one word of pinned host memory when all
 * earlier work of the stream is done, and one when the collective is. A watcher thread sees the
 * words change and pushes KERNEL_BEGIN and KERNEL_END with the host time.
 *
 * Streams that are being captured into a graph get none, nor does anything while the governor
 * requests no times. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_PROBE_NCCL_MARKERS_H
#define LULL_PROBE_NCCL_MARKERS_H

#include <stdint.h>

#include "wire/event.h"

/* A collective that is being bracketed; it is not if the queue is NULL. */
struct lull_nccl_bracket {
    struct lull_nccl_queue *queue;
    void *stream;
    uint32_t number;
};

/* Begins to bracket what is enqueued next on the stream; the event describes it. */
struct lull_nccl_bracket lull_nccl_bracket_begin(void *stream, const struct lull_event *event);

void lull_nccl_bracket_end(const struct lull_nccl_bracket *bracket);

#endif
