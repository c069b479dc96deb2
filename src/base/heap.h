/*
 * A binary heap of numbers with keys: the least key comes out first, of equal keys the lowest
 * number. The order in which entries come out never depends on the order in which they were added.
 * Pure; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_HEAP_H
#define LULL_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lull_heap_entry {
    int64_t key;
    uint64_t number;
};

/* Zero-initialised it is empty. entries[0] is the least if count > 0. */
struct lull_heap {
    struct lull_heap_entry *entries;
    size_t count;
    size_t room;
};

/* O(log n). -ENOMEM: nothing has changed. */
int lull_heap_add(struct lull_heap *heap, int64_t key, uint64_t number);

/* Removes the least if its key is at most `until`. O(log n). */
bool lull_heap_take(struct lull_heap *heap, int64_t until, struct lull_heap_entry *entry_out);
void lull_heap_fini(struct lull_heap *heap);

#endif
