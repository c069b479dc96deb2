/*
 * How many GPUs will be free, and when: a step function of time, for reservations. Steps are few
 * (two per reservation), so that a linear scan is the fastest way to look for room.
 *
 * Pure; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_CLUSTER_MODEL_TIMELINE_H
#define LULL_CORE_CLUSTER_MODEL_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

/* How many GPUs are free from at_ns until the next step begins; the last step lasts for ever. */
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

/* Forgets what lies before now_ns. */
void lull_timeline_advance(struct lull_timeline *timeline, int64_t now_ns);

/* `gpus` fewer (negative: more) are free from from_ns, not before the first step, until until_ns
 * (INT64_MAX: for ever). -ENOMEM. O(steps). */
int lull_timeline_take(struct lull_timeline *timeline, int64_t from_ns, int64_t until_ns,
                       int64_t gpus);

/*
 * The first time from the first step on, and by latest_ns, from which `gpus` GPUs are free for
 * time_ns; INT64_MAX: there is none. What is free is the sum of two timelines: what is free where
 * nothing is reserved, which never falls (running jobs only end), and what is reserved of it, as
 * free GPUs below 0. Both begin at the same time. O(reserved steps * log of the others).
 */
int64_t lull_timeline_first_fit_beside(const struct lull_timeline *rising,
                                       const struct lull_timeline *reserved, int64_t gpus,
                                       int64_t time_ns, int64_t latest_ns);

#endif
