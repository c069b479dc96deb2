/*
 * Entries in the table of policies (policy.c) of those policies that have their own file.
 * Private to policies. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_POLICY_SINGLE_H
#define LULL_CLUSTER_CORE_POLICY_SINGLE_H

#include "cluster/core/policy/ranked.h"

/* First come, first served; others may run ahead if they do not delay the first (backfill.c). */
extern const struct lull_cluster_policy_calls lull_backfill_calls;

/* Highest density first, with clocks set by the waiting weight (hdf.c). */
extern const struct lull_cluster_ranking lull_hdf_ranking;

/* Least service first, at an energy budget (powerflow.c). */
extern const struct lull_cluster_ranking lull_powerflow_ranking;

/* Online primal-dual with posted prices (docs/research/pd-rats.md, pd_rats.c). */
extern const struct lull_cluster_policy_calls lull_pd_rats_calls;

/* Its two halves: reservations that stay once they have started, for any jobs
 * (pd_rats_reserved.c); and a ranking for jobs that may all be preempted and have to run
 * (pd_rats_ranked.c). Their parameter is that of the whole. */
extern const struct lull_cluster_policy_calls lull_pd_rats_reserved_calls;
extern const struct lull_cluster_ranking lull_pd_rats_ranking;

#endif
