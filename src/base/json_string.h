/*
 * JSON strings of any text. jansson refuses what is no UTF-8 in the same way as it says that out
 * of memory, so one user's bytes would look like a failure of the machine; all code makes
 * strings here (tools/check-names).
 *
 * In the header, because base/ is linked without jansson.
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_JSON_STRING_H
#define LULL_BASE_JSON_STRING_H

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/printable.h"

/* Returns a text as a JSON string, in which bytes that are no UTF-8 are U+FFFD. NULL: no memory. */
static inline json_t *lull_json_string(const char *text)
{
    char *const valid = lull_printable_copy(LULL_PRINTABLE_VALID, text, strlen(text));
    json_t *const string = valid != NULL ? json_string_nocheck(valid) : NULL;

    free(valid);
    return string;
}

/* Returns the same, or null for NULL, a text that is not known. */
static inline json_t *lull_json_string_or_null(const char *text)
{
    return text != NULL ? lull_json_string(text) : json_null();
}

#endif
