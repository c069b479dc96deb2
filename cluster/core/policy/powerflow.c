/*
 * PowerFlow's objective (Xiao et al., arXiv 2304.06381): the best average completion time at an
 * energy budget. Jobs of least service run; GPUs and clock of a job are where a further joule would
 * buy less completion time than elsewhere: the operating point of least
 *
 *   energy + lambda (1 + q g / C) time
 *
 * for q jobs that wait for the C GPUs of the type, since a job holds up those behind it. lambda, in
 * J per second of completion time, follows what is left of the budget: the budget is a share of the
 * energy that all jobs so far would take in their first operating point, and a job that would
 * overdraw it gets its operating point of least energy. Gangs take numbers of GPUs that are powers
 * of two where they have such operating points, so that nodes stay whole (buddy allocation). Energy
 * of beginning again after a preemption and of lost work is not in the budget.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "cluster/core/policy/ranked_state.h"
#include "cluster/core/policy/single.h"

struct powerflow {
    double lambda_w; /* J per second of completion time; 0: not known yet */
    double spare_j;  /* of the budget, not charged */
    double count;    /* of jobs that were charged, in parts of a whole one */
    double sum_w;    /* its power and energy in first operating points */
    double sum_j;
};

/* When the spare energy is that of this many jobs, lambda is e times its typical value: enough jobs
   that a single one does not swing it, few enough that the budget is used. */
static const double PATIENCE = 100.0;

static double powerflow_rank(const struct lull_cluster_job *job, uint32_t gpus, int64_t full_ns,
                             int64_t need_ns)
{
    (void)job;
    (void)need_ns;
    return (double)full_ns * gpus;
}

/* Returns the price of a second of an operating point with this many GPUs, J: its own, and that of
 * the jobs that wait behind it. */
static double powerflow_price(const struct powerflow *powerflow,
                              const struct lull_queue_stats *queue, uint32_t gpus)
{
    return powerflow->lambda_w *
           (1.0 + (double)queue->waiting * gpus / fmax((double)queue->gpus, 1.0));
}

static double powerflow_level(const struct lull_ranked *policy,
                              const struct lull_queue_stats *queue)
{
    return powerflow_price(policy->more, queue, 1);
}

/* Returns whether a number of GPUs is no power of two although the job has an operating point with
 * one. */
static bool has_no_buddy(const struct lull_cluster_job *job, uint32_t gpus)
{
    if ((gpus & (gpus - 1)) == 0)
        return false;
    for (uint32_t point = 0; point < job->point_count; point++)
        if ((job->points[point].gpus & (job->points[point].gpus - 1)) == 0)
            return true;
    return false;
}

static double powerflow_cost(const struct lull_ranked *policy, uint32_t job, uint32_t point,
                             const struct lull_queue_stats *queue, int64_t now_ns)
{
    const struct powerflow *powerflow = policy->more;
    const struct lull_job_ledger *ledger = &policy->ledger;
    const struct lull_cluster_job *asked = &ledger->jobs->all[job];
    const struct lull_cluster_point *it = &asked->points[point];
    const struct lull_job_record *record = &ledger->records[job];
    double own_j = policy->setting * record->left_ratio * asked->points[0].energy_j;
    double sum_j =
        it->energy_j + powerflow_price(powerflow, queue, it->gpus) * (double)it->time_ns * 1e-9;

    (void)now_ns;
    /* The energy charged for a running job can be spent again. */
    if (record->stage == LULL_CLUSTER_RUNS)
        own_j = record->left_ratio * asked->points[record->point].energy_j;
    if (it->energy_j * record->left_ratio > own_j + fmax(powerflow->spare_j, 0.0))
        sum_j = 1e18 + it->energy_j;
    if (has_no_buddy(asked, it->gpus))
        sum_j += 1e21;
    return sum_j;
}

/* Charges a part of a job to the budget or refunds it, and adapts
 * lambda: the mean power of all jobs in their first operating
 * points, times exp(remaining budget / budget of PATIENCE jobs). */
static void powerflow_charge(struct lull_ranked *policy, uint32_t job, uint32_t point,
                             double left_ratio, bool is_on)
{
    struct powerflow *const powerflow = policy->more;
    const struct lull_cluster_point *points = policy->ledger.jobs->all[job].points;
    const struct lull_cluster_point *first = &points[0];
    const double power_w = first->energy_j / ((double)first->time_ns * 1e-9);
    const double saved_j =
        left_ratio * (policy->setting * first->energy_j - points[point].energy_j);

    powerflow->spare_j += is_on ? saved_j : -saved_j;
    if (!is_on)
        return;
    powerflow->count += left_ratio;
    powerflow->sum_w += left_ratio * power_w;
    powerflow->sum_j += left_ratio * first->energy_j;
    powerflow->lambda_w = powerflow->sum_w / fmax(powerflow->count, 1e-9) *
                          exp(fmin(fmax(powerflow->spare_j * powerflow->count /
                                            (PATIENCE * fmax(powerflow->sum_j, 1e-9)),
                                        -10.0),
                                   10.0));
}

static int powerflow_create(const struct lull_cluster *cluster,
                            const struct lull_cluster_jobs *jobs, void **more_out)
{
    struct powerflow *powerflow = calloc(1, sizeof(*powerflow));

    (void)cluster;
    (void)jobs;
    if (powerflow == NULL)
        return -ENOMEM;
    *more_out = powerflow;
    return 0;
}

const struct lull_cluster_ranking lull_powerflow_ranking = {
    .reason = "had the least service, and this mode the most time for its energy",
    .create = powerflow_create,
    .rank = powerflow_rank,
    .is_fixed = true,
    .is_elastic = true,
    .cost = powerflow_cost,
    .level = powerflow_level,
    .charge = powerflow_charge,
};
