/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "cli/cluster/gantt_drawing.h"

const struct lull_gantt_node_look lull_gantt_node_looks[LULL_CLUSTER_DOWN + 1] = {
    [LULL_CLUSTER_TURNING_ON] = {"turning on", "key", 0xd8b365},
    [LULL_CLUSTER_OFF] = {"off", "off", 0xaab1bd},
    [LULL_CLUSTER_DOWN] = {"down", "key", 0x7b3b52},
};

int lull_gantt_each_node_state(const struct lull_gantt *gantt,
                               void (*see)(void *user, uint32_t node, enum lull_cluster_power power,
                                           double begin_s, double end_s),
                               void *user)
{
    const struct lull_cluster_stretches *stretches = gantt->stretches;
    const uint32_t nodes = gantt->gangs->cluster.node_count;
    const struct lull_cluster_node_change **last =
        calloc(nodes, sizeof(struct lull_cluster_node_change *));

    if (last == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < stretches->change_count; i++) {
        const struct lull_cluster_node_change *change = &stretches->changes[i];
        const struct lull_cluster_node_change *before = last[change->node];

        if (before != NULL && before->power != LULL_CLUSTER_ON)
            see(user, change->node, before->power, lull_gantt_s(before->time_ns),
                lull_gantt_s(change->time_ns));
        last[change->node] = change;
    }
    for (uint32_t node = 0; node < nodes; node++)
        if (last[node] != NULL && last[node]->power != LULL_CLUSTER_ON)
            see(user, node, last[node]->power, lull_gantt_s(last[node]->time_ns), gantt->span_s);
    free(last);
    return 0;
}
