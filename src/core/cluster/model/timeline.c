/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/model/timeline.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

int lull_timeline_reset(struct lull_timeline *timeline, int64_t now_ns, int64_t free)
{
    if (lull_array_reserve(&timeline->steps, &timeline->room, 0, sizeof(*timeline->steps)) < 0)
        return -ENOMEM;
    timeline->steps[0] = (struct lull_timeline_step){now_ns, free};
    timeline->count = 1;
    return 0;
}

void lull_timeline_fini(struct lull_timeline *timeline)
{
    free(timeline->steps);
    *timeline = (struct lull_timeline){0};
}

void lull_timeline_advance(struct lull_timeline *timeline, int64_t now_ns)
{
    size_t past = 0;

    assert(timeline->count > 0);
    while (past + 1 < timeline->count && timeline->steps[past + 1].at_ns <= now_ns)
        past++;
    timeline->count -= past;
    memmove(timeline->steps, timeline->steps + past, timeline->count * sizeof(*timeline->steps));
    if (timeline->steps[0].at_ns < now_ns)
        timeline->steps[0].at_ns = now_ns;
}

/* The step that begins at at_ns, which is made if there is none; there is room. */
static size_t split(struct lull_timeline *timeline, int64_t at_ns)
{
    struct lull_timeline_step *const steps = timeline->steps;
    size_t i = timeline->count;

    while (i > 0 && steps[i - 1].at_ns > at_ns)
        i--;
    assert(i > 0 && timeline->count < timeline->room);
    if (steps[i - 1].at_ns == at_ns)
        return i - 1;
    memmove(&steps[i + 1], &steps[i], (timeline->count - i) * sizeof(*steps));
    steps[i] = (struct lull_timeline_step){at_ns, steps[i - 1].free};
    timeline->count++;
    return i;
}

int lull_timeline_take(struct lull_timeline *timeline, int64_t from_ns, int64_t until_ns,
                       int64_t gpus)
{
    size_t first;
    size_t end;

    /* Two steps are split at most. */
    if (lull_array_reserve(&timeline->steps, &timeline->room, timeline->count + 1,
                           sizeof(*timeline->steps)) < 0)
        return -ENOMEM;
    first = split(timeline, from_ns);
    end = until_ns == INT64_MAX ? timeline->count : split(timeline, until_ns);
    for (size_t i = first; i < end; i++)
        timeline->steps[i].free -= gpus;
    return 0;
}

/* The step that holds at at_ns, which lies not before step `from`; in strides, since it is near. */
static size_t step_at(const struct lull_timeline *timeline, size_t from, int64_t at_ns)
{
    size_t stride = 1;

    while (stride > 0) {
        if (from + stride < timeline->count && timeline->steps[from + stride].at_ns <= at_ns) {
            from += stride;
            stride *= 2;
        } else {
            stride /= 2;
        }
    }
    return from;
}

/* The first step behind `from` of a timeline that never falls with this many free GPUs; count:
 * there is none. */
static size_t step_with(const struct lull_timeline *rising, size_t from, int64_t gpus)
{
    size_t low = from + 1;
    size_t high = rising->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (rising->steps[middle].free < gpus)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int64_t lull_timeline_first_fit_beside(const struct lull_timeline *rising,
                                       const struct lull_timeline *reserved, int64_t gpus,
                                       int64_t time_ns, int64_t latest_ns)
{
    int64_t start_ns = reserved->steps[0].at_ns;
    size_t at = 0; /* of the rising one */

    assert(rising->count > 0 && rising->steps[0].at_ns == start_ns);
    for (size_t i = 0; start_ns <= latest_ns; i++) {
        const struct lull_timeline_step *step = &reserved->steps[i];
        const int64_t end_ns = i + 1 < reserved->count ? step[1].at_ns : INT64_MAX;

        if (start_ns >= end_ns)
            continue;
        at = step_at(rising, at, start_ns > step->at_ns ? start_ns : step->at_ns);
        /* Late in this step: whatever began before it cannot go on. */
        if (rising->steps[at].free + step->free < gpus) {
            const size_t later = step_with(rising, at, gpus - step->free);
            const int64_t free_ns = later < rising->count ? rising->steps[later].at_ns : INT64_MAX;

            start_ns = free_ns < end_ns ? free_ns : end_ns;
        }
        if (start_ns < end_ns && end_ns - start_ns >= time_ns)
            return start_ns <= latest_ns ? start_ns : INT64_MAX;
        if (end_ns == INT64_MAX)
            return INT64_MAX;
    }
    return INT64_MAX;
}
