/*
 * Private to trace: traces of the PyTorch profiler (Kineto) and other Chrome traces.
 *
 * The text is that of chrome.h. Memory grows with the number of GPU kernels and launches, not with
 * the text.
 *
 * Kernels are complete events (ph X), or pairs of B and E or b and e, whose category is that of a
 * GPU's kernels: one of a list with commas in between, "kernel" of Kineto, "gpu_op" of unitrace,
 * "cuda" of nsys2json; or that have none and ran on a stream of a GPU (tracks.h). Times are ts and
 * dur, microseconds with fractions, also below 0. Iterations are the marks ProfilerStep#N of the
 * CPU. A file without kernels whose threads are those of ranks is a timeline of operations
 * (timeline.h).
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_KINETO_H
#define LULL_TRACE_KINETO_H

#include "trace/source.h"
#include "trace/trace.h"

/* Reads the whole text of a source into a trace that is empty but for its strings. On errors, those
 * of lull_trace_read, the caller frees what is in the trace. */
int lull_kineto_read(struct lull_source *source, const char *path,
                     const struct lull_trace_options *options, struct lull_trace *trace,
                     struct lull_error *err);

#endif
