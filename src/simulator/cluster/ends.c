/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/cluster/ends.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

static bool is_before(const struct lull_cluster_end *left, const struct lull_cluster_end *right)
{
    if (left->time_ns != right->time_ns)
        return left->time_ns < right->time_ns;
    return left->order < right->order;
}

int lull_cluster_ends_add(struct lull_cluster_ends *ends, const struct lull_cluster_end *end)
{
    size_t at = ends->count;

    if (ends->count == ends->room) {
        const size_t room = ends->room > 0 ? 2 * ends->room : 256;
        struct lull_cluster_end *heap = realloc(ends->heap, room * sizeof(*heap));

        if (heap == NULL)
            return -ENOMEM;
        ends->heap = heap;
        ends->room = room;
    }
    ends->count++;
    while (at > 0 && is_before(end, &ends->heap[(at - 1) / 2])) {
        ends->heap[at] = ends->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    ends->heap[at] = *end;
    return 0;
}

void lull_cluster_ends_remove(struct lull_cluster_ends *ends)
{
    const struct lull_cluster_end moved = ends->heap[--ends->count];
    size_t at = 0;

    for (;;) {
        size_t child = 2 * at + 1;

        if (child >= ends->count)
            break;
        if (child + 1 < ends->count && is_before(&ends->heap[child + 1], &ends->heap[child]))
            child++;
        if (!is_before(&ends->heap[child], &moved))
            break;
        ends->heap[at] = ends->heap[child];
        at = child;
    }
    ends->heap[at] = moved;
}

void lull_cluster_ends_fini(struct lull_cluster_ends *ends)
{
    free(ends->heap);
}
