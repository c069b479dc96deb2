/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/network/contention.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/core/network/contention_state.h"

/* A change of pace by at most this part is not reported to the policy. */
static const double PACE_STEP = 1e-6;

bool lull_contention_is_on(const struct lull_contention_rules *rules)
{
    return rules->shares_links || rules->storage_mb_s > 0.0;
}

/* ---- beginning and end -------------------------------------------------------------------- */

static int make_links(struct lull_contention *contention)
{
    const struct lull_cluster *cluster = contention->cluster;

    for (uint32_t i = 0; i < cluster->node_count; i++)
        if (cluster->nodes[i].rack >= contention->rack_count)
            contention->rack_count = cluster->nodes[i].rack + 1;
    contention->links = calloc((size_t)cluster->node_count + contention->rack_count + 1,
                               sizeof(*contention->links));
    contention->rack_stamp =
        calloc((size_t)contention->rack_count + 1, sizeof(*contention->rack_stamp));
    if (contention->links == NULL || contention->rack_stamp == NULL)
        return -ENOMEM;
    return 0;
}

int lull_contention_create(const struct lull_cluster *cluster,
                           const struct lull_contention_rules *rules,
                           struct lull_contention **contention_out)
{
    struct lull_contention *contention = calloc(1, sizeof(*contention));

    if (contention == NULL)
        return -ENOMEM;
    contention->cluster = cluster;
    contention->rules = *rules;
    if (make_links(contention) < 0) {
        lull_contention_destroy(contention);
        return -ENOMEM;
    }
    *contention_out = contention;
    return 0;
}

void lull_contention_destroy(struct lull_contention *contention)
{
    if (contention == NULL)
        return;
    for (uint32_t i = 0; i < contention->room; i++)
        free(contention->members[i].uses);
    for (uint32_t i = 0;
         contention->links != NULL && i < contention->cluster->node_count + contention->rack_count;
         i++)
        free(contention->links[i].users);
    free(contention->links);
    free(contention->rack_stamp);
    free(contention->members);
    free(contention->open.jobs);
    free(contention->round.jobs);
    free(contention->due.jobs);
    free(contention->reported.jobs);
    free(contention->readers.jobs);
    free(contention);
}

/* ---- begin and end of jobs ---------------------------------------------------------------- */

/* Makes room for the job in the array of members and in each list. */
static int contention_reach(struct lull_contention *contention, uint32_t job)
{
    struct lull_contention_list *const lists[] = {&contention->open, &contention->round,
                                                  &contention->due, &contention->reported,
                                                  &contention->readers};
    uint32_t room = contention->room > 0 ? contention->room : 256;
    struct lull_contention_member *members;

    if (job < contention->room)
        return 0;
    while (room <= job)
        room *= 2;
    members = realloc(contention->members, room * sizeof(*members));
    if (members == NULL)
        return -ENOMEM;
    contention->members = members;
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        uint32_t *jobs = realloc(lists[i]->jobs, room * sizeof(*jobs));

        if (jobs == NULL)
            return -ENOMEM;
        lists[i]->jobs = jobs;
    }
    memset(&members[contention->room], 0, (room - contention->room) * sizeof(*members));
    contention->room = room;
    return 0;
}

int lull_contention_add(struct lull_contention *contention, uint32_t job,
                        const struct lull_cluster_point *point,
                        const struct lull_cluster_share *shares, size_t count)
{
    const bool sends = contention->rules.shares_links && count > 1 && point->exposed_ratio > 0.0F;
    const bool reads = contention->rules.storage_mb_s > 0.0 && point->read_mb_s > 0.0F;
    struct lull_contention_member *member;

    if (contention_reach(contention, job) < 0)
        return -ENOMEM;
    member = &contention->members[job];
    member->exposed_ratio = point->exposed_ratio;
    member->gpus = point->gpus;
    member->read_mb_s = reads ? point->read_mb_s : 0.0;
    member->link_pace = member->pace = 1.0;
    if (sends && lull_contention_join(contention, job, shares, count) < 0)
        return -ENOMEM;
    if (reads)
        lull_contention_begin_reading(contention, job);
    member->runs = true;
    return 0;
}

void lull_contention_remove(struct lull_contention *contention, uint32_t job)
{
    if (job >= contention->room || !contention->members[job].runs)
        return;
    contention->members[job].runs = false;
    lull_contention_part(contention, job);
    if (contention->members[job].read_mb_s > 0.0)
        lull_contention_end_reading(contention, job);
}

/* ---- paces -------------------------------------------------------------------------------- */

static double pace_of(const struct lull_contention *contention, uint32_t job)
{
    const struct lull_contention_member *member = &contention->members[job];

    return member->read_mb_s > 0.0
               ? member->link_pace * lull_contention_served_ratio(contention, job)
               : member->link_pace;
}

/* Updates the read demand of jobs whose links have changed. */
static void want_all(struct lull_contention *contention)
{
    for (size_t i = 0; i < contention->due.count; i++) {
        const uint32_t job = contention->due.jobs[i];

        if (contention->members[job].runs && contention->members[job].read_mb_s > 0.0)
            lull_contention_want(contention, job);
    }
}

size_t lull_contention_update(struct lull_contention *contention, const uint32_t **jobs_out)
{
    struct lull_contention_list *const reported = &contention->reported;

    lull_contention_settle(contention);
    want_all(contention);
    lull_contention_serve(contention);
    reported->count = 0;
    for (size_t i = 0; i < contention->due.count; i++) {
        const uint32_t job = contention->due.jobs[i];
        struct lull_contention_member *const member = &contention->members[job];
        const double pace = member->runs ? pace_of(contention, job) : member->pace;

        assert(pace > 0.0 && pace <= 1.0);
        member->is_due = false;
        if (fabs(pace - member->pace) <= PACE_STEP * member->pace)
            continue;
        member->pace = pace;
        reported->jobs[reported->count++] = job;
    }
    contention->due.count = 0;
    if (reported->count > 1)
        qsort(reported->jobs, reported->count, sizeof(*reported->jobs), lull_cluster_by_number);
    *jobs_out = reported->jobs;
    return reported->count;
}

double lull_contention_pace(const struct lull_contention *contention, uint32_t job)
{
    return contention->members[job].pace;
}
