/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/model/node_groups.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static size_t group_of(const struct lull_cluster *cluster, uint32_t node)
{
    return (size_t)cluster->nodes[node].pool * cluster->type_count + cluster->nodes[node].type;
}

int lull_node_groups_init(struct lull_node_groups *members, const struct lull_cluster *cluster)
{
    const size_t groups = (size_t)cluster->pool_count * cluster->type_count;

    *members = (struct lull_node_groups){0};
    members->nodes = calloc(cluster->node_count, sizeof(*members->nodes));
    members->first = calloc(groups + 2, sizeof(*members->first));
    members->gpus = calloc(groups, sizeof(*members->gpus));
    if (members->nodes == NULL || members->first == NULL || members->gpus == NULL)
        return -ENOMEM;
    /* Counted two places on, each group's place moves to its end while it is filled. */
    for (uint32_t i = 0; i < cluster->node_count; i++) {
        members->first[group_of(cluster, i) + 2]++;
        members->gpus[group_of(cluster, i)] += cluster->nodes[i].gpus;
    }
    for (size_t group = 2; group < groups + 2; group++)
        members->first[group] += members->first[group - 1];
    for (uint32_t i = 0; i < cluster->node_count; i++)
        members->nodes[members->first[group_of(cluster, i) + 1]++] = i;
    assert(members->first[groups] == cluster->node_count);
    return 0;
}

void lull_node_groups_fini(struct lull_node_groups *members)
{
    free(members->nodes);
    free(members->first);
    free(members->gpus);
}
