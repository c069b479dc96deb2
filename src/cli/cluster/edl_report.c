/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/edl_report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "cli/cluster/cluster.h"

/* ---- summary ------------------------------------------------------------------------------ */

static int summarise(const struct lull_edl_run *run, struct lull_cluster_summary *summary)
{
    double *completion_s = malloc((run->count + 1) * sizeof(*completion_s));
    int result = -ENOMEM;

    *summary = (struct lull_cluster_summary){
        .jobs = run->count,
        .run_j = run->outcome.run_j,
        .idle_j = run->outcome.idle_s * run->wish->idle_w,
        .turn_on_j = (double)run->outcome.turn_ons * run->wish->turn_on_j,
        .deadline_misses = run->outcome.misses,
        .bound_j = NAN,
        .certificate_ratio = NAN,
    };
    for (size_t i = 0; i < run->count && completion_s != NULL; i++) {
        completion_s[i] = run->jobs[i].finish_s - run->jobs[i].task->arrival_s;
        summary->makespan_s = fmax(summary->makespan_s, run->jobs[i].finish_s);
    }
    if (completion_s != NULL)
        result = lull_cluster_summarise_times(completion_s, run->count, summary);
    free(completion_s);
    return result;
}

static json_t *errors_json(unsigned errors)
{
    json_t *list = json_array();
    const char *name;

    for (unsigned i = 0; (name = lull_edl_error_name(i)) != NULL; i++)
        if (errors & (1U << i))
            json_array_append_new(list, json_string(name));
    return list;
}

static json_t *more_json(const struct lull_edl_run *run)
{
    return json_pack(
        "{s:s, s:s, s:o, s:b, s:b, s:s, s:f, s:b, s:I, s:I, s:f, s:f, s:f, s:I, s:I}", "policy",
        "edl", "variant", run->wish->variant, "errors", errors_json(run->wish->config.errors),
        "is_online", run->wish->is_online, "has_dvfs", run->wish->config.has_dvfs, "range",
        run->wish->range, "theta_ratio", run->wish->config.theta_ratio, "is_frugal",
        run->wish->is_frugal, "gpus", (json_int_t)run->wish->gpus, "gpus_per_node",
        (json_int_t)run->wish->config.gpus_per_node, "idle_w", run->wish->idle_w, "node_turn_on_j",
        run->wish->turn_on_j, "idle_gpu_s", run->outcome.idle_s, "turn_ons",
        (json_int_t)run->outcome.turn_ons, "most_nodes_on", (json_int_t)run->outcome.most_nodes);
}

int lull_edl_report_print(const struct lull_edl_run *run, struct lull_error *err)
{
    struct lull_cluster_summary summary;
    int result = summarise(run, &summary);

    if (result == 0 && run->wish->is_json)
        result = lull_cluster_summary_print_json(&summary, more_json(run));
    if (result < 0)
        return lull_error_set(err, result, "no memory for the summary");
    if (!run->wish->is_json) {
        lull_cluster_summary_print(&summary, stdout);
        printf("nodes               %llu turned on, %llu on at a time, %u GPUs each\n",
               (unsigned long long)run->outcome.turn_ons,
               (unsigned long long)run->outcome.most_nodes, run->wish->config.gpus_per_node);
    }
    return 0;
}

/* ---- jobs --------------------------------------------------------------------------------- */

static void write_job(const struct lull_edl_job *job, FILE *file)
{
    fprintf(file, "%llu,%.2f,%.6f,%.6f,%.6f,%.4f,%.6f,%.6f,%u,%u\n",
            (unsigned long long)job->task->id, job->point.voltage_ratio, job->point.core_ratio,
            job->point.memory_ratio, job->point.time_s, job->point.power_w, job->start_s,
            job->finish_s, job->node, job->gpu);
}

static int write_rows(const void *context, FILE *file)
{
    const struct lull_edl_run *run = context;

    fputs("job_id,voltage,fc,fm,time,power_w,start,finish,node,gpu\n", file);
    for (size_t i = 0; i < run->count; i++)
        write_job(&run->jobs[i], file);
    return 0;
}

int lull_edl_report_write_jobs(const struct lull_edl_run *run, struct lull_error *err)
{
    return lull_cluster_write_table(run->wish->jobs_out, write_rows, run, err);
}
