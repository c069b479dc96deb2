/*
 * Reader of traces of the PyTorch profiler (Kineto) and other Chrome traces: what ran on the GPU.
 *
 * The text is JSON, plain or gzip: an object with traceEvents, or the bare array of events; keys in
 * any order; with what real files get wrong (trace/json.h). It is read as a stream: memory
 * grows with the number of GPU kernels and launches, not with the text.
 *
 * Kernels are events with cat "kernel" (any case) and ph "X"; those with "nccl" in their name (any
 * case) communicate, all others compute. Times are ts and dur, microseconds with fractions, as
 * exact nanoseconds of the trace's own clock. Unknown numbers are LULL_TRACE_UNKNOWN.
 *
 * Threads: any; a trace belongs to its caller. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_KINETO_H
#define LULL_TRACE_KINETO_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define LULL_TRACE_UNKNOWN INT64_C(-1)

/* One kernel on a GPU. */
struct lull_trace_kernel {
    int64_t begin_ns; /* 0 <= begin_ns <= end_ns */
    int64_t end_ns;
    const char *operation; /* "allreduce", "alltoall", "sendrecv", ..., "communication" where it is
                            * not known which; NULL: it computes */
    int64_t bytes;         /* payload of this rank */
    int64_t ranks;         /* size of the process group */
    int64_t device;
    int64_t stream;
    int64_t correlation; /* with its launch */
    int64_t external_id; /* of the operator that launched it */
    uint32_t name;       /* lull_trace_string() */
    uint32_t group;      /* process group's name; "" unknown */
};

/* A call that launched kernels, or a graph of them, on the CPU. */
struct lull_trace_launch {
    int64_t correlation;
    int64_t begin_ns;
    int64_t end_ns;
};

/* An iteration as the program's profiler marked it (ProfilerStep#N). */
struct lull_trace_step {
    int64_t number;
    int64_t begin_ns;
    int64_t end_ns;
};

struct lull_string_set; /* opaque */

struct lull_trace {
    struct lull_trace_kernel *kernels; /* by begin_ns */
    size_t kernel_count;
    struct lull_trace_launch *launches; /* by correlation */
    size_t launch_count;
    struct lull_trace_step *steps; /* by begin_ns; each number once */
    size_t step_count;
    struct lull_string_set *strings;
    int64_t rank;
    int64_t world_size;
    int64_t base_ns;           /* what times count from since 1970, if the trace says so */
    char gpu[64];              /* product name of the first kernel's device; "" unknown */
    uint64_t events;           /* of any kind */
    uint64_t unusable_kernels; /* left out: without ts or dur, or these no times */
    int64_t text_bytes;
};

/* Called after every quarter mebibyte of text; done_ratio below 0: not known. */
struct lull_trace_progress {
    void (*tell)(void *context, int64_t text_bytes, double done_ratio);
    void *context;
};

/*
 * Reads a file ("-": standard input) into the caller's storage; progress may be NULL. A trace
 * without any kernel is no error. Errors: LULL_E_FORMAT malformed, truncated or empty, with byte
 * and line; -errno; -ENOMEM. Nothing is left to free then.
 */
int lull_trace_read(const char *path, const struct lull_trace_progress *progress,
                    struct lull_trace *trace_out, struct lull_error *err);

/* The same of a plain text in memory; name is for messages. */
int lull_trace_read_memory(const char *name, const char *text, size_t size,
                           struct lull_trace *trace_out, struct lull_error *err);

void lull_trace_fini(struct lull_trace *trace);

/* The text of a kernel's name or group, cut to 255 bytes. Lives as long as the trace. */
const char *lull_trace_string(const struct lull_trace *trace, uint32_t index);

/* The launch with this correlation; NULL: none. O(log n). */
const struct lull_trace_launch *lull_trace_find_launch(const struct lull_trace *trace,
                                                       int64_t correlation);

#endif
