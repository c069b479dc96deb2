/*
 * The bytes of a file, plain or gzip (reported by its first bytes); the path "-" is standard input.
 * They are read once, in order; the first of them can be looked at before. One thread at a time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_SOURCE_H
#define LULL_TRACE_SOURCE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum { LULL_SOURCE_HEAD = 256 };

struct lull_source; /* opaque */

/* Borrows path, for messages, until closed. Errors: -errno of opening; -ENOMEM. */
int lull_source_open(const char *path, struct lull_source **source_out, struct lull_error *err);

/* Null is allowed. */
void lull_source_close(struct lull_source *source);

/*
 * Shows the first bytes of the text, at most LULL_SOURCE_HEAD of them, and leaves them to be read.
 * Call it before anything is read. Returns their number, fewer only where the text ends; 0: it is
 * empty. *head_out holds until the next call. Errors: those of lull_source_read.
 */
ssize_t lull_source_peek(struct lull_source *source, const char **head_out, struct lull_error *err);

/*
 * Reads size bytes of text, fewer only at its end; 0: nothing is left. Errors: -errno;
 * LULL_E_FORMAT damaged or truncated gzip data, with the byte of the text.
 */
ssize_t lull_source_read(struct lull_source *source, char *buffer, size_t size,
                         struct lull_error *err);

/* Number of bytes of text read so far. */
int64_t lull_source_offset(const struct lull_source *source);

/* Share of the file that has been read, 0..1; negative if its size is not known (a pipe). */
double lull_source_done_ratio(const struct lull_source *source);

#endif
