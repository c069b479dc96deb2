/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nearest_word.h"

#include <string.h>

#include "base/minmax.h"

/* Counts the insertions, deletions, replacements and swaps of neighbours that make one word the
 * other. */
static uint32_t nearest_distance(const char *a, const char *b)
{
    uint32_t rows[3][LULL_NEAREST_LONGEST + 1];
    const size_t width = strlen(b);

    if (strlen(a) > LULL_NEAREST_LONGEST || width > LULL_NEAREST_LONGEST)
        return UINT32_MAX;
    for (uint32_t j = 0; j <= width; j++)
        rows[0][j] = j;
    for (uint32_t i = 1; a[i - 1] != '\0'; i++) {
        uint32_t *const now = rows[i % 3];
        const uint32_t *const before = rows[(i - 1) % 3];

        now[0] = i;
        for (uint32_t j = 1; j <= width; j++) {
            now[j] = lull_min_u32(before[j - 1] + (a[i - 1] != b[j - 1]),
                                  lull_min_u32(before[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = lull_min_u32(now[j], rows[(i - 2) % 3][j - 2] + 1);
        }
    }
    return rows[strlen(a) % 3][width];
}

struct lull_nearest lull_nearest_begin(const char *word)
{
    /* One slip in a short word, one more for each four letters: */
    return (struct lull_nearest){.word = word, .distance = 2 + (uint32_t)strlen(word) / 4};
}

void lull_nearest_try(struct lull_nearest *nearest, const char *candidate)
{
    const size_t length = strlen(nearest->word);
    uint32_t found = nearest_distance(nearest->word, candidate);

    if (length >= 3 && strncmp(nearest->word, candidate, length) == 0)
        found = 1; /* its beginning */
    if (found < nearest->distance) {
        nearest->best = candidate;
        nearest->distance = found;
    }
}
