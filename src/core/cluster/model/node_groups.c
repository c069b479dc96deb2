/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/model/node_groups.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static size_t group_of(const struct lull_cluster *cluster, uint32_t node)
{
    return (size_t)cluster->nodes[node].pool * cluster->type_count + cluster->nodes[node].type;
}

int lull_node_groups_init(struct lull_node_groups *groups, const struct lull_cluster *cluster)
{
    const size_t count = (size_t)cluster->pool_count * cluster->type_count;

    *groups = (struct lull_node_groups){0};
    groups->nodes = calloc(cluster->node_count, sizeof(*groups->nodes));
    groups->first = calloc(count + 2, sizeof(*groups->first));
    groups->gpus = calloc(count, sizeof(*groups->gpus));
    if (groups->nodes == NULL || groups->first == NULL || groups->gpus == NULL)
        return -ENOMEM;
    /* Counted two places on, each group's place moves to its end while it is filled. */
    for (uint32_t i = 0; i < cluster->node_count; i++) {
        groups->first[group_of(cluster, i) + 2]++;
        groups->gpus[group_of(cluster, i)] += cluster->nodes[i].gpus;
    }
    for (size_t group = 2; group < count + 2; group++)
        groups->first[group] += groups->first[group - 1];
    for (uint32_t i = 0; i < cluster->node_count; i++)
        groups->nodes[groups->first[group_of(cluster, i) + 1]++] = i;
    assert(groups->first[count] == cluster->node_count);
    return 0;
}

void lull_node_groups_fini(struct lull_node_groups *groups)
{
    free(groups->nodes);
    free(groups->first);
    free(groups->gpus);
}
