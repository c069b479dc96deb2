/* SPDX-License-Identifier: Apache-2.0 */
#include "policy_spy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- random cases --------------------------------------------------------------------------- */

static uint32_t below(struct lull_random *random, uint32_t bound)
{
    return (uint32_t)lull_random_below(random, bound);
}

/* Modes by time, the fastest first, as real ones come: t = t_m + c/f, P = B + A f^3. */
static uint32_t make_points(struct spy_case *it, const struct spy_options *options, uint32_t job,
                            struct lull_random *random)
{
    const int64_t fastest_s = 1 + (int64_t)lull_random_below(random, (uint64_t)options->max_s);
    const uint32_t gpus = 1 + below(random, options->max_gpus);
    uint32_t count = 0;

    for (uint32_t type = 0; type < options->types; type++)
        for (uint32_t wide = options->elastic; wide >= 1; wide /= 2)
            for (uint32_t clock = 0; clock < options->clocks && count < SPY_POINTS; clock++) {
                const double ratio = 1.0 - 0.12 * clock;
                const double time_s =
                    (double)fastest_s * (type + 1) * (0.3 + 0.7 / ratio) / pow(wide, 0.8);

                it->points[job][count++] = (struct lull_cluster_point){
                    .type = type,
                    .gpus = gpus * wide,
                    .time_ns = (int64_t)ceil(time_s) * SPY_S,
                    .energy_j = ceil(time_s) * gpus * wide *
                                (100.0 + 300.0 / (1 + type) * ratio * ratio * ratio),
                };
            }
    return count;
}

void spy_make(struct spy_case *it, const struct spy_options *options, uint64_t seed)
{
    struct lull_random random;
    int64_t now_ns = 0;

    lull_random_init(&random, seed);
    *it = (struct spy_case){.seed = seed};
    for (uint32_t i = 0; i < 2; i++)
        it->types[i] = (struct lull_cluster_type){.name = "GPU", .memory_mib = 40000, .idle_w = 50};
    for (uint32_t i = 0; i < options->nodes; i++)
        it->nodes[i] = (struct lull_cluster_node){.pool = i % options->pools,
                                                  .type = i / options->pools % options->types,
                                                  .gpus = options->node_gpus};
    it->cluster =
        (struct lull_cluster){it->types, options->types, it->nodes, options->nodes, options->pools};
    for (uint32_t i = 0; i < options->jobs; i++) {
        struct lull_cluster_job *const job = &it->all[i];

        now_ns +=
            (int64_t)lull_random_below(&random, 2 * (uint64_t)options->span_s / options->jobs + 1) *
            SPY_S;
        job->arrival_ns = now_ns;
        job->point_count = make_points(it, options, i, &random);
        job->points = it->points[i];
        job->deadline_ns = options->has_deadlines && below(&random, 4) > 0
                               ? now_ns + job->points[0].time_ns * (2 + below(&random, 40)) / 2
                               : LULL_CLUSTER_NEVER;
        job->weight = options->has_weights ? 1.0 + below(&random, 9) : 1.0;
        job->pool = below(&random, options->pools);
        job->memory_mib = below(&random, 50) == 0 ? 50000 : 10000;
        job->is_preemptible = options->is_preemptible && below(&random, 5) > 0;
    }
    it->jobs = (struct lull_cluster_jobs){it->all, options->jobs};
}

/* ---- writing down --------------------------------------------------------------------------- */

static struct {
    const struct spy_case *it;
    const struct lull_cluster_policy_ops *ops;
    spy_pause pause;
    struct spy_log *log;
    bool is_waiting[SPY_JOBS];
} spied;

static struct spy_event *note(int64_t now_ns, enum spy_kind kind, uint32_t job)
{
    struct spy_event *const event = &spied.log->events[spied.log->count++];

    holds(spied.log->count < SPY_EVENTS, spied.it->seed);
    *event = (struct spy_event){.at_ns = now_ns, .kind = kind, .job = job};
    return event;
}

