/*
 * A power cap around any policy: of the whole cluster, of each node, or both. What counts is the
 * sum of peaks, as a job's GPUs rise and fall together: a job in an operating point draws its mean
 * power, energy over time, times a peak factor on each GPU (never less than an idle one); GPUs
 * without a job draw idle power; nodes turning on the more of idle and turn-on power; a failed node
 * counts as idle, since the cap cannot delay its return; nodes that are off their off power.
 *
 * A start that would exceed a cap is tried in the policy's operating point on other nodes, then in
 * the other operating points, those that draw most first; else the job goes back to the policy to
 * wait. While the first such job waits for the cluster's cap, later ones may pass only where they
 * will not delay it: they end before the watts that it needs are free, or leave enough of them
 * (EASY backfill in watts). While others wait, a job starts at the clock that costs least at the
 * prices of watts and GPUs that those who wait make (power_price.h), if its deadline allows: more
 * gets done under the cap. A job that no operating point could ever keep under the cap is rejected.
 * Turning a node on waits likewise.
 *
 * A policy that preempts may go back and forth around a cap, as its replacement is refused or gets
 * another operating point: mark all jobs as not preemptible for it.
 *
 * The cap can be exceeded in two cases. A node that turns on in no time (turn_on_ns 0) draws its
 * turn_on_j at once. On real GPUs, a clock that is lowered at the start of a job takes effect late
 * (about 25 ms on a V100); until then they draw up to the power of the highest clock.
 *
 * Pure; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_POWER_POWER_CAP_H
#define LULL_CLUSTER_CORE_POWER_POWER_CAP_H

#include <stdbool.h>

#include "base/error.h"
#include "cluster/core/policy/policy.h"

struct lull_power_cap {
    double cluster_w;    /* 0: none */
    double node_w;       /* of each node; 0: none */
    double peak_ratio;   /* peak over mean power of a job, >= 1 */
    bool turns_nodes_on; /* nodes are turned off and on, for which the cap must have room */
};

/* The 99th percentile of the power of a GPT-3 training on 512 H100 over its mean: 457.3 kW over
 * 438.3 kW (MLPerf Training v4.0, power log of Sustainable Metal Cloud). */
#define LULL_POWER_CAP_PEAK_RATIO 1.05

/*
 * Puts the cap around the decider, which it takes: destroying the new one destroys both. All nodes
 * are on and idle. Borrows cluster and jobs, all of which are there already. On an error the
 * decider is unchanged: -EINVAL a cap below what all nodes draw idle, one of them turning on, or a
 * peak factor below 1; -ENOMEM.
 */
int lull_power_cap_wrap(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                        const struct lull_power_cap *cap, struct lull_cluster_decider *decider,
                        struct lull_error *err);

#endif
