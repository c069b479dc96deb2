/*
 * Recordings of runs: what `lull run` itself has written into trace.json
 * (governor/report/timeline.h), summed up: of each GPU its communication, the stretches at a
 * lowered clock, and its power and clock.
 *
 * Threads: any; a recording belongs to its caller. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_RECORDING_H
#define LULL_TRACE_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/source.h"
#include "trace/trace.h"

enum { LULL_RECORDING_SENTENCE = 512 };

/* All spans of one name on one GPU. */
struct lull_recorded_kind {
    int64_t gpu;     /* as lull gpus numbers it */
    bool is_lowered; /* stretches at a lowered clock; else an operation of communication */
    char name[32];   /* "210 MHz", "allreduce" */
    uint64_t count;
    int64_t total_ns;
};

/* Readings over time, joined by straight lines. */
struct lull_recorded_integral {
    int64_t known_ns; /* time for which it is known */
    double value_s;   /* the integral over that time: of watts, joules */
    int64_t last_ns;  /* the last reading; -1: there was none */
    double last;
};

struct lull_recorded_gpu {
    int64_t index;
    char name[64];
    int64_t begin_ns; /* of what was recorded of it, since the recording's begin */
    int64_t end_ns;
    struct lull_recorded_integral watts;
    struct lull_recorded_integral mhz;
};

struct lull_run_recording {
    struct lull_recorded_gpu *gpus; /* by index */
    size_t gpu_count;
    struct lull_recorded_kind *kinds; /* by GPU, communication before clocks, the longest first */
    size_t kind_count;
    char sentence[LULL_RECORDING_SENTENCE]; /* the run's verdict; "": there is none */
};

/* Returns whether a text that begins so is a recording. */
bool lull_recording_sniff(const char *head, size_t size);

/* Reads one into trace->recording; a row of the table of formats (trace.c). Errors: those of
 * lull_trace_read; LULL_E_FORMAT an event is of no GPU that has a name. */
int lull_recording_read(struct lull_source *source, const char *path,
                        const struct lull_trace_options *options, struct lull_trace *trace,
                        struct lull_error *err);

/* Null is allowed. */
void lull_recording_destroy(struct lull_run_recording *recording);

#endif
