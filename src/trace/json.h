/*
 * JSON as a stream of tokens, for texts of any size in constant memory. The grammar is checked at
 * every token; only what real traces get wrong is let through:
 *   - escapes that JSON does not know (\$, \x41, \u12): they are kept as they stand;
 *   - control characters within strings; a byte order mark before the text;
 *   - NaN, Infinity, nan, inf for numbers, also negative.
 * A lenient stream also lets through a comma before a closing bracket and any bare word as a scalar
 * (None, 0x1f, -nan(ind), .5), and can be resumed at the next object after text that is not JSON.
 *
 * Why not yajl: it refuses whole files for one such escape, and calls back for every token. Most
 * tokens here are skipped, so the speed of skipping a string matters.
 *
 * One thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_JSON_H
#define LULL_TRACE_JSON_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum {
    LULL_JSON_MAX_TEXT = 1 << 16, /* of a string, bytes; longer ones are cut to it */
    LULL_JSON_MAX_DEPTH = 512,
};

enum lull_json_token {
    LULL_JSON_END, /* of the text */
    LULL_JSON_OBJECT_BEGIN,
    LULL_JSON_OBJECT_END,
    LULL_JSON_ARRAY_BEGIN,
    LULL_JSON_ARRAY_END,
    LULL_JSON_KEY,
    LULL_JSON_STRING,
    LULL_JSON_SCALAR, /* a number, true, false, null */
};

/* Gives size bytes of text, fewer only at its end, 0 behind it; negative: an error, in err. */
typedef ssize_t (*lull_json_fill)(void *context, char *buffer, size_t size, struct lull_error *err);

struct lull_json; /* opaque, some 600 KiB */

/* Of the KEY, STRING or SCALAR read last, without quotes, escapes decoded; not NUL-terminated. */
struct lull_json_text {
    const char *bytes;
    size_t length;
};

/* name (for messages) and context must live until destroy. NULL: out of memory. */
struct lull_json *lull_json_create(const char *name, lull_json_fill fill, void *context);
void lull_json_be_lenient(struct lull_json *json);
void lull_json_destroy(struct lull_json *json);

/*
 * Reads the next token: an enum lull_json_token. Its text, if it has any, goes to *text_out and
 * holds until the next call; other tokens do not change it. Errors: LULL_E_FORMAT with byte and
 * line; what fill returned. After an error nothing can be read any more.
 */
int lull_json_next(struct lull_json *json, struct lull_json_text *text_out, struct lull_error *err);

/* Reads the whole next value and drops it. Returns a negative code or 0. */
int lull_json_skip(struct lull_json *json, struct lull_error *err);

/* Reads on to the end of the innermost open object or array. Returns a negative code or 0. */
int lull_json_leave(struct lull_json *json, struct lull_error *err);

/* Kind of failure when a function has returned an error. */
enum lull_json_fault {
    LULL_JSON_SOUND,     /* nothing, or reading the text failed */
    LULL_JSON_MALFORMED, /* the text is not JSON here */
    LULL_JSON_CUT,       /* the text ends inside a value */
    LULL_JSON_OPEN,      /* the text ends between two values of an array or object */
};

enum lull_json_fault lull_json_fault(const struct lull_json *json);

/*
 * Resumes after MALFORMED text in a lenient stream, at the next object of an array that is `depth`
 * levels deep (lull_json_depth() behind its opening). The search begins at offset `from`, as far as
 * that text is still held (64 KiB). It ends before an object whose first key is one of `keys` and
 * that begins a line or follows a comma; if there is none, it ends with the text, as if the array
 * ended there. *strangers_out is increased by the number of `strangers` passed: keys that do not
 * belong into such an array. A NULL follows the last key. Returns 0; errors: what fill returned.
 */
int lull_json_resume(struct lull_json *json, uint32_t depth, int64_t from, const char *const *keys,
                     const char *const *strangers, uint32_t *strangers_out, struct lull_error *err);

/* Number of open objects and arrays. */
uint32_t lull_json_depth(const struct lull_json *json);

/* Bytes of text read so far. */
int64_t lull_json_offset(const struct lull_json *json);

#endif
