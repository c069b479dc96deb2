/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cli/simulate/totals.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "cluster/core/bound/dual_search.h"

static double cluster_totals_seconds(int64_t from_ns, int64_t to_ns)
{
    return (double)(to_ns - from_ns) * 1e-9;
}

/* Returns whether a job missed its deadline: also one that was rejected or never started. */
static bool cluster_totals_is_late(const struct lull_cluster_job *job,
                                   const struct lull_cluster_outcome *outcome)
{
    return job->deadline_ns != LULL_CLUSTER_NEVER &&
           (outcome->fate != LULL_CLUSTER_DONE || outcome->end_ns > job->deadline_ns);
}

static void cluster_totals_add_job(const struct lull_cluster_job *job,
                                   const struct lull_cluster_outcome *outcome,
                                   struct lull_cluster_totals *totals)
{
    totals->jobs++;
    totals->rejected += outcome->fate == LULL_CLUSTER_REJECTED;
    totals->misses += cluster_totals_is_late(job, outcome);
    totals->preemptions += outcome->preemptions;
    totals->offered_j += job->value_j;
    if (outcome->fate != LULL_CLUSTER_DONE)
        return;
    totals->done++;
    totals->completion_s += cluster_totals_seconds(job->arrival_ns, outcome->end_ns);
    if (outcome->end_ns <= job->deadline_ns)
        totals->value_j += job->value_j;
}

static void add_pool(struct lull_cluster_totals *all, const struct lull_cluster_totals *pool)
{
    all->gpus += pool->gpus;
    all->jobs += pool->jobs;
    all->rejected += pool->rejected;
    all->done += pool->done;
    all->misses += pool->misses;
    all->preemptions += pool->preemptions;
    all->wait_s += pool->wait_s;
    all->completion_s += pool->completion_s;
    all->busy_gpu_s += pool->busy_gpu_s;
    all->value_j += pool->value_j;
    all->offered_j += pool->offered_j;
}

/* Adds up how long jobs that are done did not run between their arrival and their end: before they
 * first started, and after they were preempted or lost a node. ran_ns is of zeros, one per job. */
static void add_waits(const struct lull_scenario_model *model, const struct lull_cluster_run *run,
                      int64_t *ran_ns, struct lull_cluster_totals *totals)
{
    const struct lull_cluster_outcome *outcomes = lull_cluster_run_outcomes(run);
    const struct lull_cluster_stretches *stretches = lull_cluster_run_stretches(run);
    const struct lull_cluster_job *jobs = model->jobs.all;

    for (size_t i = 0; i < stretches->count; i++)
        ran_ns[stretches->all[i].job] += stretches->all[i].end_ns - stretches->all[i].begin_ns;
    for (size_t i = 0; i < model->jobs.count; i++)
        if (outcomes[i].fate == LULL_CLUSTER_DONE)
            totals[jobs[i].pool].wait_s +=
                cluster_totals_seconds(jobs[i].arrival_ns + ran_ns[i], outcomes[i].end_ns);
}

/* Counts pool by pool, and behind them all pools. ran_ns as for add_waits. */
static void cluster_totals_count(const struct lull_scenario_model *model,
                                 const struct lull_cluster_run *run, int64_t *ran_ns,
                                 struct lull_cluster_totals *totals)
{
    const struct lull_cluster_outcome *outcomes = lull_cluster_run_outcomes(run);
    const struct lull_cluster_stretches *stretches = lull_cluster_run_stretches(run);
    const struct lull_cluster *cluster = &model->cluster;
    const struct lull_cluster_job *jobs = model->jobs.all;

    for (uint32_t i = 0; i <= cluster->pool_count; i++)
        totals[i] = (struct lull_cluster_totals){0};
    for (uint32_t i = 0; i < cluster->node_count; i++)
        totals[cluster->nodes[i].pool].gpus += cluster->nodes[i].gpus;
    for (size_t i = 0; i < model->jobs.count; i++)
        cluster_totals_add_job(&jobs[i], &outcomes[i], &totals[jobs[i].pool]);
    for (size_t i = 0; i < stretches->count; i++) {
        const struct lull_cluster_stretch *stretch = &stretches->all[i];
        const struct lull_cluster_job *job = &jobs[stretch->job];

        totals[job->pool].busy_gpu_s += job->points[stretch->point].gpus *
                                        cluster_totals_seconds(stretch->begin_ns, stretch->end_ns);
    }
    add_waits(model, run, ran_ns, totals);
    for (uint32_t i = 0; i < cluster->pool_count; i++)
        add_pool(&totals[cluster->pool_count], &totals[i]);
}

double lull_cluster_totals_mean_wait_s(const struct lull_cluster_totals *totals)
{
    return totals->done > 0 ? totals->wait_s / (double)totals->done : 0.0;
}

double lull_cluster_totals_utilisation(const struct lull_cluster_totals *totals, double time_s)
{
    const double gpu_s = (double)totals->gpus * time_s;

    return gpu_s > 0.0 ? totals->busy_gpu_s / gpu_s : 0.0;
}

int lull_cluster_totals_summarise(const struct lull_scenario_model *model,
                                  const struct lull_scenario_run *run,
                                  struct lull_cluster_totals *totals_out,
                                  struct lull_cluster_summary *summary_out)
{
    const struct lull_cluster_outcome *outcomes = lull_cluster_run_outcomes(run->run);
    const struct lull_cluster_totals *all = &totals_out[model->cluster.pool_count];
    double *completion_s = malloc((model->jobs.count + 1) * sizeof(*completion_s));
    int64_t *ran_ns = calloc(model->jobs.count + 1, sizeof(*ran_ns));
    size_t done = 0;
    int rc = -ENOMEM;

    if (completion_s == NULL || ran_ns == NULL)
        goto end;
    cluster_totals_count(model, run->run, ran_ns, totals_out);
    *summary_out = (struct lull_cluster_summary){
        .jobs = all->jobs,
        .rejected = all->rejected,
        .deadline_misses = all->misses,
        .bound_j = NAN,
        .certificate_ratio = NAN,
    };
    for (size_t i = 0; i < model->jobs.count; i++) {
        if (outcomes[i].fate != LULL_CLUSTER_DONE)
            continue;
        completion_s[done++] =
            cluster_totals_seconds(model->jobs.all[i].arrival_ns, outcomes[i].end_ns);
        summary_out->makespan_s =
            fmax(summary_out->makespan_s, cluster_totals_seconds(0, outcomes[i].end_ns));
    }
    lull_cluster_run_energy(run->run, &summary_out->run_j, &summary_out->idle_j);
    summary_out->turn_on_j = lull_cluster_run_turn_on_j(run->run);
    if (run->is_certified) {
        summary_out->bound_j = run->certificate.bound_j;
        summary_out->is_of_gains = run->certificate.cost_j < 0.0;
        summary_out->certificate_ratio =
            lull_dual_ratio(run->certificate.bound_j, run->certificate.cost_j);
    }
    rc = lull_cluster_summarise_times(completion_s, done, summary_out);

end:
    free(completion_s);
    free(ran_ns);
    return rc;
}
