/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/tally.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static double seconds(int64_t from_ns, int64_t to_ns)
{
    return (double)(to_ns - from_ns) * 1e-9;
}

static bool is_late(const struct lull_cluster_job *job, const struct lull_cluster_outcome *outcome)
{
    return job->deadline_ns != LULL_CLUSTER_NEVER &&
           (outcome->fate != LULL_CLUSTER_DONE || outcome->end_ns > job->deadline_ns);
}

static void add_job(const struct lull_cluster_job *job, const struct lull_cluster_outcome *outcome,
                    struct lull_cluster_tally *tally)
{
    tally->jobs++;
    tally->rejected += outcome->fate == LULL_CLUSTER_REJECTED;
    tally->misses += is_late(job, outcome);
    tally->preemptions += outcome->preemptions;
    tally->offered_j += job->value_j;
    if (outcome->fate != LULL_CLUSTER_DONE)
        return;
    tally->done++;
    tally->wait_s += seconds(job->arrival_ns, outcome->start_ns);
    tally->completion_s += seconds(job->arrival_ns, outcome->end_ns);
    if (outcome->end_ns <= job->deadline_ns)
        tally->value_j += job->value_j;
}

static void add_tally(struct lull_cluster_tally *all, const struct lull_cluster_tally *part)
{
    all->gpus += part->gpus;
    all->jobs += part->jobs;
    all->rejected += part->rejected;
    all->done += part->done;
    all->misses += part->misses;
    all->preemptions += part->preemptions;
    all->wait_s += part->wait_s;
    all->completion_s += part->completion_s;
    all->busy_gpu_s += part->busy_gpu_s;
    all->value_j += part->value_j;
    all->offered_j += part->offered_j;
}

void lull_cluster_tally(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                        const struct lull_cluster_run *run, struct lull_cluster_tally *tallies_out)
{
    const struct lull_cluster_outcome *outcomes = lull_cluster_run_outcomes(run);
    const struct lull_cluster_stretches *stretches = lull_cluster_run_stretches(run);

    for (uint32_t i = 0; i <= cluster->pool_count; i++)
        tallies_out[i] = (struct lull_cluster_tally){0};
    for (uint32_t i = 0; i < cluster->node_count; i++)
        tallies_out[cluster->nodes[i].pool].gpus += cluster->nodes[i].gpus;
    for (size_t i = 0; i < jobs->count; i++)
        add_job(&jobs->all[i], &outcomes[i], &tallies_out[jobs->all[i].pool]);
    for (size_t i = 0; i < stretches->count; i++) {
        const struct lull_cluster_stretch *stretch = &stretches->all[i];
        const struct lull_cluster_job *job = &jobs->all[stretch->job];

        tallies_out[job->pool].busy_gpu_s +=
            job->modes[stretch->mode].gpus * seconds(stretch->begin_ns, stretch->end_ns);
    }
    for (uint32_t i = 0; i < cluster->pool_count; i++)
        add_tally(&tallies_out[cluster->pool_count], &tallies_out[i]);
}

double lull_cluster_tally_utilisation(const struct lull_cluster_tally *tally, double time_s)
{
    const double gpu_s = (double)tally->gpus * time_s;

    return gpu_s > 0.0 ? tally->busy_gpu_s / gpu_s : 0.0;
}

int lull_cluster_summarise(const struct lull_cluster_jobs *jobs, const struct lull_cluster_run *run,
                           const struct lull_cluster_tally *all,
                           struct lull_cluster_summary *summary_out)
{
    const struct lull_cluster_outcome *outcomes = lull_cluster_run_outcomes(run);
    double *completion_s = malloc((jobs->count + 1) * sizeof(*completion_s));
    size_t done = 0;
    int result;

    *summary_out = (struct lull_cluster_summary){
        .jobs = all->jobs,
        .rejected = all->rejected,
        .deadline_misses = all->misses,
        .bound_j = NAN,
        .certificate_ratio = NAN,
    };
    if (completion_s == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < jobs->count; i++) {
        if (outcomes[i].fate != LULL_CLUSTER_DONE)
            continue;
        completion_s[done++] = seconds(jobs->all[i].arrival_ns, outcomes[i].end_ns);
        summary_out->makespan_s = fmax(summary_out->makespan_s, seconds(0, outcomes[i].end_ns));
    }
    lull_cluster_run_energy(run, &summary_out->run_j, &summary_out->idle_j);
    summary_out->turn_on_j = lull_cluster_run_turn_on_j(run);
    result = lull_cluster_summarise_times(completion_s, done, summary_out);
    free(completion_s);
    return result;
}
