/*
 * JSON strings of any text. jansson reports invalid UTF-8 and a lack of memory in the same way, so
 * one user's bytes would look like a failure of the machine. All code therefore makes JSON strings
 * here (tools/check-names).
 *
 * The functions are in the header because base/ is linked without jansson.
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_JSON_STRING_H
#define LULL_BASE_JSON_STRING_H

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/printable.h"

/* Returns a text as a JSON string, with U+FFFD in place of bytes that are not UTF-8. NULL: out of
 * memory. */
static inline json_t *lull_json_string(const char *text)
{
    char *const valid = lull_printable_copy(LULL_PRINTABLE_VALID, text, strlen(text));
    json_t *const string = valid != NULL ? json_string_nocheck(valid) : NULL;

    free(valid);
    return string;
}

/* Returns the same, or JSON null for NULL (unknown text). */
static inline json_t *lull_json_string_or_null(const char *text)
{
    return text != NULL ? lull_json_string(text) : json_null();
}

#endif
