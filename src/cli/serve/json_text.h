/*
 * JSON as text, for documents that are written several times a second: several times faster than
 * jansson's own writer, which looks for circles and at every character of UTF-8. It writes without
 * blanks, and real numbers with 12 digits: they need no more than counters have.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_SERVE_JSON_TEXT_H
#define LULL_CLI_SERVE_JSON_TEXT_H

#include <stddef.h>

#include <jansson.h>

/* Returns a document, in which there are no circles, as text that ends with a NUL, for free();
 * *size_out is its length. NULL: out of memory. */
char *lull_serve_json_text(const json_t *document, size_t *size_out);

/* Returns UTF-8 of this length as the text of a JSON string, likewise. */
char *lull_serve_json_quote(const char *text, size_t length, size_t *size_out);

#endif
