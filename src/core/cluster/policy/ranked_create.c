/* How a ranked policy begins and ends. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "core/cluster/policy/ranked_state.h"

int64_t lull_cluster_restart_ns(uint32_t gpus)
{
    if (gpus == 1)
        return INT64_C(7000000000);
    return gpus <= 8 ? INT64_C(30000000000) : INT64_C(60000000000);
}

void *lull_ranked_more(const struct lull_ranked *policy)
{
    return policy->more;
}

const struct lull_job_ledger *lull_ranked_ledger(const struct lull_ranked *policy)
{
    return &policy->ledger;
}

const uint64_t *lull_ranked_gpus(const struct lull_ranked *policy)
{
    return policy->trial.groups.gpus;
}

static int make_groups(struct lull_ranked *policy)
{
    const struct lull_cluster *cluster = policy->cluster;
    const size_t count = (size_t)cluster->pool_count * cluster->type_count;
    uint64_t most = 1;

    policy->groups = calloc(count, sizeof(*policy->groups));
    policy->queues = calloc(count, sizeof(*policy->queues));
    if (policy->groups == NULL || policy->queues == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        const uint64_t gpus =
            lull_cluster_state_gpus_of(policy->trial.state, (uint32_t)(i / cluster->type_count),
                                       (uint32_t)(i % cluster->type_count));

        policy->queues[i].gpus = gpus;
        most = gpus > most ? gpus : most;
    }
    policy->popped_room = (uint32_t)most;
    policy->popped = calloc(most, sizeof(*policy->popped));
    policy->plan.stops = calloc(most, sizeof(*policy->plan.stops));
    policy->plan.shares = calloc(cluster->node_count, sizeof(*policy->plan.shares));
    policy->is_dirty = calloc(cluster->pool_count, sizeof(*policy->is_dirty));
    policy->dirty = calloc(cluster->pool_count, sizeof(*policy->dirty));
    if (policy->popped == NULL || policy->plan.stops == NULL || policy->plan.shares == NULL ||
        policy->is_dirty == NULL || policy->dirty == NULL)
        return -ENOMEM;
    return 0;
}

static void free_group(struct lull_ranked_group *group)
{
    for (uint32_t i = 0; i < group->shape_count; i++) {
        lull_heap_fini(&group->shapes[i].waiting);
        lull_heap_fini(&group->shapes[i].running);
    }
    free(group->shapes);
    free(group->running.jobs);
}

void lull_ranked_destroy(struct lull_ranked *policy)
{
    const size_t count = (size_t)policy->cluster->pool_count * policy->cluster->type_count;

    for (size_t i = 0; policy->groups != NULL && i < count; i++)
        free_group(&policy->groups[i]);
    lull_trial_state_fini(&policy->trial);
    lull_job_ledger_fini(&policy->ledger);
    lull_heap_fini(&policy->urgent);
    free(policy->groups);
    free(policy->queues);
    free(policy->types);
    free(policy->plan.stops);
    free(policy->plan.shares);
    free(policy->popped);
    free(policy->is_dirty);
    free(policy->dirty);
    if (policy->more != NULL && policy->ranking->destroy != NULL)
        policy->ranking->destroy(policy->more);
    free(policy->more);
    free(policy);
}

int lull_ranked_create(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                       const struct lull_cluster_ranking *ranking, struct lull_ranked **policy_out)
{
    struct lull_ranked *policy = calloc(1, sizeof(*policy));

    if (policy == NULL)
        return -ENOMEM;
    policy->cluster = cluster;
    policy->ranking = ranking;
    policy->ledger.jobs = jobs;
    if (lull_trial_state_init(&policy->trial, cluster) < 0 || make_groups(policy) < 0 ||
        (ranking->create != NULL && ranking->create(cluster, jobs, &policy->more) < 0)) {
        lull_ranked_destroy(policy);
        return -ENOMEM;
    }
    *policy_out = policy;
    return 0;
}
