/*
 * A set of strings, each kept once under a small number. Strings are distinguished by a 64-bit hash
 * of all their bytes, and their first LULL_STRING_SET_BYTES are kept. One thread at a time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_STRING_SET_H
#define LULL_TRACE_STRING_SET_H

#include <stdint.h>

#include "base/error.h"

enum { LULL_STRING_SET_BYTES = 255 };

struct lull_string_set; /* opaque */

/* Null: out of memory. */
struct lull_string_set *lull_string_set_create(void);

/* Null is allowed. */
void lull_string_set_destroy(struct lull_string_set *set);

/* Finds the number of a string, new or known. -ENOMEM, with the name of the file that it is from.
 */
int lull_string_set_add(struct lull_string_set *set, const char *text, uint32_t *number_out,
                        const char *file, struct lull_error *err);

/* The string of a number that add has given. It lives as long as the set. */
const char *lull_string_set_get(const struct lull_string_set *set, uint32_t index);

#endif
