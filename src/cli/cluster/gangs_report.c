/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/gangs.h"

#include <errno.h>
#include <stdlib.h>

#include "base/amount.h"
#include "cli/cluster/cluster.h"
#include "cli/cluster/explain.h"
#include "cli/cluster/tally.h"
#include "core/cluster/dual_search.h"

static const struct lull_cluster_outcome *outcome_of(const struct lull_gangs *gangs, size_t job)
{
    return &lull_cluster_run_outcomes(gangs->run)[job];
}

/* ---- summary ------------------------------------------------------------------------------ */

struct lull_printable lull_gangs_pool_name(const struct lull_gangs *gangs, uint32_t pool)
{
    if (gangs->pools.rows != NULL && pool < gangs->pools.count)
        return lull_printable(gangs->pools.rows[pool].name);
    return lull_printable(gangs->pools.rows == NULL && pool == 0 ? "all" : "others");
}

/* Of so many, each; 0 for none. */
static double mean(double sum, uint64_t count)
{
    return count > 0 ? sum / (double)count : 0.0;
}

/* A pool without GPUs is only for jobs that belong nowhere. */
static bool is_shown(const struct lull_cluster_tally *tally)
{
    return tally->gpus > 0 || tally->jobs > 0;
}

static json_t *pool_json(const struct lull_gangs *gangs, uint32_t pool,
                         const struct lull_cluster_tally *tally, double makespan_s)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:I}", "pool",
                     lull_gangs_pool_name(gangs, pool).text, "gpus", (json_int_t)tally->gpus,
                     "jobs", (json_int_t)tally->jobs, "rejected", (json_int_t)tally->rejected,
                     "average_queue_s", mean(tally->wait_s, tally->done), "average_completion_s",
                     mean(tally->completion_s, tally->done), "utilisation_ratio",
                     lull_cluster_tally_utilisation(tally, makespan_s), "deadline_misses",
                     (json_int_t)tally->misses);
}

static json_t *pools_json(const struct lull_gangs *gangs, const struct lull_cluster_tally *tallies,
                          double makespan_s)
{
    json_t *const pools = json_array();

    for (uint32_t pool = 0; pool < gangs->cluster.pool_count; pool++)
        if (is_shown(&tallies[pool]))
            json_array_append_new(pools, pool_json(gangs, pool, &tallies[pool], makespan_s));
    return pools;
}

static int add_certificate(const struct lull_gangs *gangs, json_t *root)
{
    const struct lull_cluster_certificate *certificate = &gangs->certificate;

    if (!lull_gangs_is_certified(gangs->policy))
        return 0;
    if (json_object_set_new(root, "cost_j", json_real(certificate->cost_j)) < 0 ||
        json_object_set_new(root, "cost_bound_j", json_real(certificate->bound_j)) < 0)
        return -ENOMEM;
    return lull_cluster_proven_json(&gangs->proven, root);
}

static int add_bound(const struct lull_gangs *gangs, json_t *root)
{
    const char *notes[LULL_CLUSTER_BOUND_NOTES];
    json_t *texts;
    size_t count;

    if (!gangs->wish->is_bounded)
        return 0;
    texts = json_array();
    count = lull_cluster_bound_notes(&gangs->jobs, &gangs->conditions.all, notes);
    for (size_t i = 0; i < count; i++)
        json_array_append_new(texts, json_string(notes[i]));
    if (json_object_set_new(root, "not_bounded", texts) < 0)
        return -ENOMEM;
    return json_object_set_new(root, "run_bound_j", json_real(gangs->bound.run_j)) < 0 ? -ENOMEM
                                                                                       : 0;
}

