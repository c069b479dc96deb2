/*
 * Private to trace: the text of Chrome traces, which several profilers write.
 *
 * The text is JSON: an object with traceEvents, or the bare array of events; keys in any order;
 * with what real files get wrong (trace/json.h). It is read as a stream. Events whose text is no
 * JSON are left out and counted, and the end of the list may be missing.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_CHROME_H
#define LULL_TRACE_CHROME_H

#include <stdbool.h>

#include "trace/json_fields.h"
#include "trace/source.h"
#include "trace/trace.h"

/* The kind of a text. */
struct lull_chrome_reading {
    const struct lull_json_field *fields; /* of the object around the events, for object */
    lull_json_value_fn event;             /* of an array of events that stands alone */
    void *object;
    void *context;
};

/* Returns whether a text that begins so can be such a trace: it begins with { or [ after white
 * space. */
bool lull_chrome_sniff(const char *head, size_t size);

/*
 * Reads the whole text of a source; options may be null. *loss_out: what could not be read, or is
 * missing at the end. Errors: those of lull_trace_read, with both outputs written.
 */
int lull_chrome_read(struct lull_source *source, const char *path,
                     const struct lull_trace_options *options,
                     const struct lull_chrome_reading *reading, struct lull_json_loss *loss_out,
                     int64_t *text_bytes_out, struct lull_error *err);

#endif
