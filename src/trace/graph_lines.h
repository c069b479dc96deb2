/*
 * Task graphs as JSON, one object per line, in any order but that a device runs its operations in
 * the order of the file (docs/reference/pipeline-formats.md):
 *   {"op": 3, "device": 0, "stage": 0, "kind": "forward", "microbatch": 1}
 *   {"op": 9, "device": 0, "stage": 0, "kind": "fixed", "time_s": 0.02, "energy_j": 4}
 *   {"from": 3, "to": 7, "latency_s": 0.0002}
 * op: a number of the file's own; kind: a word of core/pipeline/model/profile.h; an overlap also
 * has "partner", the stage of its backward. Optional: microbatch, chunk, latency_s (0), energy_j
 * (0).
 *
 * One thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_GRAPH_LINES_H
#define LULL_TRACE_GRAPH_LINES_H

#include <stddef.h>

#include "base/error.h"
#include "core/pipeline/model/fit.h"
#include "core/pipeline/model/graph.h"

/*
 * Reads a file, plain or gzip ("-" is standard input), into a finished graph whose classes are
 * fit->fitted's; fit->stages is set here. graph_out: not initialised before; written on success,
 * then the caller's to fini. Errors, with the line (and the byte of what is not JSON):
 * LULL_E_FORMAT no JSON, an unknown, missing or wrong member, an operation that is there twice, an
 * edge from or to none, a class that the profile lacks, a cycle, nothing at all; -ENOMEM; those of
 * lull_lines_open.
 */
int lull_graph_lines_read(const char *path, struct lull_pipeline_fit *fit,
                          struct lull_pipeline_graph *graph_out, struct lull_error *err);

#endif
