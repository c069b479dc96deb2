/*
 * Pages of metrics in Prometheus' text format, version 0.0.4, and OpenMetrics 1.0: sample lines
 * with their labels. Comments, types and exemplars are passed over, names in quotes are accepted.
 *
 * A line that is not valid is counted and left out; the rest of the page counts. A page comes from
 * another program, which may be broken or hostile: sizes are bounded, and no byte is trusted.
 *
 * Sources: Prometheus' "Exposition formats", OpenMetrics 1.0.0. Threads: any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_PROMETHEUS_H
#define LULL_TRACE_PROMETHEUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    LULL_PROMETHEUS_MAX_BYTES = 8 << 20, /* of a page */
    LULL_PROMETHEUS_MAX_LINES = 1 << 17, /* of a page */
    LULL_PROMETHEUS_MAX_LINE = 1 << 16,  /* bytes of a line */
    LULL_PROMETHEUS_MAX_LABELS = 64,     /* of a sample */
};

/* A part of the page, not NUL-terminated. */
struct lull_prometheus_text {
    const char *bytes;
    size_t length;
};

struct lull_prometheus_label {
    struct lull_prometheus_text name;
    struct lull_prometheus_text value; /* its escapes stand as in the page */
};

struct lull_prometheus_sample {
    struct lull_prometheus_text name;
    const struct lull_prometheus_label *labels;
    uint32_t label_count;
    double value;  /* may be NAN, INFINITY, -INFINITY */
    double time_s; /* since 1970, as the line has it; NAN: it has none */
};

struct lull_prometheus_page {
    uint64_t samples;
    uint64_t bad_lines;     /* left out */
    uint64_t bad_line;      /* the first of them, from 1 */
    const char *bad_reason; /* why: "no value" */
    bool is_cut;            /* the page ends inside a line */
    bool has_end;           /* # EOF, with which pages of OpenMetrics end */
};

/* Takes a sample; it holds during the call. */
typedef void (*lull_prometheus_take)(void *context, const struct lull_prometheus_sample *sample);

/*
 * Reads a page of size bytes and calls take for each sample, in order. The unit of a time stamp is
 * the second if the page has # EOF at its end, else the millisecond. Error: -EFBIG the page has too
 * many bytes or lines; nothing or a part was taken.
 */
int lull_prometheus_read(const char *page, size_t size, lull_prometheus_take take, void *context,
                         struct lull_prometheus_page *page_out, struct lull_error *err);

/* Returns the value of a sample's label, or NULL: it has none of this name. */
const struct lull_prometheus_text *
lull_prometheus_label(const struct lull_prometheus_sample *sample, const char *name);

bool lull_prometheus_is(const struct lull_prometheus_text *text, const char *word);

/* Parses a value: a decimal number, +Inf, -Inf or NaN. Error: -EINVAL it is none. */
int lull_prometheus_value(const struct lull_prometheus_text *text, double *value_out);

#endif