static int create(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                  const void *rule, double setting, struct lull_cluster_policy **policy_out)
{
    (void)rule;
    (void)setting;
    return lull_cluster_policy_create(spied.ops, cluster, jobs, policy_out);
}

static void destroy(struct lull_cluster_policy *policy)
{
    spied.ops->calls->destroy(policy);
}

static int arrive(struct lull_cluster_policy *policy, uint32_t job, int64_t now_ns)
{
    spied.is_waiting[job] = true;
    return spied.ops->calls->arrive(policy, job, now_ns);
}

static void end(struct lull_cluster_policy *policy, uint32_t job, int64_t now_ns)
{
    note(now_ns, SPY_END, job);
    spied.ops->calls->end(policy, job, now_ns);
}

static bool decide(struct lull_cluster_policy *policy, const struct lull_cluster_state *state,
                   int64_t now_ns, struct lull_cluster_decision *decision)
{
    static const enum spy_kind kinds[] = {[LULL_CLUSTER_START] = SPY_START,
                                          [LULL_CLUSTER_PREEMPT] = SPY_STOP,
                                          [LULL_CLUSTER_RECLOCK] = SPY_RECLOCK};
    struct spy_event *event;

    if (!spied.ops->calls->decide(policy, state, now_ns, decision)) {
        if (spied.pause != NULL)
            spied.pause(spied.it, spied.log, state, now_ns, spied.is_waiting);
        return false;
    }
    holds(decision->act != LULL_CLUSTER_REJECT, spied.it->seed);
    event = note(now_ns, kinds[decision->act], decision->job);
    event->point = decision->point;
    event->restart_ns = decision->restart_ns;
    if (decision->act == LULL_CLUSTER_START) {
        spied.is_waiting[decision->job] = false;
        event->share_count = (uint32_t)decision->share_count;
        holds(event->share_count <= SPY_SHARES, spied.it->seed);
        memcpy(event->shares, decision->shares, event->share_count * sizeof(event->shares[0]));
    }
    return true;
}

static int64_t wake_ns(const struct lull_cluster_policy *policy, int64_t now_ns)
{
    return spied.ops->calls->wake_ns != NULL ? spied.ops->calls->wake_ns(policy, now_ns)
                                             : LULL_CLUSTER_NEVER;
}

struct lull_cluster_run *spy_run(const struct spy_case *it,
                                 const struct lull_cluster_policy_ops *ops, spy_pause pause,
                                 struct spy_log *log)
{
    static const struct lull_cluster_policy_calls calls = {
        .create = create,
        .destroy = destroy,
        .arrive = arrive,
        .end = end,
        .decide = decide,
        .wake_ns = wake_ns,
    };
    static const struct lull_cluster_policy_ops spy = {.name = "spy", .calls = &calls};
    struct lull_cluster_run *run = NULL;
    struct lull_error err = {0};

    memset(&spied, 0, sizeof(spied));
    spied.it = it;
    spied.ops = ops;
    spied.pause = pause;
    spied.log = log;
    log->count = 0;
    if (lull_cluster_simulate(&it->cluster, &it->jobs, &spy, NULL, &run, &err) != 0)
        fail_msg("seed %" PRIu64 ", %s: %s", it->seed, ops->name, err.text);
    return run;
}

/* ---- checking ------------------------------------------------------------------------------- */

struct account {
    const struct spy_event *start; /* NULL: it does not run */
    uint32_t point;
    int64_t since_ns;
    double done;
    int64_t restart_ns;
};

static void settle(const struct spy_case *it, struct account *account, uint32_t job, int64_t now_ns)
{
    int64_t ran_ns = now_ns - account->since_ns;
    const int64_t again_ns = ran_ns < account->restart_ns ? ran_ns : account->restart_ns;

    ran_ns -= again_ns;
    account->restart_ns -= again_ns;
    account->done += (double)ran_ns / (double)it->points[job][account->point].time_ns;
    account->since_ns = now_ns;
}

