/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/string_set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

struct string_entry {
    uint64_t hash;
    char *text;
};

/* Open addressing: slots hold 1 + the index of an entry, 0 for none; at most half are taken. */
struct lull_string_set {
    struct string_entry *entries;
    uint32_t *slots;
    size_t slot_count; /* a power of two */
    size_t count;
};

enum { FIRST_SLOTS = 256 };

struct lull_string_set *lull_string_set_create(void)
{
    return calloc(1, sizeof(struct lull_string_set));
}

void lull_string_set_destroy(struct lull_string_set *set)
{
    if (set == NULL)
        return;
    for (size_t i = 0; i < set->count; i++)
        free(set->entries[i].text);
    free(set->entries);
    free(set->slots);
    free(set);
}

/* Finds the slot of a hash: its own, or the empty one where it belongs. */
static uint32_t *find_slot(const struct lull_string_set *set, uint64_t hash)
{
    size_t i = hash & (set->slot_count - 1);

    while (set->slots[i] != 0 && set->entries[set->slots[i] - 1].hash != hash)
        i = (i + 1) & (set->slot_count - 1);
    return &set->slots[i];
}

/* Makes room for one more string. */
static int string_set_grow(struct lull_string_set *set)
{
    const size_t slot_count = set->slot_count > 0 ? 2 * set->slot_count : FIRST_SLOTS;
    struct string_entry *entries;
    uint32_t *slots;

    if (2 * (set->count + 1) <= set->slot_count)
        return 0;
    if (slot_count > UINT32_MAX)
        return -ENOMEM;
    entries = realloc(set->entries, slot_count / 2 * sizeof(*entries));
    if (entries == NULL)
        return -ENOMEM;
    set->entries = entries;
    slots = calloc(slot_count, sizeof(*slots));
    if (slots == NULL)
        return -ENOMEM;
    free(set->slots);
    set->slots = slots;
    set->slot_count = slot_count;
    for (size_t i = 0; i < set->count; i++)
        *find_slot(set, entries[i].hash) = (uint32_t)(i + 1);
    return 0;
}

/* Two strings of one 64-bit hash count as one; among a million names the odds of that are one in
 * thirty million. */
int lull_string_set_add(struct lull_string_set *set, const char *text, uint32_t *number_out,
                        const char *file, struct lull_error *err)
{
    const uint64_t hash = lull_text_hash(text);
    uint32_t *slot;
    char *kept;

    if (string_set_grow(set) < 0)
        goto no_memory;
    slot = find_slot(set, hash);
    if (*slot == 0) {
        kept = strndup(text, LULL_STRING_SET_BYTES);
        if (kept == NULL)
            goto no_memory;
        set->entries[set->count] = (struct string_entry){hash, kept};
        *slot = (uint32_t)++set->count;
    }
    *number_out = *slot - 1;
    return 0;

no_memory:
    return lull_error_set(err, -ENOMEM, "%s: not enough memory for its names", file);
}

const char *lull_string_set_get(const struct lull_string_set *set, uint32_t index)
{
    return set->entries[index].text;
}
