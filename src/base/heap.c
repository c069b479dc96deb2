/* SPDX-License-Identifier: Apache-2.0 */
#include "base/heap.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/array.h"

static bool heap_is_before(const struct lull_heap_entry *left, const struct lull_heap_entry *right)
{
    if (left->key != right->key)
        return left->key < right->key;
    return left->number < right->number;
}

int lull_heap_add(struct lull_heap *heap, int64_t key, uint64_t number)
{
    const struct lull_heap_entry added = {key, number};
    size_t at = heap->count;

    if (lull_array_reserve(&heap->entries, &heap->room, heap->count, sizeof(added)) < 0)
        return -ENOMEM;
    assert(heap->count < heap->room);
    heap->count++;
    while (at > 0 && heap_is_before(&added, &heap->entries[(at - 1) / 2])) {
        heap->entries[at] = heap->entries[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->entries[at] = added;
    return 0;
}

/* Puts an entry where the first one was, or below it. */
static void sift_down(struct lull_heap *heap, struct lull_heap_entry moved)
{
    size_t at = 0;

    for (;;) {
        size_t child = 2 * at + 1;

        if (child >= heap->count)
            break;
        if (child + 1 < heap->count &&
            heap_is_before(&heap->entries[child + 1], &heap->entries[child]))
            child++;
        if (!heap_is_before(&heap->entries[child], &moved))
            break;
        heap->entries[at] = heap->entries[child];
        at = child;
    }
    heap->entries[at] = moved;
}

bool lull_heap_take(struct lull_heap *heap, int64_t until, struct lull_heap_entry *entry_out)
{
    if (heap->count == 0 || heap->entries[0].key > until)
        return false;
    assert(heap->count <= heap->room);
    *entry_out = heap->entries[0];
    heap->count--;
    if (heap->count > 0)
        sift_down(heap, heap->entries[heap->count]);
    return true;
}

void lull_heap_fini(struct lull_heap *heap)
{
    free(heap->entries);
}
