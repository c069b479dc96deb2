/*
 * A recorded rank: what ran on its GPU, and when. It is read from the files of other people's
 * profilers: Kineto's (kineto.h); a timeline of operations (timeline.h) is of all ranks of a job,
 * and a recording (recording.h) is what lull run has written of a run.
 *
 * Kernels whose names are in data/communication_kernels.json communicate, all others compute;
 * copies are left out, but those between peers count as kernels that communicate. Times are exact
 * nanoseconds of the trace's own clock; where that has times below 0, all are counted from the
 * earliest. Unknown numbers are LULL_TRACE_UNKNOWN.
 *
 * A file may hold the kernels of several GPUs: of one process, or of ranks that were merged.
 * lull_trace_of_gpu() gives each as a trace of its own.
 *
 * Threads: any; a trace belongs to its caller. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_TRACE_H
#define LULL_TRACE_TRACE_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define LULL_TRACE_UNKNOWN INT64_C(-1)

enum { LULL_TRACE_GPUS = 256 }; /* in one file; the kernels of more are left out */

/* One kernel on a GPU. */
struct lull_trace_kernel {
    int64_t begin_ns; /* 0 <= begin_ns <= end_ns */
    int64_t end_ns;
    const char *operation; /* "allreduce", "alltoall", "sendrecv", ..., "communication" where it is
                            * not known which; null: it computes */
    int64_t bytes;         /* payload of this rank */
    int64_t ranks;         /* size of the process group */
    int64_t stream;
    int64_t correlation; /* the same number as its launch */
    uint32_t name;       /* lull_trace_string() */
    uint32_t group;      /* process group's name; "" unknown */
    uint32_t gpu;        /* index into the GPUs of the file */
};

/* A call on the CPU that launched kernels, or a graph of them. */
struct lull_trace_launch {
    int64_t correlation;
    int64_t begin_ns;
    int64_t end_ns;
    uint32_t label; /* of its process, as that of a GPU */
    bool is_graph;
};

/* An iteration as the program's profiler marked it. */
struct lull_trace_step {
    int64_t number;
    int64_t begin_ns;
    int64_t end_ns;
    uint32_t label;
};

/* The phases of a server's steps (phases.h). */
enum lull_trace_phase {
    LULL_TRACE_PREFILL,
    LULL_TRACE_MIXED, /* prompts and output tokens in one step */
    LULL_TRACE_DECODE,
    LULL_TRACE_PHASES
};

/* A step as an inference server marked it. Numbers may be LULL_TRACE_UNKNOWN. */
struct lull_trace_mark {
    int64_t begin_ns;
    int64_t end_ns;
    int64_t prompt_requests;
    int64_t prompt_tokens;
    int64_t output_requests;
    int64_t output_tokens;
    enum lull_trace_phase phase;
    bool is_on_gpu; /* its times are those of its kernels, not of their launches */
    uint32_t label;
};

/* One GPU of a file. */
struct lull_trace_gpu {
    uint32_t process;    /* lull_trace_string(): the pid of its kernels; "" unknown */
    uint32_t label;      /* the common part of the pids of merged ranks; "" none */
    int64_t device;      /* its number */
    size_t first_kernel; /* its kernels among those of the trace */
    size_t kernel_count;
    size_t first_launch;
    size_t launch_count;
    size_t first_step;
    size_t step_count;
    size_t first_mark;
    size_t mark_count;
    char name[64]; /* product; "" unknown */
};

/* Events left out of a trace because they are unreadable or impossible. */
struct lull_trace_loss {
    uint64_t events;        /* their text is not JSON */
    bool has_no_end;        /* the text ends behind an event, not behind the list of them */
    uint64_t no_times;      /* kernels without usable ts and dur */
    uint64_t before_launch; /* kernels that begin before they were launched */
    uint64_t other_clock;   /* kernels far from all others */
    uint64_t unpaired;      /* kernels of which only the start or the end is there */
    uint64_t doubled;       /* kernels that are there twice */
    uint64_t cut;    /* not left out: kernels that end, as far as is known, when the next one of
                      * their stream begins; the file has a later end */
    uint64_t copies; /* kernels that neither compute nor communicate; not counted as a loss */
    uint64_t likely; /* not left out: kernels that compute, but have a collective's name */
    uint32_t likely_name;  /* of one of these */
    char first_fault[160]; /* the first error among the events, with its place */
};

struct lull_string_set; /* opaque */
struct lull_operation_timeline;
struct lull_run_recording;

struct lull_trace {
    struct lull_trace_kernel *kernels; /* by GPU, then begin_ns */
    size_t kernel_count;
    struct lull_trace_launch *launches; /* by label, then correlation */
    size_t launch_count;
    struct lull_trace_step *steps; /* by label, then begin_ns; each number once */
    size_t step_count;
    struct lull_trace_mark *marks; /* by label, then begin_ns */
    size_t mark_count;
    struct lull_trace_gpu *gpus; /* those that have kernels */
    size_t gpu_count;
    struct lull_string_set *strings;
    struct lull_operation_timeline
        *timeline; /* null: the trace is of kernels; else it has no kernels */
    struct lull_run_recording
        *recording; /* null: it is not what lull run wrote; else it has neither */
    int64_t rank;
    int64_t world_size;
    char gpu[64];    /* product name of the first GPU; "" unknown */
    uint64_t events; /* of any kind */
    struct lull_trace_loss loss;
    char contents[160]; /* content of the file instead of kernels; "": it has kernels */
    int64_t text_bytes;
};

/* Called after every quarter mebibyte of text; done_ratio is negative where it is not known. */
struct lull_trace_progress {
    void (*tell)(void *context, int64_t text_bytes, double done_ratio);
    void *context;
};

struct lull_trace_options {
    const struct lull_trace_progress *progress; /* null: no callback */
    const regex_t *communicates;                /* further kernels that do, by name; null: none */
};

/*
 * Reads a file of any known format, plain or gzip ("-" is standard input), into the caller's
 * storage; options may be null. A trace without any kernel is not an error. Errors: LULL_E_FORMAT
 * the file is empty or of no known format, and the text lists those that there are; malformed or
 * truncated, with byte and line; -ENOMEM; those of lull_source_open. Nothing is left to free then.
 */
int lull_trace_read(const char *path, const struct lull_trace_options *options,
                    struct lull_trace *trace_out, struct lull_error *err);

/* Null is allowed. */
void lull_trace_fini(struct lull_trace *trace);

/* The number of kernels that were left out because their times are impossible. */
uint64_t lull_trace_unusable_kernels(const struct lull_trace_loss *loss);

/* Returns LULL_E_FORMAT if a trace has no kernels, with a text that says
 * what the file contains instead but does not name the file. Else 0. */
int lull_trace_require_kernels(const struct lull_trace *trace, struct lull_error *err);

/* Returns a trace of one GPU only. It borrows all its data, so do not free it. */
struct lull_trace lull_trace_of_gpu(const struct lull_trace *trace, size_t gpu);

/* The text of a kernel's name or group, cut to 255 bytes. Lives as long as the trace. */
const char *lull_trace_string(const struct lull_trace *trace, uint32_t index);

/* The first launch with this correlation in a trace of one GPU; null: there is none. O(log n). */
const struct lull_trace_launch *lull_trace_find_launch(const struct lull_trace *trace,
                                                       int64_t correlation);

#endif
