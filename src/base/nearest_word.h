/*
 * Finds the word that is likely to be meant by one that is mistyped. Pure; any thread.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_NEAREST_WORD_H
#define LULL_BASE_NEAREST_WORD_H

#include <stdint.h>

enum { LULL_NEAREST_LONGEST = 48 }; /* longer words are near no other */

struct lull_nearest {
    const char *word;
    const char *best; /* null: none is near */
    uint32_t distance;
};

struct lull_nearest lull_nearest_begin(const char *word);

/* Borrows the candidate. */
void lull_nearest_try(struct lull_nearest *nearest, const char *candidate);

#endif
