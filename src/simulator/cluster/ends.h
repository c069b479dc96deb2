/*
 * When running jobs end: a binary heap by time, of equal times in the order of starting. Private to
 * the simulator. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_SIMULATOR_CLUSTER_ENDS_H
#define LULL_SIMULATOR_CLUSTER_ENDS_H

#include <stddef.h>
#include <stdint.h>

struct lull_cluster_end {
    int64_t time_ns;
    uint64_t order;
    uint32_t job;
};

struct lull_cluster_ends {
    struct lull_cluster_end *heap;
    size_t count;
    size_t room;
};

/* Starts as zeroes. -ENOMEM. */
int lull_cluster_ends_add(struct lull_cluster_ends *ends, const struct lull_cluster_end *end);

/* The earliest; there is one. */
void lull_cluster_ends_remove(struct lull_cluster_ends *ends);
void lull_cluster_ends_fini(struct lull_cluster_ends *ends);

#endif
