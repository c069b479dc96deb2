/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/simulator/waiting.h"

#include <errno.h>
#include <stdlib.h>

#include "cluster/core/model/placement.h"

struct waiting_replay {
    const struct lull_cluster *cluster;
    const struct lull_cluster_jobs *jobs;
    const struct lull_cluster_stretches *stretches;
    uint32_t job;
    size_t own;                        /* its first stretch; SIZE_MAX: none */
    struct lull_cluster_event *events; /* of its pool */
    size_t event_count;
    size_t next;        /* the first event that has not been played */
    size_t next_change; /* the same of nodes */
    struct lull_cluster_state *state;
    bool *is_running; /* [job] */
    bool *is_named;   /* [job] in ahead or overtaking */
    struct lull_cluster_share *scratch;
    struct lull_cluster_wait *wait;
};

static const struct lull_cluster_job *waiting_job_of(const struct waiting_replay *replay,
                                                     uint32_t job)
{
    return &replay->jobs->all[job];
}

static uint32_t waiting_gpus_of(const struct waiting_replay *replay,
                                const struct lull_cluster_stretch *stretch)
{
    return waiting_job_of(replay, stretch->job)->points[stretch->point].gpus;
}

static void waiting_add_name(struct lull_cluster_names *names, uint32_t job, uint32_t gpus)
{
    if (names->count < LULL_CLUSTER_WAIT_NAMES)
        names->first[names->count] = job;
    names->count++;
    names->gpus += gpus;
}

/* ---- events ------------------------------------------------------------------------------- */

static int waiting_collect(struct waiting_replay *replay)
{
    const struct lull_cluster_stretches *stretches = replay->stretches;
    const uint32_t pool = waiting_job_of(replay, replay->job)->pool;
    size_t count;

    for (size_t i = 0; i < stretches->count && replay->own == SIZE_MAX; i++)
        if (stretches->all[i].job == replay->job)
            replay->own = i;
    if (lull_cluster_stretches_events(stretches, &replay->events, &count) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        const struct lull_cluster_event event = replay->events[i];

        if (waiting_job_of(replay, stretches->all[event.stretch].job)->pool == pool)
            replay->events[replay->event_count++] = event;
    }
    return 0;
}

/* Plays the changes of nodes up to an instant, and at that instant those before a stretch began. */
static void play_nodes(struct waiting_replay *replay, int64_t time_ns, size_t before_stretch)
{
    const struct lull_cluster_stretches *stretches = replay->stretches;

    for (; replay->next_change < stretches->change_count; replay->next_change++) {
        const struct lull_cluster_node_change *change = &stretches->changes[replay->next_change];

        if (change->time_ns > time_ns ||
            (change->time_ns == time_ns && change->stretch > before_stretch))
            return;
        lull_cluster_state_set_power(replay->state, change->node, change->power);
    }
}

static void waiting_play_event(struct waiting_replay *replay,
                               const struct lull_cluster_event *event)
{
    const struct lull_cluster_stretch *stretch = &replay->stretches->all[event->stretch];

    if (event->is_begin)
        lull_cluster_state_take(replay->state, stretch->shares, stretch->share_count);
    else
        lull_cluster_state_give(replay->state, stretch->shares, stretch->share_count);
    replay->is_running[stretch->job] = event->is_begin;
}

/* Plays all that had happened at an instant when the policy started a stretch. */
static void play_until(struct waiting_replay *replay, int64_t time_ns, size_t before_stretch)
{
    for (; replay->next < replay->event_count; replay->next++) {
        const struct lull_cluster_event *event = &replay->events[replay->next];

        if (event->time_ns > time_ns ||
            (event->time_ns == time_ns && event->is_begin && event->stretch >= before_stretch))
            break;
        play_nodes(replay, event->is_begin ? event->time_ns : event->time_ns - 1, event->stretch);
        waiting_play_event(replay, event);
    }
    play_nodes(replay, time_ns, before_stretch);
}

/* ---- free GPUs ---------------------------------------------------------------------------- */

/* Counts the GPUs that are free now. of_first: how many GPUs the job took on the first of its
 * nodes. */
static void waiting_count_free(const struct waiting_replay *replay, uint32_t of_first,
                               struct lull_cluster_room *room)
{
    const struct lull_cluster_job *job = waiting_job_of(replay, replay->job);
    const uint32_t type = job->points[replay->wait->point].type;

