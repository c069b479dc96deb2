/*
 * Policies that keep each pool's jobs in an order, and start them in that order: the first that
 * does not fit holds up its pool. Private to policies. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_CLUSTER_POLICY_ORDERED_H
#define LULL_CORE_CLUSTER_POLICY_ORDERED_H

#include "core/cluster/policy.h"

/* The lower key goes first; of equals the lower number. */
typedef int64_t (*lull_cluster_key)(const struct lull_cluster_job *job);

/* key, reason: static. -ENOMEM. */
int lull_cluster_ordered_create(const struct lull_cluster *cluster,
                                const struct lull_cluster_jobs *jobs, lull_cluster_key key,
                                const char *reason, struct lull_cluster_policy **policy_out);

/* What all of them are made of but for create, name and summary. */
void lull_cluster_ordered_destroy(struct lull_cluster_policy *policy);
int lull_cluster_ordered_arrive(struct lull_cluster_policy *policy, uint32_t job, int64_t now_ns);
void lull_cluster_ordered_end(struct lull_cluster_policy *policy, uint32_t job, int64_t now_ns);
bool lull_cluster_ordered_decide(struct lull_cluster_policy *policy,
                                 const struct lull_cluster_state *state, int64_t now_ns,
                                 struct lull_cluster_decision *decision);
void lull_cluster_ordered_node(struct lull_cluster_policy *policy,
                               const struct lull_cluster_state *state, uint32_t node,
                               int64_t now_ns);

#endif
