/*
 * What is due first: numbers by when they are due, equal times by number. A binary heap that grows.
 * Zero-initialised is empty. One thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_SIMULATOR_CLUSTER_QUEUE_H
#define LULL_SIMULATOR_CLUSTER_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lull_queue_entry {
    int64_t due;
    uint64_t what;
};

struct lull_queue {
    struct lull_queue_entry *entries;
    size_t count;
    size_t room;
};

void lull_queue_fini(struct lull_queue *queue);

/* -ENOMEM: nothing has changed. */
int lull_queue_add(struct lull_queue *queue, int64_t due, uint64_t what);

/* Takes the first entry if it is due by `until`. */
bool lull_queue_take(struct lull_queue *queue, int64_t until, struct lull_queue_entry *entry_out);

#endif