static json_t *more_json(const struct lull_gangs *gangs, const struct lull_cluster_tally *tallies,
                         double makespan_s, json_t *explained)
{
    const struct lull_cluster_tally *all = &tallies[gangs->cluster.pool_count];

    json_t *const root = json_pack(
        "{s:s, s:f, s:f, s:I, s:f, s:f, s:I, s:I, s:I, s:I, s:f, s:f, s:o, s:o*}", "policy",
        gangs->policy->name, "value_j", all->value_j, "offered_j", all->offered_j, "never_started",
        (json_int_t)(all->jobs - all->done - all->rejected), "average_queue_s",
        mean(all->wait_s, all->done), "utilisation_ratio",
        lull_cluster_tally_utilisation(all, makespan_s), "preemptions",
        (json_int_t)all->preemptions, "without_gpus", (json_int_t)gangs->table.without_gpus,
        "without_duration", (json_int_t)gangs->table.without_duration, "nodes",
        (json_int_t)gangs->cluster.node_count, "run_w", gangs->wish->run_w, "idle_w",
        gangs->types[0].idle_w, "pools", pools_json(gangs, tallies, makespan_s), "explained",
        explained);

    if (root != NULL && gangs->wish->modes.type_count > 0)
        json_object_set_new(root, "job_modes",
                            lull_gangs_modes_json(&gangs->modes, gangs->jobs.count));
    if (root != NULL &&
        (add_certificate(gangs, root) < 0 || add_bound(gangs, root) < 0 ||
         lull_conditions_json(&gangs->wish->conditions, gangs->run, gangs->jobs.count, root) < 0)) {
        json_decref(root);
        return NULL;
    }
    return root;
}

static void print_pools(const struct lull_gangs *gangs, const struct lull_cluster_tally *tallies,
                        double makespan_s)
{
    printf("\n%-16s %9s %9s %9s %12s %14s %7s %9s\n", "pool", "GPUs", "jobs", "rejected", "queue",
           "completion", "busy", "late");
    for (uint32_t pool = 0; pool < gangs->cluster.pool_count; pool++) {
        const struct lull_cluster_tally *tally = &tallies[pool];

        if (!is_shown(tally))
            continue;
        printf("%-16s %9s %9s %9s %12s %14s %5.1f %% %9s\n", lull_gangs_pool_name(gangs, pool).text,
               lull_amount_count(tally->gpus).text, lull_amount_count(tally->jobs).text,
               lull_amount_count(tally->rejected).text,
               lull_amount_time(mean(tally->wait_s, tally->done)).text,
               lull_amount_time(mean(tally->completion_s, tally->done)).text,
               100.0 * lull_cluster_tally_utilisation(tally, makespan_s),
               lull_amount_count(tally->misses).text);
    }
}

/* Below 0 a cost is a gain. */
static void print_cost(const struct lull_cluster_certificate *certificate)
{
    if (certificate->cost_j < 0.0)
        printf(
            "gain                %.6g MJ of value, less energy and the time of jobs; no schedule "
            "gains more than %.6g MJ\n",
            -certificate->cost_j * 1e-6, -certificate->bound_j * 1e-6);
    else
        printf("cost                %.6g MJ with the time of jobs; no schedule costs less than "
               "%.6g MJ\n",
               certificate->cost_j * 1e-6, certificate->bound_j * 1e-6);
}

static void print_quality(const struct lull_gangs *gangs, const struct lull_cluster_tally *all)
{
    const char *notes[LULL_CLUSTER_BOUND_NOTES];

    if (gangs->has_values)
        printf("value               %s of %s by jobs that ended in time\n",
               lull_amount_energy(all->value_j).text, lull_amount_energy(all->offered_j).text);
    if (lull_gangs_is_certified(gangs->policy)) {
        print_cost(&gangs->certificate);
        lull_cluster_proven_print(&gangs->proven, stdout);
    }
    if (gangs->wish->is_bounded) {
        const size_t count = lull_cluster_bound_notes(&gangs->jobs, &gangs->conditions.all, notes);

        printf("bound of running    %s\n", lull_amount_energy(gangs->bound.run_j).text);
        for (size_t i = 0; i < count; i++)
            printf("not in the bound    %s\n", notes[i]);
    }
}

static void print(const struct lull_gangs *gangs, const struct lull_cluster_summary *summary,
                  const struct lull_cluster_tally *tallies)
{
    const struct lull_cluster_tally *all = &tallies[gangs->cluster.pool_count];

    lull_cluster_summary_print(summary, stdout);
    lull_conditions_print(&gangs->wish->conditions, gangs->run, gangs->jobs.count, stdout);
    printf("queue               %s on average; %s never started\n",
           lull_amount_seconds(mean(all->wait_s, all->done)).text,
           lull_amount_count(all->jobs - all->done - all->rejected).text);
    printf("GPUs                %s on %s node%s, busy for %.1f %% of the time\n",
           lull_amount_count(all->gpus).text, lull_amount_count(gangs->cluster.node_count).text,
           gangs->cluster.node_count == 1 ? "" : "s",
           100.0 * lull_cluster_tally_utilisation(all, summary->makespan_s));
    print_quality(gangs, all);
    printf("left out            %s without GPUs, %s of unknown duration\n",
           lull_amount_count(gangs->table.without_gpus).text,
           lull_amount_count(gangs->table.without_duration).text);
    if (gangs->wish->modes.type_count > 0)
        lull_gangs_modes_print(&gangs->modes, gangs->jobs.count);
    if (gangs->pools.rows != NULL)
        print_pools(gangs, tallies, summary->makespan_s);
}

