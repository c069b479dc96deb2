/*
 * A recorded rank: what ran on its GPU, and when. It is read from the files of other people's
 * profilers: Kineto's (kineto.h); a timeline of operations (timeline.h) is of all ranks of a job,
 * and a recording (recording.h) is what lull run has written of a run.
 *
 * Kernels whose names are in data/communication_kernels.json communicate, all others compute;
 * copies between peers count as kernels that communicate. Times are exact nanoseconds of the
 * trace's own clock. Unknown numbers are LULL_TRACE_UNKNOWN.
 *
 * Threads: any; a trace belongs to its caller. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_TRACE_H
#define LULL_TRACE_TRACE_H

#include <regex.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define LULL_TRACE_UNKNOWN INT64_C(-1)

/* One kernel on a GPU. */
struct lull_trace_kernel {
    int64_t begin_ns; /* 0 <= begin_ns <= end_ns */
    int64_t end_ns;
    const char *operation; /* "allreduce", "alltoall", "sendrecv", ..., "communication" where it is
                            * not known which; null: it computes */
    int64_t bytes;         /* payload of this rank */
    int64_t ranks;         /* size of the process group */
    int64_t device;
    int64_t stream;
    int64_t correlation; /* the same number as its launch */
    uint32_t name;       /* lull_trace_string() */
    uint32_t group;      /* process group's name; "" unknown */
};

/* A call on the CPU that launched kernels, or a graph of them. */
struct lull_trace_launch {
    int64_t correlation;
    int64_t begin_ns;
    int64_t end_ns;
};

/* An iteration as the program's profiler marked it. */
struct lull_trace_step {
    int64_t number;
    int64_t begin_ns;
    int64_t end_ns;
};

struct lull_string_set; /* opaque */
struct lull_operation_timeline;
struct lull_run_recording;

struct lull_trace {
    struct lull_trace_kernel *kernels; /* by begin_ns */
    size_t kernel_count;
    struct lull_trace_launch *launches; /* by correlation */
    size_t launch_count;
    struct lull_trace_step *steps; /* by begin_ns; each number once */
    size_t step_count;
    struct lull_string_set *strings;
    struct lull_operation_timeline
        *timeline; /* null: the trace is of kernels; else it has no kernels */
    struct lull_run_recording
        *recording; /* null: it is not what lull run wrote; else it has neither */
    int64_t rank;
    int64_t world_size;
    char gpu[64];              /* product name of the first kernel's device; "" unknown */
    uint64_t events;           /* of any kind */
    uint64_t unusable_kernels; /* left out, because they have no usable times */
    int64_t text_bytes;
};

/* Called after every quarter mebibyte of text; done_ratio is negative where it is not known. */
struct lull_trace_progress {
    void (*tell)(void *context, int64_t text_bytes, double done_ratio);
    void *context;
};

struct lull_trace_options {
    const struct lull_trace_progress *progress; /* null: nobody wants to know */
    const regex_t *communicates;                /* further kernels that do, by name; null: none */
};

/*
 * Reads a file of any known format, plain or gzip ("-" is standard input), into the caller's
 * storage; options may be null. A trace without any kernel is no error. Errors: LULL_E_FORMAT the
 * file is empty or of no known format, and the text lists those that there are; malformed or
 * truncated, with byte and line; -ENOMEM; those of lull_source_open. Nothing is left to free then.
 */
int lull_trace_read(const char *path, const struct lull_trace_options *options,
                    struct lull_trace *trace_out, struct lull_error *err);

/* Null is allowed. */
void lull_trace_fini(struct lull_trace *trace);

/* The text of a kernel's name or group, cut to 255 bytes. Lives as long as the trace. */
const char *lull_trace_string(const struct lull_trace *trace, uint32_t index);

/* The first launch with this correlation; null: there is none. O(log n). */
const struct lull_trace_launch *lull_trace_find_launch(const struct lull_trace *trace,
                                                       int64_t correlation);

#endif
