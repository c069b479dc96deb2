/*
 * Policies that keep each pool's jobs in an order, and start them in that order: the first that
 * does not fit holds up its pool. Private to policies. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_POLICY_ORDERED_H
#define LULL_CLUSTER_CORE_POLICY_ORDERED_H

#include "cluster/core/policy/policy.h"

/* The rule of such a policy. */
struct lull_cluster_ordering {
    /* The job with the lowest key goes first; of equal keys that with the lower number. */
    int64_t (*key)(const struct lull_cluster_job *job);
    const char *reason; /* of a start; static */
};

extern const struct lull_cluster_policy_calls lull_ordered_calls;

#endif
