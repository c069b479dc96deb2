/* Shared resources of jobs: links of nodes and racks, with their users and loads; and the storage
 * that all jobs read from. SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/network/contention_state.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/array.h"

/* A change of a duty by at most this is not propagated to the jobs that share its links. */
static const double DUTY_STEP = 1e-10;

/* ---- places of jobs ----------------------------------------------------------------------- */

static uint32_t rack_link(const struct lull_contention *contention, uint32_t node)
{
    return contention->cluster->node_count + contention->cluster->nodes[node].rack;
}

/* Returns whether the job has not been seen in the node's rack since the stamp. */
static bool is_new_rack(struct lull_contention *contention, uint32_t node)
{
    uint64_t *const seen = &contention->rack_stamp[contention->cluster->nodes[node].rack];
    const bool is_new = *seen != contention->stamp;

    *seen = contention->stamp;
    return is_new;
}

static uint32_t count_racks(struct lull_contention *contention,
                            const struct lull_cluster_share *shares, size_t count)
{
    uint32_t racks = 0;

    contention->stamp++;
    for (size_t i = 0; i < count; i++)
        racks += is_new_rack(contention, shares[i].node);
    return racks;
}

/* Lists the links of a job's shares in its uses, which have room. */
static void list_links(struct lull_contention *contention, const struct lull_cluster_share *shares,
                       size_t count, struct lull_contention_member *member)
{
    const bool has_uplinks =
        contention->rules.uplink_links > 0.0 && count_racks(contention, shares, count) > 1;

    contention->stamp++;
    for (size_t i = 0; i < count; i++) {
        member->uses[member->use_count++].link = shares[i].node;
        if (has_uplinks && is_new_rack(contention, shares[i].node))
            member->uses[member->use_count++].link = rack_link(contention, shares[i].node);
    }
}

static void open_job(struct lull_contention *contention, uint32_t job)
{
    if (contention->members[job].is_open)
        return;
    assert(contention->open.count < contention->room);
    contention->members[job].is_open = true;
    contention->open.jobs[contention->open.count++] = job;
}

static void open_others(struct lull_contention *contention, uint32_t job)
{
    const struct lull_contention_member *member = &contention->members[job];

    for (uint32_t i = 0; i < member->use_count; i++) {
        const struct lull_contention_link *link = &contention->links[member->uses[i].link];

        for (size_t k = 0; k < link->count; k++)
            if (link->users[k].job != job)
                open_job(contention, link->users[k].job);
    }
}

int lull_contention_join(struct lull_contention *contention, uint32_t job,
                         const struct lull_cluster_share *shares, size_t count)
{
    struct lull_contention_member *const member = &contention->members[job];

    assert(member->use_count == 0);
    member->uses = calloc(2 * count, sizeof(*member->uses));
    if (member->uses == NULL)
        return -ENOMEM;
    list_links(contention, shares, count, member);
    for (uint32_t i = 0; i < member->use_count; i++) {
        struct lull_contention_link *const link = &contention->links[member->uses[i].link];

        if (lull_array_reserve(&link->users, &link->room, link->count, sizeof(*link->users)) == 0)
            continue;
        free(member->uses);
        member->uses = NULL;
        member->use_count = 0;
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < member->use_count; i++) {
        struct lull_contention_link *const link = &contention->links[member->uses[i].link];

        member->uses[i].at = link->count;
        link->users[link->count++] = (struct lull_contention_user){job, i};
    }
    member->duty = 0.0; /* until lull_contention_settle() finds it */
    open_job(contention, job);
    return 0;
}

void lull_contention_part(struct lull_contention *contention, uint32_t job)
{
    struct lull_contention_member *const member = &contention->members[job];

    open_others(contention, job);
    for (uint32_t i = 0; i < member->use_count; i++) {
        struct lull_contention_link *const link = &contention->links[member->uses[i].link];
        struct lull_contention_user moved;

        assert(link->count > 0 && link->users[member->uses[i].at].job == job);
        moved = link->users[--link->count];

        link->users[member->uses[i].at] = moved;
        contention->members[moved.job].uses[moved.use].at = member->uses[i].at;
        /* Without users the sum is exactly 0: rounding errors are discarded. */
        link->duties = link->count > 0 ? link->duties - member->duty : 0.0;
    }
    free(member->uses);
    member->uses = NULL;
    member->use_count = 0;
}

/* ---- how busy ----------------------------------------------------------------------------- */

/* Returns the time of a transfer of the job relative to its time alone on the links of nodes. The
 * slowest of its links decides. */
static double shared_link_stretch_of(const struct lull_contention *contention,
                                     const struct lull_contention_member *member)
{
    double most = 1.0;

    for (uint32_t i = 0; i < member->use_count; i++) {
        const uint32_t number = member->uses[i].link;
        const double others = fmax(contention->links[number].duties - member->duty, 0.0);
        const double unit =
            number < contention->cluster->node_count ? 1.0 : 1.0 / contention->rules.uplink_links;

        most = fmax(most, unit * (1.0 + others * (1.0 + contention->rules.penalty_ratio)));
    }
    return most;
}