    *room = (struct lull_cluster_room){
        .gpus = lull_cluster_state_gpus_of(replay->state, job->pool, type),
        .free = lull_cluster_state_free_of(replay->state, job->pool, type),
    };
    for (uint32_t i = 0; i < replay->cluster->node_count; i++) {
        const struct lull_cluster_node *node = &replay->cluster->nodes[i];
        const uint32_t free = lull_cluster_state_free(replay->state, i);

        if (node->pool != job->pool || node->type != type)
            continue;
        room->nodes++;
        room->not_on += lull_cluster_state_power(replay->state, i) != LULL_CLUSTER_ON;
        room->with_free += free > 0;
        room->with_room += free >= of_first;
        if (free > room->most_free)
            room->most_free = free;
    }
}

/* The job that was started next of those that wait now; UINT32_MAX: none of them was. */
static uint32_t next_in(const struct waiting_replay *replay, int64_t now_ns)
{
    for (size_t i = replay->next; i < replay->event_count; i++) {
        const uint32_t job = replay->stretches->all[replay->events[i].stretch].job;

        if (replay->events[i].is_begin && !replay->is_running[job] &&
            waiting_job_of(replay, job)->arrival_ns <= now_ns)
            return job;
    }
    return UINT32_MAX;
}

static enum lull_cluster_cause cause_now(const struct waiting_replay *replay, int64_t now_ns,
                                         uint32_t *behind_out)
{
    const struct lull_cluster_job *job = waiting_job_of(replay, replay->job);
    bool is_enough = false;
    bool does_fit = false;

    for (uint32_t i = 0; i < job->point_count && !does_fit; i++) {
        const struct lull_cluster_point *point = &job->points[i];

        is_enough |=
            lull_cluster_state_free_of(replay->state, job->pool, point->type) >= point->gpus;
        does_fit = lull_cluster_place_consolidated(replay->state, job->pool, point->type,
                                                   point->gpus, replay->scratch) > 0;
    }
    if (!is_enough)
        return LULL_CLUSTER_SHORT;
    if (!does_fit)
        return LULL_CLUSTER_SCATTERED;
    *behind_out = next_in(replay, now_ns);
    return *behind_out == replay->job || *behind_out == UINT32_MAX ? LULL_CLUSTER_HELD
                                                                   : LULL_CLUSTER_BEHIND;
}

/* ---- the wait ----------------------------------------------------------------------------- */

static void count_running(struct waiting_replay *replay)
{
    for (size_t i = 0; i < replay->next; i++) {
        const struct lull_cluster_stretch *stretch =
            &replay->stretches->all[replay->events[i].stretch];

        if (replay->events[i].is_begin &&
            stretch->end_ns > waiting_job_of(replay, replay->job)->arrival_ns)
            waiting_add_name(&replay->wait->running, stretch->job,
                             waiting_gpus_of(replay, stretch));
    }
}

/* Names the jobs that were started between its arrival and its own start. */
static void waiting_count_others(struct waiting_replay *replay, size_t from_event)
{
    for (size_t i = from_event; i < replay->event_count; i++) {
        const size_t at = replay->events[i].stretch;
        const struct lull_cluster_stretch *stretch = &replay->stretches->all[at];

        if (at >= replay->own || replay->events[i].time_ns > replay->wait->end_ns)
            break;
        if (!replay->events[i].is_begin || replay->is_named[stretch->job])
            continue;
        replay->is_named[stretch->job] = true;
        waiting_add_name(stretch->job < replay->job ? &replay->wait->ahead
                                                    : &replay->wait->overtaking,
                         stretch->job, waiting_gpus_of(replay, stretch));
    }
}

/* Adds up how long each cause lasted; behind_ns: [job], zero. */
static void waiting_measure(struct waiting_replay *replay, int64_t *behind_ns)
{
    struct lull_cluster_wait *const wait = replay->wait;
    int64_t now_ns = waiting_job_of(replay, replay->job)->arrival_ns;

    while (now_ns < wait->end_ns) {
        uint32_t behind = UINT32_MAX;
        enum lull_cluster_cause cause;
        int64_t until_ns = wait->end_ns;

        play_until(replay, now_ns, SIZE_MAX);
        if (replay->next < replay->event_count && replay->events[replay->next].time_ns < until_ns)
            until_ns = replay->events[replay->next].time_ns;
        if (replay->next_change < replay->stretches->change_count &&
            replay->stretches->changes[replay->next_change].time_ns < until_ns)
            until_ns = replay->stretches->changes[replay->next_change].time_ns;
        cause = cause_now(replay, now_ns, &behind);
        wait->lasted_ns[cause] += until_ns - now_ns;
        if (cause == LULL_CLUSTER_BEHIND) {
            behind_ns[behind] += until_ns - now_ns;
            if (behind_ns[behind] > wait->behind_ns) {
                wait->behind = behind;
                wait->behind_ns = behind_ns[behind];
            }
        }
        now_ns = until_ns;
    }
}

