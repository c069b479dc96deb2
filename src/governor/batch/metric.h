/*
 * Reads a figure from a program's output: each line that matches a pattern tells its next value.
 * Threads: a struct lull_metric may be read by many, a stream belongs to one.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_BATCH_METRIC_H
#define LULL_GOVERNOR_BATCH_METRIC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum { LULL_METRIC_LINE_BYTES = 16384 }; /* the rest of a longer line is not looked at */

struct lull_metric;

/*
 * pattern: a POSIX extended regular expression with exactly one group, around the number. Errors:
 * -EINVAL with what is wrong with it, or it is too large when compiled; -ENOMEM.
 */
int lull_metric_create(const char *pattern, struct lull_metric **metric_out,
                       struct lull_error *err);
void lull_metric_destroy(struct lull_metric *metric);

/* One source of lines; all zero is a new one. Lines end with a newline or a carriage return. */
struct lull_metric_stream {
    size_t used;
    char line[LULL_METRIC_LINE_BYTES];
};

typedef void (*lull_metric_each)(void *context, double value);

/* Takes size bytes of output; calls each for every line complete by them that tells a value. Of
 * several matches in a line the first counts; a group that is no finite number is none. */
void lull_metric_feed(const struct lull_metric *metric, struct lull_metric_stream *stream,
                      const char *data, size_t size, lull_metric_each each, void *context);

/* Ends a stream: what is left of it is the last line. */
void lull_metric_finish(const struct lull_metric *metric, struct lull_metric_stream *stream,
                        lull_metric_each each, void *context);

#endif
