/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/gangs.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "cli/cluster/cluster.h"
#include "core/cluster/dual_search.h"

static const struct lull_cluster_outcome *outcome_of(const struct lull_gangs *gangs, size_t job)
{
    return &lull_cluster_run_outcomes(gangs->run)[job];
}

/* ---- summary ------------------------------------------------------------------------------ */

/* What only some of the jobs have come to. */
struct more {
    uint64_t waited; /* never started */
    double queue_s;  /* on average, of those that are done */
};

static bool is_late(const struct lull_cluster_job *job, const struct lull_cluster_outcome *outcome)
{
    return job->deadline_ns != LULL_CLUSTER_NEVER &&
           (outcome->fate != LULL_CLUSTER_DONE || outcome->end_ns > job->deadline_ns);
}

static int summarise(const struct lull_gangs *gangs, struct lull_cluster_summary *summary,
                     struct more *more)
{
    double *completion_s = malloc((gangs->jobs.count + 1) * sizeof(*completion_s));
    size_t done = 0;
    int result;

    *summary = (struct lull_cluster_summary){.jobs = gangs->jobs.count};
    *more = (struct more){0};
    if (completion_s == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < gangs->jobs.count; i++) {
        const struct lull_cluster_job *job = &gangs->jobs.all[i];
        const struct lull_cluster_outcome *outcome = outcome_of(gangs, i);

        summary->rejected += outcome->fate == LULL_CLUSTER_REJECTED;
        summary->deadline_misses += is_late(job, outcome);
        more->waited += outcome->fate == LULL_CLUSTER_WAITED;
        if (outcome->fate != LULL_CLUSTER_DONE)
            continue;
        completion_s[done++] = (double)(outcome->end_ns - job->arrival_ns) * 1e-9;
        more->queue_s += (double)(outcome->start_ns - job->arrival_ns) * 1e-9;
        summary->makespan_s = fmax(summary->makespan_s, (double)outcome->end_ns * 1e-9);
    }
    more->queue_s /= fmax((double)done, 1.0);
    lull_cluster_run_energy(gangs->run, &summary->run_j, &summary->idle_j);
    summary->turn_on_j = lull_cluster_run_turn_on_j(gangs->run);
    summary->bound_j = gangs->wish->is_bounded ? gangs->bound_j : (double)NAN;
    summary->certificate_ratio =
        summary->bound_j > 0.0
            ? (summary->run_j + summary->idle_j + summary->turn_on_j) / summary->bound_j
            : (double)NAN;
    if (lull_gangs_is_certified(gangs) && !gangs->wish->is_bounded)
        summary->certificate_ratio =
            lull_dual_ratio(gangs->certificate.bound_j, gangs->certificate.cost_j);
    result = lull_cluster_summarise_times(completion_s, done, summary);
    free(completion_s);
    return result;
}

static json_t *more_json(const struct lull_gangs *gangs, const struct more *more)
{
    json_t *const modes = gangs->wish->modes.type_count > 0
                              ? lull_gangs_modes_json(&gangs->modes, gangs->jobs.count)
                              : NULL;
    json_t *root = json_pack(
        "{s:s, s:I, s:f, s:I, s:I, s:I, s:f, s:f, s:o*}", "policy", gangs->policy->name,
        "never_started", (json_int_t)more->waited, "average_queue_s", more->queue_s, "without_gpus",
        (json_int_t)gangs->table.without_gpus, "without_duration",
        (json_int_t)gangs->table.without_duration, "nodes", (json_int_t)gangs->cluster.node_count,
        "run_w", gangs->wish->run_w, "idle_w", gangs->types[0].idle_w, "job_modes", modes);

    if (root != NULL &&
        (lull_conditions_json(&gangs->wish->conditions, gangs->run, gangs->jobs.count, root) < 0 ||
         (lull_gangs_is_certified(gangs) &&
          (json_object_set_new(root, "cost_j", json_real(gangs->certificate.cost_j)) < 0 ||
           json_object_set_new(root, "cost_bound_j", json_real(gangs->certificate.bound_j)) <
               0)))) {
        json_decref(root);
        return NULL;
    }
    return root;
}

