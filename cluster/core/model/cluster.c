/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/model/cluster.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "cluster/core/model/job.h"

static bool cluster_is_type(const struct lull_cluster_type *type)
{
    return type->idle_w >= 0.0 && isfinite(type->idle_w) && type->turn_on_j >= 0.0 &&
           isfinite(type->turn_on_j) && type->off_w >= 0.0 && isfinite(type->off_w) &&
           type->turn_on_ns >= 0 && type->turn_on_ns <= LULL_CLUSTER_MAX_TURN_ON_NS;
}

int lull_cluster_check(const struct lull_cluster *cluster, struct lull_error *err)
{
    if (cluster->node_count == 0 || cluster->node_count > LULL_CLUSTER_MAX_NODES)
        return lull_error_set(err, -EINVAL, "a cluster has 1 to %d nodes, not %u",
                              LULL_CLUSTER_MAX_NODES, cluster->node_count);
    for (uint32_t i = 0; i < cluster->type_count; i++)
        if (!cluster_is_type(&cluster->types[i]))
            return lull_error_set(err, -EINVAL,
                                  "GPU type %s: powers, energy and time are finite and not below 0",
                                  cluster->types[i].name);
    for (uint32_t i = 0; i < cluster->node_count; i++) {
        const struct lull_cluster_node *node = &cluster->nodes[i];

        if (node->pool >= cluster->pool_count || node->type >= cluster->type_count)
            return lull_error_set(err, -EINVAL, "node %u has no such pool or type", i);
        if (node->gpus == 0 || node->gpus > LULL_CLUSTER_MAX_NODE_GPUS)
            return lull_error_set(err, -EINVAL, "node %u: 1 to %d GPUs, not %u", i,
                                  LULL_CLUSTER_MAX_NODE_GPUS, node->gpus);
    }
    return 0;
}

/* ---- jobs (job.h) ---------------------------------------------------------------------------- */

double lull_cluster_gain_j(const struct lull_cluster_job *job, uint32_t point, int64_t start_ns,
                           double second_j)
{
    const struct lull_cluster_point *asked = &job->points[point];
    const int64_t end_ns = start_ns + asked->time_ns;

    if (job->value_j > 0.0 && end_ns > job->deadline_ns)
        return -INFINITY;
    return job->value_j - asked->energy_j -
           second_j * job->weight * (double)(end_ns - job->arrival_ns) * 1e-9;
}

int64_t lull_cluster_longest_ns(const struct lull_cluster_jobs *jobs)
{
    int64_t longest_ns = 0;

    for (size_t i = 0; i < jobs->count; i++)
        for (uint32_t point = 0; point < jobs->all[i].point_count; point++)
            if (jobs->all[i].points[point].time_ns > longest_ns)
                longest_ns = jobs->all[i].points[point].time_ns;
    return longest_ns;
}

bool lull_cluster_has_memory(const struct lull_cluster_job *job,
                             const struct lull_cluster_type *type)
{
    return type->memory_mib == 0 || job->memory_mib <= type->memory_mib;
}

bool lull_cluster_point_is_possible(const struct lull_cluster_job *job, uint32_t point,
                                    const struct lull_cluster *cluster, const uint64_t *gpus_of)
{
    const struct lull_cluster_point *asked = &job->points[point];

    return asked->gpus <= gpus_of[lull_cluster_group(cluster, job->pool, asked->type)] &&
           lull_cluster_has_memory(job, &cluster->types[asked->type]);
}

uint32_t lull_cluster_first_point(const struct lull_cluster_job *job, uint32_t type,
                                  const struct lull_cluster *cluster, const uint64_t *gpus_of)
{
    uint32_t point = 0;

    while (point < job->point_count &&
           (job->points[point].type != type ||
            !lull_cluster_point_is_possible(job, point, cluster, gpus_of)))
        point++;
    return point;
}

int lull_cluster_by_number(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left;
    const uint32_t b = *(const uint32_t *)right;

    return (a > b) - (a < b);
}

/* ---- groups ---------------------------------------------------------------------------------- */

static size_t cluster_group_of(const struct lull_cluster *cluster, uint32_t node)
{
    return lull_cluster_group(cluster, cluster->nodes[node].pool, cluster->nodes[node].type);
}

int lull_node_groups_init(struct lull_node_groups *groups, const struct lull_cluster *cluster)
{
    const size_t count = lull_cluster_group_count(cluster);

    *groups = (struct lull_node_groups){0};
    groups->nodes = calloc(cluster->node_count, sizeof(*groups->nodes));
    groups->first = calloc(count + 2, sizeof(*groups->first));
    groups->gpus = calloc(count, sizeof(*groups->gpus));
    groups->most = calloc(count, sizeof(*groups->most));
    if (groups->nodes == NULL || groups->first == NULL || groups->gpus == NULL ||
        groups->most == NULL)
        return -ENOMEM;
    /* Counted two places on, each group's place moves to its end while it is filled. */
    for (uint32_t i = 0; i < cluster->node_count; i++) {
        const size_t group = cluster_group_of(cluster, i);
        const uint32_t gpus = cluster->nodes[i].gpus;

        groups->first[group + 2]++;
        groups->gpus[group] += gpus;
        groups->most[group] = gpus > groups->most[group] ? gpus : groups->most[group];
    }
    for (size_t group = 2; group < count + 2; group++)
        groups->first[group] += groups->first[group - 1];
    for (uint32_t i = 0; i < cluster->node_count; i++)
        groups->nodes[groups->first[cluster_group_of(cluster, i) + 1]++] = i;
    assert(groups->first[count] == cluster->node_count);
    return 0;
}

void lull_node_groups_fini(struct lull_node_groups *groups)
{
    free(groups->nodes);
    free(groups->first);
    free(groups->gpus);
    free(groups->most);
}
