/*
 * Turns nodes on and off, by a rule around any policy. A node without a job is turned off once its
 * idle GPUs have drawn as much, beyond what it draws when it is off, as turning it on takes: ski
 * rental, which costs at most twice the offline optimum (Karlin et al., "Competitive snoopy
 * caching", Algorithmica 3, 1988). It stays on while waiting jobs may want it. Nodes are turned on
 * for jobs that the policy leaves waiting: for each as many as its GPUs would fill, of every type
 * that could run it, less those that are idle or turning on already.
 *
 * So whatever the policy can start with all nodes on, it can start with these. Pure; one thread at
 * a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_POWER_NODE_POWER_H
#define LULL_CLUSTER_CORE_POWER_NODE_POWER_H

#include "cluster/core/policy/policy.h"

/*
 * Puts the rule around the decider, which it takes: destroying the new one destroys both. All nodes
 * are on and idle at 0 ns. Borrows cluster and jobs, all of which are there already. On -ENOMEM the
 * decider is unchanged.
 */
int lull_node_power_wrap(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                         struct lull_cluster_decider *decider);

#endif
