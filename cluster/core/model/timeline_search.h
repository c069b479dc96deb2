/*
 * Searches for room on a timeline to which reservations are only added, without revisiting ranges
 * known to be taken. A search continues from one running time to a longer one. What it finds is
 * where the next search for as many GPUs, or more, and as long a time, or longer, may begin: a
 * reservation never makes room earlier. The results are those of searches from the first step on.
 *
 * Pure; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_MODEL_TIMELINE_SEARCH_H
#define LULL_CLUSTER_CORE_MODEL_TIMELINE_SEARCH_H

#include <stddef.h>
#include <stdint.h>

#include "cluster/core/model/timeline.h"

/* Searches by GPUs: 2^i of them, below 2^32. */
#define LULL_TIMELINE_SIZES 33

/* No schedule that runs for time_ns, or longer, begins before start_ns. */
struct lull_timeline_known {
    int64_t time_ns;
    int64_t start_ns;
};

/* The results of earlier searches for one number of GPUs: both times ascend. */
struct lull_timeline_stairs {
    struct lull_timeline_known *all;
    size_t count;
    size_t room;
};

/* Cached results for a timeline. Zero-initialised is empty. */
struct lull_timeline_earliest {
    struct lull_timeline_stairs of_size[LULL_TIMELINE_SIZES];
};

/* Clears the results, because the timeline has changed. */
void lull_timeline_earliest_reset(struct lull_timeline_earliest *earliest);
void lull_timeline_earliest_fini(struct lull_timeline_earliest *earliest);

/* The position of a search for a number of GPUs. */
struct lull_timeline_search {
    const struct lull_timeline *rising;
    const struct lull_timeline *reserved;
    uint32_t gpus;
    int64_t time_ns;    /* that it has found room for */
    int64_t start_ns;   /* the first time with room for it; INT64_MAX: there is none */
    size_t reserved_at; /* step of the reservations at start_ns */
    size_t rising_at;
};

/*
 * Finds room for `gpus` (> 0) GPUs for time_ns (> 0). The free GPUs are the sum of two timelines.
 * One is the free GPUs without reservations, which never falls (running jobs only end). The other
 * is the reservations, as negative numbers of free GPUs. Both begin at the same time, and must not
 * change during the search. -ENOMEM.
 */
int lull_timeline_search_begin(struct lull_timeline_search *search,
                               struct lull_timeline_earliest *earliest,
                               const struct lull_timeline *rising,
                               const struct lull_timeline *reserved, uint32_t gpus,
                               int64_t time_ns);

/* Continues the search for a time that is no shorter than before. */
void lull_timeline_search_longer(struct lull_timeline_search *search, int64_t time_ns);

#endif
