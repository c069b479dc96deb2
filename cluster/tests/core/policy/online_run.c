/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "online_case.h"

/* The running jobs. Their GPUs are counted here again, independently of the policy. */
struct running {
    const struct online_case *it;
    struct lull_cluster_state *state;
    struct lull_cluster_share *scratch;
    struct lull_cluster_share **shares; /* [job]; NULL: does not run */
    size_t *share_count;
    int64_t *end_ns;
    bool *is_gone; /* [job] began, or was rejected */
    int *taken;    /* [node] */
    struct online_result result;
};

static double gain_j(const struct lull_cluster_job *job, uint32_t point)
{
    return job->value_j - job->points[point].energy_j;
}

static void begin(struct running *running, const struct lull_cluster_decision *decision,
                  int64_t now_ns)
{
    const struct lull_cluster_job *job = &running->it->jobs.all[decision->job];
    const size_t size = decision->share_count * sizeof(*decision->shares);
    uint64_t gpus = 0;

    for (size_t i = 0; i < decision->share_count; i++) {
        const struct lull_cluster_share *share = &decision->shares[i];
        const struct lull_cluster_node *node = &running->it->cluster.nodes[share->node];

        running->taken[share->node] += (int)share->gpus;
        gpus += share->gpus;
        if (running->taken[share->node] > (int)node->gpus ||
            node->type != job->points[decision->point].type)
            running->result.is_sound = false;
    }
    running->end_ns[decision->job] = now_ns + job->points[decision->point].time_ns;
    if (gpus != job->points[decision->point].gpus || running->is_gone[decision->job] ||
        now_ns < job->arrival_ns || running->end_ns[decision->job] > job->deadline_ns)
        running->result.is_sound = false;
    running->is_gone[decision->job] = true;
    running->shares[decision->job] = malloc(size);
    memcpy(running->shares[decision->job], decision->shares, size);
    running->share_count[decision->job] = decision->share_count;
    lull_cluster_state_take(running->state, decision->shares, decision->share_count);
    running->result.served++;
    running->result.welfare_j += gain_j(job, decision->point);
}

static void end_jobs(struct running *running, const struct lull_cluster_policy_ops *ops,
                     struct lull_cluster_policy *policy, int64_t now_ns)
{
    for (uint32_t i = 0; i < running->it->jobs.count; i++) {
        if (running->shares[i] == NULL || running->end_ns[i] > now_ns)
            continue;
        lull_cluster_state_give(running->state, running->shares[i], running->share_count[i]);
        for (size_t j = 0; j < running->share_count[i]; j++)
            running->taken[running->shares[i][j].node] -= (int)running->shares[i][j].gpus;
        free(running->shares[i]);
        running->shares[i] = NULL;
        ops->calls->end(policy, i, now_ns);
    }
}

static void make(struct running *running, const struct online_case *it)
{
    const size_t count = it->jobs.count + 1;

    *running = (struct running){.it = it, .result.is_sound = true};
    running->scratch = calloc(it->cluster.node_count, sizeof(*running->scratch));
    running->shares = calloc(count, sizeof(*running->shares));
    running->share_count = calloc(count, sizeof(*running->share_count));
    running->end_ns = calloc(count, sizeof(*running->end_ns));
    running->is_gone = calloc(count, sizeof(*running->is_gone));
    running->taken = calloc(it->cluster.node_count, sizeof(*running->taken));
    if (lull_cluster_state_create(&it->cluster, &running->state) < 0)
        abort();
}

static void unmake(struct running *running)
{
    for (size_t i = 0; i < running->it->jobs.count; i++)
        free(running->shares[i]);
    lull_cluster_state_destroy(running->state);
    free(running->scratch);
    free(running->shares);
    free(running->share_count);
    free(running->end_ns);
    free(running->is_gone);
    free(running->taken);
}

struct online_result online_case_run(const struct online_case *it,
                                     const struct lull_cluster_policy_ops *ops,
                                     uint32_t *starts_out, uint32_t *points_out)
{
    struct lull_cluster_policy *policy;
    struct running running;
    uint32_t next = 0;

    make(&running, it);
    /* A setting of 0 is welfare: time counts nothing but by deadlines. */
    if (ops->calls->create(&it->cluster, &it->jobs, ops->rule, 0.0, &policy) < 0)
        abort();
    for (size_t i = 0; starts_out != NULL && i < it->jobs.count; i++)
        starts_out[i] = UINT32_MAX;
    for (uint32_t slot = 0; slot < it->slots; slot++) {
        const int64_t now_ns = slot * ONLINE_SLOT_NS;
        struct lull_cluster_decision decision = {.shares = running.scratch};

        end_jobs(&running, ops, policy, now_ns);
        for (; next < it->jobs.count && it->jobs.all[next].arrival_ns <= now_ns; next++)
            if (ops->calls->arrive(policy, next, now_ns) < 0)
                abort();
        while (ops->calls->decide(policy, running.state, now_ns, &decision)) {
            if (decision.act == LULL_CLUSTER_REJECT) {
                running.is_gone[decision.job] = true;
                continue;
            }
            begin(&running, &decision, now_ns);
            if (starts_out != NULL) {
                starts_out[decision.job] = slot;
                points_out[decision.job] = decision.point;
            }
        }
    }
    ops->calls->destroy(policy);
    unmake(&running);
    return running.result;
}

/* ---- plain greedy ------------------------------------------------------------------------- */

static bool fits(const struct online_case *it, const uint32_t *load, uint32_t gpus,
                 const struct lull_cluster_point *point, uint32_t start)
{
    for (uint32_t i = 0; i < point->time_ns / ONLINE_SLOT_NS; i++)
        if (load[point->type * it->slots + start + i] + point->gpus > gpus)
            return false;
    return true;
}

struct online_result online_case_greedy(const struct online_case *it)
{
    const uint32_t gpus = it->cluster.node_count / it->cluster.type_count;
    uint32_t *load = calloc((size_t)it->slots * it->cluster.type_count, sizeof(*load));
    struct online_result result = {.is_sound = true};

    for (size_t j = 0; j < it->jobs.count; j++) {
        const struct lull_cluster_job *job = &it->jobs.all[j];
        const struct lull_cluster_point *best = NULL;
        uint32_t best_start = 0;
        double best_j = 0.0;

        for (uint32_t m = 0; m < job->point_count; m++) {
            const int64_t last = (job->deadline_ns - job->points[m].time_ns) / ONLINE_SLOT_NS;
            int64_t start = job->arrival_ns / ONLINE_SLOT_NS;

            while (start <= last && !fits(it, load, gpus, &job->points[m], (uint32_t)start))
                start++;
            if (start > last || gain_j(job, m) <= best_j)
                continue;
            best = &job->points[m];
            best_start = (uint32_t)start;
            best_j = gain_j(job, m);
        }
        if (best == NULL)
            continue;
        for (uint32_t i = 0; i < best->time_ns / ONLINE_SLOT_NS; i++)
            load[best->type * it->slots + best_start + i] += best->gpus;
        result.welfare_j += best_j;
        result.served++;
    }
    free(load);
    return result;
}
