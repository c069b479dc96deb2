/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/cluster/queue.h"

#include <errno.h>
#include <stdlib.h>

static bool is_before(struct lull_queue_entry a, struct lull_queue_entry b)
{
    return a.due < b.due || (a.due == b.due && a.what < b.what);
}

void lull_queue_fini(struct lull_queue *queue)
{
    free(queue->entries);
    *queue = (struct lull_queue){0};
}

static int reserve(struct lull_queue *queue)
{
    const size_t room = queue->room > 0 ? 2 * queue->room : 64;
    struct lull_queue_entry *entries;

    if (queue->count < queue->room)
        return 0;
    entries = realloc(queue->entries, room * sizeof(*entries));
    if (entries == NULL)
        return -ENOMEM;
    queue->entries = entries;
    queue->room = room;
    return 0;
}

int lull_queue_add(struct lull_queue *queue, int64_t due, uint64_t what)
{
    const struct lull_queue_entry entry = {due, what};
    size_t at = queue->count;

    if (reserve(queue) < 0)
        return -ENOMEM;
    queue->count++;
    for (; at > 0 && is_before(entry, queue->entries[(at - 1) / 2]); at = (at - 1) / 2)
        queue->entries[at] = queue->entries[(at - 1) / 2];
    queue->entries[at] = entry;
    return 0;
}

/* Lets the entry sink from the top to its place. */
static void sink(struct lull_queue *queue, struct lull_queue_entry entry)
{
    struct lull_queue_entry *const entries = queue->entries;
    size_t at = 0;

    for (size_t child = 1; child < queue->count; child = 2 * at + 1) {
        if (child + 1 < queue->count && is_before(entries[child + 1], entries[child]))
            child++;
        if (!is_before(entries[child], entry))
            break;
        entries[at] = entries[child];
        at = child;
    }
    entries[at] = entry;
}

bool lull_queue_take(struct lull_queue *queue, int64_t until, struct lull_queue_entry *entry_out)
{
    if (queue->count == 0 || queue->entries[0].due > until)
        return false;
    *entry_out = queue->entries[0];
    queue->count--;
    sink(queue, queue->entries[queue->count]);
    return true;
}