/* Looks at what was free when it was started, whether it was placed as placement.h does, and which
 * jobs left its place at that instant. */
static void waiting_check_start(struct waiting_replay *replay)
{
    const struct lull_cluster_stretch *own = &replay->stretches->all[replay->own];
    const struct lull_cluster_job *job = waiting_job_of(replay, replay->job);
    const struct lull_cluster_point *point = &job->points[own->point];
    size_t count;

    play_until(replay, own->begin_ns, replay->own);
    waiting_count_free(replay, own->shares[0].gpus, &replay->wait->at_end);
    count = lull_cluster_place_consolidated(replay->state, job->pool, point->type, point->gpus,
                                            replay->scratch);
    replay->wait->is_consolidated = count == own->share_count;
    for (size_t i = 0; i < count && replay->wait->is_consolidated; i++)
        replay->wait->is_consolidated = replay->scratch[i].node == own->shares[i].node &&
                                        replay->scratch[i].gpus == own->shares[i].gpus;
    for (size_t i = 0; i < replay->event_count; i++) {
        const struct lull_cluster_stretch *other =
            &replay->stretches->all[replay->events[i].stretch];
        bool is_near = false;

        /* A job that changes its clock at that instant ends a stretch, but keeps its GPUs. */
        if (replay->events[i].is_begin || replay->events[i].time_ns != own->begin_ns ||
            replay->is_running[other->job])
            continue;
        for (uint32_t k = 0; k < other->share_count; k++)
            for (uint32_t n = 0; n < own->share_count; n++)
                is_near |= other->shares[k].node == own->shares[n].node;
        if (is_near)
            waiting_add_name(&replay->wait->freed, other->job, waiting_gpus_of(replay, other));
    }
}

/* The first stretch that begins then or later. */
static size_t first_from(const struct lull_cluster_stretches *stretches, int64_t time_ns)
{
    size_t first = 0;

    while (first < stretches->count && stretches->all[first].begin_ns < time_ns)
        first++;
    return first;
}

static int waiting_explain(struct waiting_replay *replay,
                           const struct lull_cluster_outcome *outcome)
{
    const struct lull_cluster_job *job = waiting_job_of(replay, replay->job);
    struct lull_cluster_wait *const wait = replay->wait;
    int64_t *behind_ns = calloc(replay->jobs->count, sizeof(*behind_ns));
    uint32_t of_first = job->points[0].gpus;

    if (behind_ns == NULL || waiting_collect(replay) < 0) {
        free(behind_ns);
        return -ENOMEM;
    }
    wait->end_ns = job->arrival_ns;
    if (replay->own != SIZE_MAX) {
        wait->point = replay->stretches->all[replay->own].point;
        wait->end_ns = outcome->start_ns;
        of_first = replay->stretches->all[replay->own].shares[0].gpus;
    } else if (replay->event_count > 0 &&
               replay->events[replay->event_count - 1].time_ns > job->arrival_ns) {
        wait->end_ns = replay->events[replay->event_count - 1].time_ns;
    }
    play_until(replay, job->arrival_ns, first_from(replay->stretches, job->arrival_ns));
    waiting_count_free(replay, of_first, &wait->on_arrival);
    count_running(replay);
    waiting_count_others(replay, replay->next);
    waiting_measure(replay, behind_ns);
    if (replay->own != SIZE_MAX)
        waiting_check_start(replay);
    free(behind_ns);
    return 0;
}

int lull_cluster_wait_explain(const struct lull_cluster *cluster,
                              const struct lull_cluster_jobs *jobs,
                              const struct lull_cluster_run *run, uint32_t job,
                              struct lull_cluster_wait *wait_out)
{
    struct lull_cluster_wait wait = {.behind = UINT32_MAX};
    struct waiting_replay replay = {
        .cluster = cluster,
        .jobs = jobs,
        .stretches = lull_cluster_run_stretches(run),
        .job = job,
        .own = SIZE_MAX,
        .is_running = calloc(jobs->count, sizeof(*replay.is_running)),
        .is_named = calloc(jobs->count, sizeof(*replay.is_named)),
        .scratch = calloc(cluster->node_count, sizeof(*replay.scratch)),
        .wait = &wait,
    };
    int result = -ENOMEM;

    if (replay.is_running != NULL && replay.is_named != NULL && replay.scratch != NULL &&
        lull_cluster_state_create(cluster, &replay.state) == 0)
        result = waiting_explain(&replay, &lull_cluster_run_outcomes(run)[job]);
    if (result == 0)
        *wait_out = wait;
    lull_cluster_state_destroy(replay.state);
    free(replay.events);
    free(replay.is_running);
    free(replay.is_named);
    free(replay.scratch);
    return result;
}