static void settle_one(struct lull_contention *contention, uint32_t job)
{
    struct lull_contention_member *const member = &contention->members[job];
    const double transfer = member->exposed_ratio * shared_link_stretch_of(contention, member);
    const double time = 1.0 - member->exposed_ratio + transfer;
    const double more = transfer / time - member->duty;

    assert(time >= 1.0);
    if (1.0 / time != member->link_pace) {
        member->link_pace = 1.0 / time;
        lull_contention_mark_due(contention, job);
    }
    if (fabs(more) <= DUTY_STEP)
        return;
    member->duty += more;
    for (uint32_t i = 0; i < member->use_count; i++)
        contention->links[member->uses[i].link].duties += more;
    open_others(contention, job);
}

void lull_contention_settle(struct lull_contention *contention)
{
    while (contention->open.count > 0) {
        const struct lull_contention_list round = contention->open;

        contention->open = contention->round;
        contention->open.count = 0;
        contention->round = round;
        for (size_t i = 0; i < round.count; i++)
            contention->members[round.jobs[i]].is_open = false;
        for (size_t i = 0; i < round.count; i++)
            if (contention->members[round.jobs[i]].use_count > 0)
                settle_one(contention, round.jobs[i]);
    }
}

/* ---- the storage ----------------------------------------------------------------------------- */

/* Read rate that a GPU of the job needs at the pace of its
 * links; above 0, so that shares of it are defined. */
static double wanted_mb_s(const struct lull_contention_member *member)
{
    return fmax(member->read_mb_s / member->gpus * member->link_pace, 1e-12);
}

void lull_contention_begin_reading(struct lull_contention *contention, uint32_t job)
{
    struct lull_contention_member *const member = &contention->members[job];

    assert(contention->readers.count < contention->room);
    member->reader = contention->readers.count;
    member->wanted_mb_s = wanted_mb_s(member);
    contention->readers.jobs[contention->readers.count++] = job;
    contention->wanted_mb_s += member->wanted_mb_s * member->gpus;
    contention->has_changed = true;
}

void lull_contention_end_reading(struct lull_contention *contention, uint32_t job)
{
    const struct lull_contention_member *member = &contention->members[job];
    struct lull_contention_list *const readers = &contention->readers;

    assert(readers->count > 0 && readers->jobs[member->reader] == job);
    readers->jobs[member->reader] = readers->jobs[--readers->count];
    contention->members[readers->jobs[member->reader]].reader = member->reader;
    contention->has_changed = true;
    /* Without readers the sum is exactly 0: rounding errors are discarded. */
    contention->wanted_mb_s =
        readers->count > 0 ? contention->wanted_mb_s - member->wanted_mb_s * member->gpus : 0.0;
}

void lull_contention_want(struct lull_contention *contention, uint32_t job)
{
    if (wanted_mb_s(&contention->members[job]) == contention->members[job].wanted_mb_s)
        return;
    lull_contention_end_reading(contention, job);
    lull_contention_begin_reading(contention, job);
}

/*
 * Max-min fairness by progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2): the rate
 * of all GPUs rises until those with enough drop out, repeatedly, until the remainder is divided
 * equally among the rest.
 */
static void divide_storage(struct lull_contention *contention)
{
    const struct lull_contention_list *readers = &contention->readers;
    const double storage_mb_s = contention->rules.storage_mb_s;
    double left_mb_s;
    double open_gpus = 0.0;
    bool has_dropped = true;

    for (size_t i = 0; i < readers->count; i++) {
        open_gpus += contention->members[readers->jobs[i]].gpus;
        contention->members[readers->jobs[i]].is_served = false;
    }
    /* This is storage_mb_s but for a rounding, which recorded results contain. */
    left_mb_s = open_gpus / (open_gpus / storage_mb_s);
    while (has_dropped && open_gpus > 0.0) {
        const double rate_mb_s = fmax(left_mb_s, 0.0) / open_gpus;

        has_dropped = false;
        for (size_t i = 0; i < readers->count; i++) {
            struct lull_contention_member *const member = &contention->members[readers->jobs[i]];

            if (member->is_served)
                continue;
            member->served_mb_s = fmin(member->wanted_mb_s, rate_mb_s);
            if (member->wanted_mb_s > rate_mb_s)
                continue;
            member->is_served = has_dropped = true;
            left_mb_s -= member->wanted_mb_s * member->gpus;
            open_gpus -= member->gpus;
        }
    }
}

void lull_contention_serve(struct lull_contention *contention)
{
    const bool was_short = contention->is_short;

    if (!contention->has_changed)
        return;
    contention->has_changed = false;
    contention->is_short = contention->wanted_mb_s > contention->rules.storage_mb_s;
    if (!was_short && !contention->is_short)
        return;
    divide_storage(contention);
    for (size_t i = 0; i < contention->readers.count; i++)
        lull_contention_mark_due(contention, contention->readers.jobs[i]);
}

double lull_contention_served_ratio(const struct lull_contention *contention, uint32_t job)
{
    const struct lull_contention_member *member = &contention->members[job];

    if (!contention->is_short)
        return 1.0;
    return fmin(member->served_mb_s / member->wanted_mb_s, 1.0);
}
