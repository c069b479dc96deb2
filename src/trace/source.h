/*
 * Where a trace's text comes from: a file, plain or gzip (told by its first bytes), or standard
 * input under the name "-". Read once, in order. One thread at a time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_SOURCE_H
#define LULL_TRACE_SOURCE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct lull_source; /* opaque */

/* Errors: -errno of opening, -ENOMEM. */
int lull_source_open(const char *path, struct lull_source **source_out, struct lull_error *err);
void lull_source_close(struct lull_source *source);

/*
 * Reads size bytes of text, fewer only at its end; 0: nothing is left. Errors: -errno;
 * LULL_E_FORMAT damaged or truncated gzip data, with the byte of the text.
 */
ssize_t lull_source_read(struct lull_source *source, char *buffer, size_t size,
                         struct lull_error *err);

/* How far reading is within the file, 0..1; below 0 where that is not known (a pipe). */
double lull_source_done_ratio(const struct lull_source *source);

#endif