int lull_gangs_print(const struct lull_gangs *gangs, struct lull_error *err)
{
    struct lull_cluster_summary summary;
    struct more more;
    int result = summarise(gangs, &summary, &more);

    if (result == 0 && gangs->wish->is_json)
        result = lull_cluster_summary_print_json(&summary, more_json(gangs, &more));
    if (result < 0)
        return lull_error_set(err, result, "no memory for the summary");
    if (gangs->wish->is_json)
        return 0;
    lull_cluster_summary_print(&summary, stdout);
    lull_conditions_print(&gangs->wish->conditions, gangs->run, gangs->jobs.count, stdout);
    printf("queue               %.1f s on average; %llu never started\n", more.queue_s,
           (unsigned long long)more.waited);
    if (lull_gangs_is_certified(gangs))
        printf(
            "cost                %.6g MJ with the time of jobs; no schedule costs less than %.6g "
            "MJ\n",
            gangs->certificate.cost_j * 1e-6, gangs->certificate.bound_j * 1e-6);
    printf("left out            %zu without GPUs, %zu of unknown duration\n",
           gangs->table.without_gpus, gangs->table.without_duration);
    if (gangs->wish->modes.type_count > 0)
        lull_gangs_modes_print(&gangs->modes, gangs->jobs.count);
    return 0;
}

/* ---- jobs --------------------------------------------------------------------------------- */

/* Nodes count from 0 in each pool. */
static void write_placement(const struct lull_cluster_outcome *outcome, uint32_t first, FILE *file)
{
    for (uint32_t i = 0; i < outcome->share_count; i++)
        fprintf(file, "%s%u:%u", i > 0 ? " " : "", outcome->shares[i].node - first,
                outcome->shares[i].gpus);
}

static uint32_t first_node(const struct lull_gangs *gangs, uint32_t pool)
{
    uint32_t node = 0;

    while (node < gangs->cluster.node_count && gangs->cluster.nodes[node].pool != pool)
        node++;
    return node;
}

static void write_job(const struct lull_gangs *gangs, size_t job, uint32_t first, FILE *file)
{
    static const char *const fates[] = {"waited", "done", "rejected"};
    const struct lull_cluster_jobs_row *row = &gangs->table.rows[job];
    const struct lull_cluster_outcome *outcome = outcome_of(gangs, job);

    fprintf(file, "%s,%s,%u,%s,%.6f,", lull_cluster_jobs_name(&gangs->table, row->id),
            lull_cluster_jobs_name(&gangs->table, row->vc), row->gpus, fates[outcome->fate],
            (double)row->submit_ns * 1e-9);
    if (outcome->fate == LULL_CLUSTER_DONE)
        fprintf(file, "%.6f,%.6f,", (double)outcome->start_ns * 1e-9,
                (double)outcome->end_ns * 1e-9);
    else
        fputs(",,", file);
    write_placement(outcome, first, file);
    fprintf(file, ",%s\n", outcome->reason != NULL ? outcome->reason : "");
}

static int write_rows(const void *context, FILE *file)
{
    const struct lull_gangs *gangs = context;
    uint32_t *first = calloc(gangs->cluster.pool_count, sizeof(*first));

    if (first == NULL)
        return -ENOMEM;
    for (uint32_t pool = 0; pool < gangs->cluster.pool_count; pool++)
        first[pool] = first_node(gangs, pool);
    fputs("job_id,vc,gpus,fate,submit_s,start_s,end_s,placement,reason\n", file);
    for (size_t i = 0; i < gangs->jobs.count; i++)
        write_job(gangs, i, first[gangs->jobs.all[i].pool], file);
    free(first);
    return 0;
}

int lull_gangs_write_jobs(const struct lull_gangs *gangs, struct lull_error *err)
{
    return lull_cluster_write_jobs(gangs->wish->jobs_out, write_rows, gangs, err);
}
