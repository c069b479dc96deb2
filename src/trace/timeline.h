/*
 * Timelines of operations: what the ranks of a pipeline-parallel job did in some of its steps, not
 * kernel by kernel but operation by operation (forward-compute, backward-send,
 * grads-reduce-scatter, ...).
 *
 * The format is a Chrome trace as Megatron's timers are exported by ByteDance's straggler analysis:
 * pid is the data parallel copy, a thread_name record names each tid "PP rank P, TP rank T, STREAM"
 * with STREAM one of compute, pp-comm, tp-comm, dp-comm, misc, and complete events have args.step
 * and args.model_chunk. Steps are samples of a longer job, so their numbers have holes.
 *
 * Threads: any; a timeline belongs to its caller. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_TIMELINE_H
#define LULL_TRACE_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/trace.h"

/* Thread of its rank that ran an operation. */
enum lull_timeline_stream {
    LULL_STREAM_COMPUTE,
    LULL_STREAM_PIPELINE, /* sends and receives */
    LULL_STREAM_TENSOR,
    LULL_STREAM_DATA, /* data parallel collectives */
    LULL_STREAM_MISC,
};

enum lull_timeline_kind {
    LULL_TIMELINE_FORWARD,
    LULL_TIMELINE_BACKWARD,
    LULL_TIMELINE_FORWARD_SEND,
    LULL_TIMELINE_FORWARD_RECEIVE,
    LULL_TIMELINE_BACKWARD_SEND,
    LULL_TIMELINE_BACKWARD_RECEIVE,
    LULL_TIMELINE_PARAMETERS,
    LULL_TIMELINE_GRADIENTS,
    LULL_TIMELINE_EMBEDDING,
    LULL_TIMELINE_LAYERNORM,
    LULL_TIMELINE_CLIP,
    LULL_TIMELINE_OPTIMIZER,
    LULL_TIMELINE_GARBAGE,
    LULL_TIMELINE_OTHER, /* a name that is not known */
    LULL_TIMELINE_KINDS
};

/* The ranks that an operation waits for: it continues when the last of them has started it. */
enum lull_timeline_scope {
    LULL_SCOPE_RANK,   /* no other rank */
    LULL_SCOPE_PAIR,   /* the stage that it sends to or receives from */
    LULL_SCOPE_COPIES, /* the same stage of all data parallel copies */
    LULL_SCOPE_ENDS,   /* the other end of its copy's pipeline: the stages that have it */
    LULL_SCOPE_STEP,   /* all ranks */
};

struct lull_timeline_op {
    int64_t begin_ns;
    int64_t duration_ns;
    uint32_t step; /* index into steps */
    uint32_t rank; /* index into ranks */
    int64_t chunk; /* of the model; LULL_TRACE_UNKNOWN */
    enum lull_timeline_kind kind;
    enum lull_timeline_stream stream;
};

struct lull_timeline_rank {
    int64_t copy; /* data parallel */
    int64_t stage;
    int64_t tensor;
};

struct lull_operation_timeline {
    struct lull_timeline_op *ops; /* by step, then by begin_ns */
    size_t op_count;
    struct lull_timeline_rank *ranks; /* by copy, stage and tensor */
    size_t rank_count;
    int64_t *steps; /* the steps' numbers, growing */
    size_t step_count;
    uint64_t unusable_ops; /* left out: no step, no usable times, or a thread without a rank */
};

/* A complete event that may be an operation. */
struct lull_timeline_event {
    const char *name;
    const char *process; /* pid and tid as they stand */
    const char *thread;
    int64_t ts_ns; /* INT64_MIN: missing, so for dur_ns */
    int64_t dur_ns;
    int64_t step; /* LULL_TRACE_UNKNOWN */
    int64_t chunk;
};

struct lull_timeline_reading; /* opaque: a timeline that is being read */

/* Null: out of memory. Borrows the file's name. */
struct lull_timeline_reading *lull_timeline_reading_create(const char *name);
void lull_timeline_reading_destroy(struct lull_timeline_reading *reading);

/* Takes the name of a thread; the order of names and events does not matter. -ENOMEM. */
int lull_timeline_add_thread(struct lull_timeline_reading *reading, const char *process,
                             const char *thread, const char *name, struct lull_error *err);

/* Takes an event; an event without a step does not belong to an operation. -ENOMEM. */
int lull_timeline_add_event(struct lull_timeline_reading *reading,
                            const struct lull_timeline_event *event, struct lull_error *err);

/* Returns whether a thread of a rank, or an operation by its name, has been taken. */
bool lull_timeline_is_one(const struct lull_timeline_reading *reading);

/* Gives the timeline. events: all in the file, for the message. -ENOMEM; LULL_E_FORMAT no operation
 * belongs to a rank. */
int lull_timeline_finish(struct lull_timeline_reading *reading, uint64_t events,
                         struct lull_operation_timeline **timeline_out, struct lull_error *err);

/* Null is allowed. */
void lull_timeline_destroy(struct lull_operation_timeline *timeline);

/* Name of a kind, with sends and receives as one: "forward-pp-comm". Static. */
const char *lull_timeline_operation(enum lull_timeline_kind kind);

enum lull_timeline_scope lull_timeline_scope(enum lull_timeline_kind kind);

#endif
