/*
 * Jobs of equal shape that wait, in the order of their numbers, and a search for the first of them
 * that is short enough. A tree holds the least time of each part of the list, so that the search
 * takes O(log n). Private to policies.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_POLICY_WAITING_H
#define LULL_CLUSTER_CORE_POLICY_WAITING_H

#include <stddef.h>
#include <stdint.h>

/* Zero-initialised is empty. */
struct lull_waiting {
    uint32_t *jobs;  /* ascending; removed jobs keep their places */
    int64_t *min_ns; /* of a tree's nodes, the root at 1, the leaves from `room` on */
    size_t count;
    size_t room;
};

#define LULL_WAITING_NONE UINT32_MAX

void lull_waiting_fini(struct lull_waiting *waiting);

/* Adds a job, whose number is above those of all others, or that was in the list before. Errors:
 * -ENOMEM. */
int lull_waiting_add(struct lull_waiting *waiting, uint32_t job, int64_t time_ns);

/* Removes a job, which is in the list. */
void lull_waiting_remove(struct lull_waiting *waiting, uint32_t job);

/* The first job with a number above `after` (LULL_WAITING_NONE: with any number) that takes at most
 * max_ns; LULL_WAITING_NONE: there is none. */
uint32_t lull_waiting_first(const struct lull_waiting *waiting, uint32_t after, int64_t max_ns);

#endif
