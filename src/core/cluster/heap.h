/*
 * Jobs by key, the least first: a binary heap. Of equal keys the lower order goes first, so what
 * comes out never depends on what else is in. Pure; one thread at a time.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_CLUSTER_HEAP_H
#define LULL_CORE_CLUSTER_HEAP_H

#include <stddef.h>
#include <stdint.h>

struct lull_cluster_entry {
    int64_t key;
    uint64_t order; /* among equal keys */
    uint32_t job;
};

/* Starts as zeroes; entries[0] is the least of count > 0. */
struct lull_cluster_heap {
    struct lull_cluster_entry *entries;
    size_t count;
    size_t room;
};

/* O(log n). -ENOMEM, the heap as it was. */
int lull_cluster_heap_add(struct lull_cluster_heap *heap, const struct lull_cluster_entry *entry);

/* Removes the least; count > 0. O(log n). */
void lull_cluster_heap_remove(struct lull_cluster_heap *heap);
void lull_cluster_heap_fini(struct lull_cluster_heap *heap);

#endif
