/* The storage that all read from. SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "core/cluster/network/contention_state.h"

/* What a GPU of the job wants to read; above 0, since a flow cannot want nothing. */
static double wanted_mb_s(const struct lull_contention_member *member)
{
    return fmax(member->read_mb_s / member->gpus * member->link_pace, 1e-12);
}

static int reach(struct lull_contention *contention, uint32_t flow)
{
    const uint32_t room = 2 * flow + 16;
    uint32_t *jobs;

    if (flow < contention->flow_room)
        return 0;
    jobs = realloc(contention->flow_jobs, room * sizeof(*jobs));
    if (jobs == NULL)
        return -ENOMEM;
    contention->flow_jobs = jobs;
    contention->flow_room = room;
    return 0;
}

int lull_contention_begin_reading(struct lull_contention *contention, uint32_t job)
{
    struct lull_contention_member *const member = &contention->members[job];
    const struct lull_share_use use = {0, member->gpus};
    const double most_mb_s = wanted_mb_s(member);
    uint32_t flow;

    if (lull_share_add(contention->storage, &use, 1, most_mb_s, &flow) < 0)
        return -ENOMEM;
    if (reach(contention, flow) < 0) {
        lull_share_remove(contention->storage, flow);
        return -ENOMEM;
    }
    contention->flow_jobs[flow] = job;
    contention->wanted_mb_s += most_mb_s * member->gpus;
    contention->reading++;
    contention->has_changed = true;
    member->flow = flow;
    member->flow_mb_s = most_mb_s;
    return 0;
}

void lull_contention_end_reading(struct lull_contention *contention, uint32_t job)
{
    const struct lull_contention_member *member = &contention->members[job];

    assert(contention->reading > 0 && contention->flow_jobs[member->flow] == job);
    lull_share_remove(contention->storage, member->flow);
    contention->reading--;
    contention->has_changed = true;
    /* What rounding leaves is nobody's. */
    contention->wanted_mb_s =
        contention->reading > 0 ? contention->wanted_mb_s - member->flow_mb_s * member->gpus : 0.0;
}

int lull_contention_want(struct lull_contention *contention, uint32_t job)
{
    if (wanted_mb_s(&contention->members[job]) == contention->members[job].flow_mb_s)
        return 0;
    lull_contention_end_reading(contention, job);
    return lull_contention_begin_reading(contention, job);
}

void lull_contention_serve(struct lull_contention *contention)
{
    const bool was_short = contention->is_short;
    const uint32_t *flows;
    uint32_t count;

    if (!contention->has_changed)
        return;
    contention->has_changed = false;
    contention->is_short = contention->wanted_mb_s > contention->rules.storage_mb_s;
    if (!was_short && !contention->is_short)
        return;
    count = lull_share_update(contention->storage, &flows);
    for (uint32_t i = 0; i < count; i++)
        lull_contention_mark_due(contention, contention->flow_jobs[flows[i]]);
}

double lull_contention_served_ratio(const struct lull_contention *contention, uint32_t job)
{
    const struct lull_contention_member *member = &contention->members[job];

    if (!contention->is_short)
        return 1.0;
    return fmin(lull_share_rate_mb_s(contention->storage, member->flow) / member->flow_mb_s, 1.0);
}
