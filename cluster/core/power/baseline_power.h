/*
 * The power that the GPUs of a cluster draw whatever runs on them, and how long they do so at
 * least: the part of all energy that no schedule can save, in bounds of energy and under a power
 * cap.
 *
 * Each GPU draws baseline_w at every instant, with a job or without, as long as its node works:
 * what a job draws counts above that. So all energy of any schedule is at least
 *
 *   sum over jobs of (energy - baseline_w * GPUs * time)  +  baseline_w * GPUs there are * (the
 * last end)
 *
 * since idle GPUs draw baseline_w or more, and jobs draw no less than baseline_w in any of their
 * operating points. What turning nodes on takes counts nothing: they could have stayed on.
 *
 * Pure. Threads: any for const objects. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_POWER_BASELINE_POWER_H
#define LULL_CLUSTER_CORE_POWER_BASELINE_POWER_H

#include <stdbool.h>

#include "cluster/core/model/failures.h"
#include "cluster/core/model/job.h"

/*
 * baseline_w_out [type], W of a GPU, >= 0: the least of its idle power, of its share of a node that
 * is off (if nodes may be turned off), and of what any operating point of the jobs draws of it.
 * O(nodes + operating points).
 */
void lull_baseline_power_of_types(const struct lull_cluster *cluster,
                                  const struct lull_cluster_jobs *jobs, bool turns_nodes_off,
                                  double *baseline_w_out);

/* Of all GPUs, W. */
double lull_baseline_power_total_w(const struct lull_cluster *cluster, const double *baseline_w);

/*
 * A lower bound on the time at which all jobs are done. No job ends earlier after its
 * arrival than with its fastest operating point. The jobs of a pool that arrive from
 * some time on need all of its GPUs at least for the sum of their least GPU times. Jobs in the
 * order of their arrival, each with an operating point that its pool can hold. O(jobs * operating
 * points + pools). -ENOMEM.
 */
int lull_baseline_power_min_end(const struct lull_cluster *cluster,
                                const struct lull_cluster_jobs *jobs, int64_t *end_ns_out);

/* The idle energy of all GPUs until end_ns, J, except on nodes that have failed. Failures as
 * in lull_cluster_failures_order(). O(nodes + failures). */
double lull_baseline_power_energy_j(const struct lull_cluster *cluster, const double *baseline_w,
                                    const struct lull_cluster_failure *failures,
                                    size_t failure_count, int64_t end_ns);

#endif
