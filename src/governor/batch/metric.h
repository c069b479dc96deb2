/*
 * Reads a figure from a program's output: each line that matches a pattern contains the next value.
 * Threads: a struct lull_metric may be read by many, a stream belongs to one.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_BATCH_METRIC_H
#define LULL_GOVERNOR_BATCH_METRIC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum { LULL_METRIC_LINE_BYTES = 16384 }; /* the rest of a longer line is ignored */

struct lull_metric;

/*
 * pattern: a POSIX extended regular expression with exactly one group, around the number. Errors:
 * -EINVAL it is invalid, or too large when compiled (the text gives the reason); -ENOMEM.
 */
int lull_metric_create(const char *pattern, struct lull_metric **metric_out,
                       struct lull_error *err);
void lull_metric_destroy(struct lull_metric *metric);

enum { LULL_METRIC_UNREAD_BYTES = 40 };

/* One source of lines; zero-initialised is new. Lines end with a newline or a carriage return. */
struct lull_metric_stream {
    size_t used;
    char line[LULL_METRIC_LINE_BYTES];
    char unread[LULL_METRIC_UNREAD_BYTES]; /* the last group that is not a number, cut to fit */
};

/* A value in a line: the number as printed, which may be NAN or +-INFINITY. percent: a % follows
 * it. */
struct lull_metric_value {
    double number;
    bool is_percent;
};

typedef void (*lull_metric_each)(void *context, struct lull_metric_value value);

/*
 * Takes size bytes of output, and calls `each` for every completed line that contains a value. Of
 * several matches in a line the first is used. Numbers may have the forms of
 * lull_text_plain_number, or be nan or inf, and % or punctuation may follow. A group that is not a
 * number, or that reads as two different numbers, such as 93,412, is stored in stream->unread.
 */
void lull_metric_feed(const struct lull_metric *metric, struct lull_metric_stream *stream,
                      const char *data, size_t size, lull_metric_each each, void *context);

/* Ends a stream: its remaining text is the last line. */
void lull_metric_finish(const struct lull_metric *metric, struct lull_metric_stream *stream,
                        lull_metric_each each, void *context);

#endif
