/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "reproduce/command.h"
#include "reproduce/edl/online.h"
#include "reproduce/edl/options.h"
#include "reproduce/edl/tasks.h"
#include "simulator/cluster/summary.h"

/* One run: what was asked, and what came of it. */
struct edl_run {
    const struct lull_edl_options *options;
    struct lull_edl_job *jobs; /* in the order of the tasks */
    size_t count;
    struct lull_edl_outcome outcome;
};

/* ---- summary ------------------------------------------------------------------------------ */

static int summarise(const struct edl_run *run, struct lull_cluster_summary *summary)
{
    double *completion_s = malloc((run->count + 1) * sizeof(*completion_s));
    int rc;

    *summary = (struct lull_cluster_summary){
        .jobs = run->count,
        .run_j = run->outcome.run_j,
        .idle_j = run->outcome.idle_s * run->options->idle_w,
        .turn_on_j = (double)run->outcome.turn_ons * run->options->turn_on_j,
        .deadline_misses = run->outcome.misses,
        .bound_j = NAN,
        .certificate_ratio = NAN,
    };
    if (completion_s == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < run->count; i++) {
        completion_s[i] = run->jobs[i].finish_s - run->jobs[i].task->arrival_s;
        summary->makespan_s = fmax(summary->makespan_s, run->jobs[i].finish_s);
    }
    rc = lull_cluster_summarise_times(completion_s, run->count, summary);
    free(completion_s);
    return rc;
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

static json_t *details_json(const struct edl_run *run)
{
    return json_pack(
        "{s:s, s:s, s:o, s:b, s:b, s:s, s:f, s:b, s:I, s:I, s:f, s:f, s:f, s:I, s:I}", "policy",
        "edl", "variant", run->options->variant, "errors", errors_json(run->options->config.errors),
        "is_online", run->options->is_online, "has_dvfs", run->options->config.has_dvfs, "range",
        run->options->range, "theta_ratio", run->options->config.theta_ratio, "is_frugal",
        run->options->is_frugal, "gpus", (json_int_t)run->options->gpus, "gpus_per_node",
        (json_int_t)run->options->config.gpus_per_node, "idle_w", run->options->idle_w,
        "node_turn_on_j", run->options->turn_on_j, "idle_gpu_s", run->outcome.idle_s, "turn_ons",
        (json_int_t)run->outcome.turn_ons, "most_nodes_on", (json_int_t)run->outcome.most_nodes);
}

/* Prints the summary for people, or as one JSON document. Errors: -ENOMEM. */
static int print(const struct edl_run *run, struct lull_error *err)
{
    struct lull_cluster_summary summary;
    int rc = summarise(run, &summary);

    if (rc == 0 && run->options->is_json)
        rc = lull_cluster_summary_print_json(&summary, details_json(run));
    if (rc < 0)
        return lull_error_set(err, rc, "there is no memory for the summary");
    if (run->options->is_json)
        return 0;
    lull_cluster_summary_print(&summary, stdout);
    printf("nodes               %llu turned on, %llu on at a time, %u GPUs each\n",
           (unsigned long long)run->outcome.turn_ons, (unsigned long long)run->outcome.most_nodes,
           run->options->config.gpus_per_node);
    return 0;
}

/* ---- the table of --jobs-out --------------------------------------------------------------- */

/* Clocks and voltage are ratios to the base point, times are in seconds. */
static int write_rows(const void *context, FILE *file)
{
    const struct edl_run *run = context;

    fputs("job_id,voltage,fc,fm,time,power_w,start,finish,node,gpu\n", file);
    for (size_t i = 0; i < run->count; i++) {
        const struct lull_edl_job *job = &run->jobs[i];

        fprintf(file, "%llu,%.2f,%.6f,%.6f,%.6f,%.4f,%.6f,%.6f,%u,%u\n",
                (unsigned long long)job->task->id, job->point.voltage_ratio, job->point.core_ratio,
                job->point.memory_ratio, job->point.time_s, job->point.power_w, job->start_s,
                job->finish_s, job->node, job->gpu);
    }
    return 0;
}

/* ---- the run ------------------------------------------------------------------------------ */

static int draw(const struct lull_edl_options *options, struct lull_dvfs_task **tasks_out,
                size_t *count_out, struct lull_error *err)
{
    const size_t count = lull_edl_tasks_count(options->utilisation, options->is_online);
    struct lull_dvfs_task *tasks = malloc((count + 1) * sizeof(*tasks));

    if (tasks == NULL)
        return lull_error_set(err, -ENOMEM, "there is no memory for %zu tasks", count);
    lull_edl_tasks_draw(options->utilisation, options->is_online, (uint64_t)options->seed, tasks);
    *tasks_out = tasks;
    *count_out = count;
    return 0;
}

static int find_tasks(const struct lull_edl_options *options, struct lull_dvfs_task **tasks_out,
                      size_t *count_out, struct lull_error *err)
{
    int rc;

    if (options->path == NULL)
        rc = draw(options, tasks_out, count_out, err);
    else
        rc = lull_dvfs_tasks_read(options->path, tasks_out, count_out, err);
    if (rc == 0 && options->first > 0 && (uint64_t)options->first < *count_out)
        *count_out = (size_t)options->first;
    return rc;
}

static int schedule(struct edl_run *run, const struct lull_dvfs_task *tasks, struct lull_error *err)
{
    const struct lull_edl_config *config = &run->options->config;
    int rc;

    run->jobs = calloc(run->count + 1, sizeof(*run->jobs));
    if (run->jobs == NULL)
        return lull_error_set(err, -ENOMEM, "there is no memory for %zu tasks", run->count);
    if (run->options->is_online)
        rc = lull_edl_simulate(config, tasks, run->count, run->jobs, &run->outcome, err);
    else
        rc = lull_edl_schedule(config, tasks, run->count, run->jobs, &run->outcome, err);
    if (rc < 0)
        return rc;
    if (run->options->jobs_out != NULL)
        rc = lull_cluster_write_table(run->options->jobs_out, write_rows, run, err);
    if (rc < 0)
        return rc;
    return print(run, err);
}

int lull_edl_main(int argc, char **argv, struct lull_error *err)
{
    struct lull_edl_options options;
    struct edl_run run = {.options = &options};
    struct lull_dvfs_task *tasks = NULL;
    int rc;

    lull_edl_options_parse(argc, argv, &options);
    rc = find_tasks(&options, &tasks, &run.count, err);
    if (rc == 0)
        rc = schedule(&run, tasks, err);
    free(run.jobs);
    free(tasks);
    return rc;
}
