/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/model/timeline.h"

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
static size_t stairs_split(struct lull_timeline *timeline, int64_t at_ns)
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
    first = stairs_split(timeline, from_ns);
    end = until_ns == INT64_MAX ? timeline->count : stairs_split(timeline, until_ns);
    for (size_t i = first; i < end; i++)
        timeline->steps[i].free -= gpus;
    return 0;
}
