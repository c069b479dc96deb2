/*
 * PD-RATS for jobs that may be preempted and have to run. What is made small is
 *
 *   energy + second_j (weighted completion times).
 *
 * Least GPU time for its weight goes first (Smith's rule, of what is left). A job's operating
 * point, clock and number of GPUs alike, is the one of least
 *
 *   energy + (second_j weight + price GPUs) time,
 *   price = second_j (weight that waits) / (GPUs in all):
 *
 * the posted price of a second of a GPU is what those who wait lose by it, each of them a C-th of a
 * second if C GPUs serve the queue together. The clock of a job follows the price while it runs,
 * its number of GPUs where that is worth beginning again. Operating points that would miss a
 * deadline which the fastest one meets are the last choice. A second of a job that waits is worth a
 * fixed price more once its deadline is near: slow clocks make jobs late and it counts several
 * times, where only time counts it goes in its turn. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "cluster/core/policy/ranked_state.h"
#include "cluster/core/policy/single.h"

/* Above all that a job can cost. */
static const double LATE_J = 1e24;

/* Value of a second of a job near its deadline, in addition to second_j. It counts at most four
 * times: if such jobs went before all others, each job that is saved from being late would cost the
 * others a hundred hours (docs/research/measurements/cluster.md). */
static const double URGENT_SECOND_J = 10000.0;
static const double MAX_URGENCY = 4.0;

static double rats_ranked_value(const struct lull_cluster_job *job, uint32_t gpus, int64_t full_ns,
                                int64_t need_ns)
{
    double min_ns = INFINITY;

    (void)gpus;
    for (uint32_t point = 0; point < job->point_count; point++)
        min_ns = fmin(min_ns, (double)job->points[point].time_ns * job->points[point].gpus);
    return (double)need_ns / (double)full_ns * min_ns / job->weight;
}

/* Weight that waits for a GPU. */
static double waiting_by_gpu(const struct lull_queue_stats *queue, double own_weight)
{
    return fmax(queue->weight_waiting - own_weight, 0.0) / fmax((double)queue->gpus, 1.0);
}

static double rats_ranked_level(const struct lull_ranked *policy,
                                const struct lull_queue_stats *queue)
{
    (void)policy;
    return 1.0 + waiting_by_gpu(queue, 0.0);
}

static bool rats_ranked_is_late(const struct lull_ranked *policy, uint32_t job, uint32_t point,
                                int64_t now_ns)
{
    const struct lull_job_ledger *ledger = &policy->ledger;
    const struct lull_cluster_job *asked = &ledger->jobs->all[job];

    return asked->deadline_ns != LULL_CLUSTER_NEVER &&
           now_ns + lull_job_ledger_left_ns(ledger, job, point, now_ns) > asked->deadline_ns;
}

static double rats_ranked_cost(const struct lull_ranked *policy, uint32_t job, uint32_t point,
                               const struct lull_queue_stats *queue, int64_t now_ns)
{
    const struct lull_job_ledger *ledger = &policy->ledger;
    const struct lull_cluster_job *asked = &ledger->jobs->all[job];
    const struct lull_cluster_point *it = &asked->points[point];
    const bool waits = ledger->records[job].stage == LULL_CLUSTER_QUEUED;
    const double behind = waiting_by_gpu(queue, waits ? asked->weight : 0.0);
    const double second_j = policy->setting * (asked->weight + behind * it->gpus);
    const double sum_j = it->energy_j + second_j * (double)it->time_ns * 1e-9;

    if (rats_ranked_is_late(policy, job, point, now_ns) &&
        !rats_ranked_is_late(policy, job, 0, now_ns))
        return sum_j + LATE_J;
    return sum_j;
}

static double rats_ranked_urgency(const struct lull_ranked *policy)
{
    return fmin(1.0 + URGENT_SECOND_J / fmax(policy->setting, 1.0), MAX_URGENCY);
}

const struct lull_cluster_ranking lull_pd_rats_ranking = {
    .reason =
        "had the least GPU time left for its weight, and this mode cost least at the price of GPUs",
    .rank = rats_ranked_value,
    .is_elastic = true,
    .is_resized = true,
    .urgency = rats_ranked_urgency,
    .cost = rats_ranked_cost,
    .level = rats_ranked_level,
};