static void give(uint32_t *used, const struct spy_event *start, int sign)
{
    for (uint32_t i = 0; i < start->share_count; i++)
        used[start->shares[i].node] += (uint32_t)sign * start->shares[i].gpus;
}

static void check_start(const struct spy_case *it, const struct spy_event *event, uint32_t *used)
{
    const struct lull_cluster_job *job = &it->all[event->job];
    const struct lull_cluster_point *point = &job->points[event->point];
    uint32_t gpus = 0;

    holds(event->at_ns >= job->arrival_ns && event->point < job->point_count, it->seed);
    holds(job->memory_mib <= it->types[point->type].memory_mib, it->seed);
    give(used, event, 1);
    for (uint32_t i = 0; i < event->share_count; i++) {
        const struct lull_cluster_node *node = &it->nodes[event->shares[i].node];

        holds(node->pool == job->pool && node->type == point->type, it->seed);
        holds(used[event->shares[i].node] <= node->gpus, it->seed);
        gpus += event->shares[i].gpus;
    }
    holds(gpus == point->gpus, it->seed);
}

static void replay(const struct spy_case *it, const struct spy_event *event,
                   struct account *account, uint32_t *used)
{
    const struct lull_cluster_point *points = it->points[event->job];

    holds((account->start != NULL) == (event->kind != SPY_START), it->seed);
    if (event->kind != SPY_START)
        settle(it, account, event->job, event->at_ns);
    switch (event->kind) {
    case SPY_START:
        check_start(it, event, used);
        account->start = event;
        account->point = event->point;
        account->since_ns = event->at_ns;
        return;
    case SPY_RECLOCK:
        holds(points[event->point].gpus == points[account->point].gpus &&
                  points[event->point].type == points[account->point].type &&
                  event->point != account->point,
              it->seed);
        account->point = event->point;
        return;
    case SPY_STOP:
        holds(it->all[event->job].is_preemptible, it->seed);
        if (event->restart_ns > account->restart_ns)
            account->restart_ns = event->restart_ns;
        break;
    case SPY_END:
        holds(account->done > 1.0 - 1e-9 && account->restart_ns == 0, it->seed);
        break;
    }
    give(used, account->start, -1);
    account->start = NULL;
}

static bool could_run(const struct spy_case *it, uint32_t job)
{
    for (uint32_t point = 0; point < it->all[job].point_count; point++) {
        const struct lull_cluster_point *asked = &it->points[job][point];
        uint32_t gpus = 0;

        for (uint32_t i = 0; i < it->cluster.node_count; i++)
            if (it->nodes[i].pool == it->all[job].pool && it->nodes[i].type == asked->type)
                gpus += it->nodes[i].gpus;
        if (gpus >= asked->gpus && it->all[job].memory_mib <= it->types[asked->type].memory_mib)
            return true;
    }
    return false;
}

void spy_check(const struct spy_case *it, const struct lull_cluster_run *run,
               const struct spy_log *log)
{
    struct account accounts[SPY_JOBS] = {0};
    uint32_t used[SPY_NODES] = {0};

    for (size_t i = 0; i < log->count; i++)
        replay(it, &log->events[i], &accounts[log->events[i].job], used);
    for (uint32_t job = 0; job < it->jobs.count; job++) {
        const struct lull_cluster_outcome *outcome = &lull_cluster_run_outcomes(run)[job];

        holds(accounts[job].start == NULL, it->seed);
        if (outcome->fate != (could_run(it, job) ? LULL_CLUSTER_DONE : LULL_CLUSTER_REJECTED))
            fail_msg("seed %" PRIu64 ", %s: job %u has fate %d", it->seed, spied.ops->name, job,
                     outcome->fate);
    }
}
