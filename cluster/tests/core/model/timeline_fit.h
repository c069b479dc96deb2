/* Timelines for tests: copies, and room on one timeline alone. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_TESTS_CORE_MODEL_TIMELINE_FIT_H
#define LULL_CLUSTER_TESTS_CORE_MODEL_TIMELINE_FIT_H

#include <stdlib.h>

#include "cluster/core/model/timeline.h"

static inline void timeline_copy(struct lull_timeline *target, const struct lull_timeline *source)
{
    if (lull_timeline_reset(target, source->steps[0].at_ns, source->steps[0].free) < 0)
        abort();
    for (size_t i = 1; i < source->count; i++)
        if (lull_timeline_take(target, source->steps[i].at_ns, INT64_MAX,
                               source->steps[i - 1].free - source->steps[i].free) < 0)
            abort();
}

/* The first time from the first step on, and by latest_ns, from which so many GPUs are free for
 * time_ns; INT64_MAX: there is none. */
static inline int64_t timeline_first_fit(const struct lull_timeline *timeline, int64_t gpus,
                                         int64_t time_ns, int64_t latest_ns)
{
    const struct lull_timeline_step *steps = timeline->steps;
    int64_t start_ns = steps[0].at_ns;

    for (size_t i = 0; start_ns <= latest_ns; i++) {
        const int64_t end_ns = i + 1 < timeline->count ? steps[i + 1].at_ns : INT64_MAX;

        if (steps[i].free < gpus)
            start_ns = end_ns;
        else if (end_ns - start_ns >= time_ns)
            return start_ns;
        if (end_ns == INT64_MAX)
            return INT64_MAX;
    }
    return INT64_MAX;
}

#endif
