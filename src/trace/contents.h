/*
 * Private to trace: what a Chrome trace, or JSON that is none, holds instead of kernels. One thread
 * at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_CONTENTS_H
#define LULL_TRACE_CONTENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/trace.h"

enum { LULL_CONTENTS_CATEGORIES = 6, LULL_CONTENTS_CATEGORY_BYTES = 24 };

struct lull_contents {
    bool has_list;        /* of events, even if it is empty */
    bool has_graph;       /* "nodes": an execution trace */
    bool has_rocprofiler; /* JSON output of rocprofv3 */
    uint64_t pairs;       /* events of phase B, E, b or e */
    uint32_t category_count;
    char categories[LULL_CONTENTS_CATEGORIES][LULL_CONTENTS_CATEGORY_BYTES]; /* the first ones */
};

/* Takes an event that does not belong to a kernel. */
void lull_contents_add(struct lull_contents *contents, const char *phase, const char *category);

/* Writes the reason why a trace has no kernels, in the user's words. */
void lull_contents_explain(const struct lull_contents *contents, const struct lull_trace *trace,
                           char *text, size_t size);

#endif
