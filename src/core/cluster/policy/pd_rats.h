/*
 * The two halves of PD-RATS. Whoever creates one turns it before the first job comes; their names
 * and their knob are those of the whole (pd_rats.c). Private to policies.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_CLUSTER_POLICY_PD_RATS_H
#define LULL_CORE_CLUSTER_POLICY_PD_RATS_H

#include "core/cluster/policy.h"

/* Reservations that stay once they have begun: for any job. */
extern const struct lull_cluster_policy_ops lull_pd_rats_reserved;

/* Jobs that may be preempted and have to run (no value), ranked (ranked.h). */
extern const struct lull_cluster_policy_ops lull_pd_rats_ranked;

#endif