/* For people, print_cost() tells that of a certificate. */
static void fill_in_bounds(const struct lull_gangs *gangs, struct lull_cluster_summary *summary)
{
    const struct lull_cluster_certificate *certificate = &gangs->certificate;

    if (lull_gangs_is_certified(gangs->policy)) {
        if (gangs->wish->is_json)
            summary->bound_j = certificate->bound_j;
        summary->certificate_ratio = lull_dual_ratio(certificate->bound_j, certificate->cost_j);
    }
    if (!gangs->wish->is_bounded)
        return;
    summary->bound_j = gangs->bound.all_j;
    if (gangs->bound.all_j > 0.0)
        summary->certificate_ratio =
            (summary->run_j + summary->idle_j + summary->turn_on_j) / gangs->bound.all_j;
}

static int print_summary(const struct lull_gangs *gangs, json_t *explained)
{
    const size_t pools = gangs->cluster.pool_count;
    struct lull_cluster_tally *tallies = malloc((pools + 1) * sizeof(*tallies));
    struct lull_cluster_summary summary;
    int result = -ENOMEM;

    if (tallies != NULL) {
        lull_cluster_tally(&gangs->cluster, &gangs->jobs, gangs->run, tallies);
        result = lull_cluster_summarise(&gangs->jobs, gangs->run, &tallies[pools], &summary);
    }
    if (result == 0)
        fill_in_bounds(gangs, &summary);
    if (result == 0 && gangs->wish->is_json)
        result = lull_cluster_summary_print_json(
            &summary, more_json(gangs, tallies, summary.makespan_s, explained));
    else if (result == 0)
        print(gangs, &summary, tallies);
    free(tallies);
    return result;
}

int lull_gangs_print(const struct lull_gangs *gangs, struct lull_error *err)
{
    struct lull_explained explained;
    json_t *document = NULL;
    int result;

    if (gangs->wish->explain != NULL) {
        result = lull_explain_job(gangs, &explained, err);
        if (result < 0)
            return result;
        if (!gangs->wish->is_json) {
            lull_explain_print(&explained, stdout);
            return 0;
        }
        document = lull_explain_json(&explained);
    }
    result = print_summary(gangs, document);
    return result < 0 ? lull_error_set(err, result, "no memory for the summary") : 0;
}

/* ---- jobs --------------------------------------------------------------------------------- */

void lull_gangs_write_placement(const struct lull_cluster_outcome *outcome, uint32_t first,
                                FILE *file)
{
    for (uint32_t i = 0; i < outcome->share_count; i++)
        fprintf(file, "%s%u:%u", i > 0 ? " " : "", outcome->shares[i].node - first,
                outcome->shares[i].gpus);
}

uint32_t lull_gangs_first_node(const struct lull_gangs *gangs, uint32_t pool)
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
    lull_gangs_write_placement(outcome, first, file);
    fprintf(file, ",%.6f,%s\n", (double)outcome->shared_ns * 1e-9,
            outcome->reason != NULL ? outcome->reason : "");
}

static int write_rows(const void *context, FILE *file)
{
    const struct lull_gangs *gangs = context;
    uint32_t *first = calloc(gangs->cluster.pool_count, sizeof(*first));

    if (first == NULL)
        return -ENOMEM;
    for (uint32_t pool = 0; pool < gangs->cluster.pool_count; pool++)
        first[pool] = lull_gangs_first_node(gangs, pool);
    fputs("job_id,vc,gpus,fate,submit_s,start_s,end_s,placement,shared_s,reason\n", file);
    for (size_t i = 0; i < gangs->jobs.count; i++)
        write_job(gangs, i, first[gangs->jobs.all[i].pool], file);
    free(first);
    return 0;
}

int lull_gangs_write_jobs(const struct lull_gangs *gangs, struct lull_error *err)
{
    return lull_cluster_write_table(gangs->wish->jobs_out, write_rows, gangs, err);
}
