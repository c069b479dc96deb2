/*
 * Number of free GPUs as a step function of time, for reservations.
 * timeline_search.h looks for room.
 *
 * Pure; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_MODEL_TIMELINE_H
#define LULL_CLUSTER_CORE_MODEL_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

/* Number of free GPUs from at_ns until the next step begins. The last step has no end. */
struct lull_timeline_step {
    int64_t at_ns;
    int64_t free;
};

/* A zero-initialised timeline has no steps: lull_timeline_reset() comes first. */
struct lull_timeline {
    struct lull_timeline_step *steps; /* ascending in time, at least one */
    size_t count;
    size_t room;
};

/* Replaces all steps by one: so many GPUs are free from now_ns on. Errors: -ENOMEM. */
int lull_timeline_reset(struct lull_timeline *timeline, int64_t now_ns, int64_t free);
void lull_timeline_fini(struct lull_timeline *timeline);

/* Drops entries before now_ns. */
void lull_timeline_advance(struct lull_timeline *timeline, int64_t now_ns);

/* `gpus` fewer (negative: more) are free from from_ns, not before the first step, until until_ns
 * (INT64_MAX: for ever). -ENOMEM. O(steps). */
int lull_timeline_take(struct lull_timeline *timeline, int64_t from_ns, int64_t until_ns,
                       int64_t gpus);

#endif
