/*
 * A set of strings, each kept once under a small number. Strings are told apart by a 64-bit hash
 * of all their bytes and kept up to LULL_STRING_SET_BYTES. One thread at a time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_STRING_SET_H
#define LULL_TRACE_STRING_SET_H

#include <stddef.h>
#include <stdint.h>

enum { LULL_STRING_SET_BYTES = 255 };

struct lull_string_set; /* opaque */

/* NULL: no memory. */
struct lull_string_set *lull_string_set_create(void);
void lull_string_set_destroy(struct lull_string_set *set);

/* The number of a string, new or known. -ENOMEM. */
int64_t lull_string_set_add(struct lull_string_set *set, const char *text);

/* index: what add has returned. */
const char *lull_string_set_get(const struct lull_string_set *set, uint32_t index);

#endif
