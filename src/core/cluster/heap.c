/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/heap.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

static bool is_before(const struct lull_cluster_entry *left, const struct lull_cluster_entry *right)
{
    if (left->key != right->key)
        return left->key < right->key;
    return left->order < right->order;
}

int lull_cluster_heap_add(struct lull_cluster_heap *heap, const struct lull_cluster_entry *entry)
{
    size_t at = heap->count;

    if (heap->count == heap->room) {
        const size_t room = heap->room > 0 ? 2 * heap->room : 256;
        struct lull_cluster_entry *entries = realloc(heap->entries, room * sizeof(*entries));

        if (entries == NULL)
            return -ENOMEM;
        heap->entries = entries;
        heap->room = room;
    }
    heap->count++;
    while (at > 0 && is_before(entry, &heap->entries[(at - 1) / 2])) {
        heap->entries[at] = heap->entries[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->entries[at] = *entry;
    return 0;
}

void lull_cluster_heap_remove(struct lull_cluster_heap *heap)
{
    const struct lull_cluster_entry moved = heap->entries[--heap->count];
    size_t at = 0;

    for (;;) {
        size_t child = 2 * at + 1;

        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && is_before(&heap->entries[child + 1], &heap->entries[child]))
            child++;
        if (!is_before(&heap->entries[child], &moved))
            break;
        heap->entries[at] = heap->entries[child];
        at = child;
    }
    heap->entries[at] = moved;
}

void lull_cluster_heap_fini(struct lull_cluster_heap *heap)
{
    free(heap->entries);
}
