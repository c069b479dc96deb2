/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "reproduce/ada_srsf/options.h"
#include "reproduce/ada_srsf/training_jobs.h"
#include "reproduce/command.h"
#include "simulator/cluster/summary.h"

/* One run: what was asked, and what came of it. */
struct shared_run {
    const struct lull_shared_options *options;
    struct lull_training_job *told; /* as the file has them */
    struct lull_shared_job *jobs;   /* as the simulation takes them, in the same order */
    size_t count;
    struct lull_shared_result result;
};

static bool has_run(const struct shared_run *run, size_t job)
{
    return run->result.completion_ms[job] >= 0;
}

/* ---- summary ------------------------------------------------------------------------------ */

static int summarise(const struct shared_run *run, struct lull_cluster_summary *summary)
{
    const struct lull_shared_setup *setup = &run->options->setup;
    const double gpu_s =
        (double)setup->nodes * setup->gpus_per_node * (double)run->result.makespan_ms * 1e-3;
    double *completion_s = malloc((run->count + 1) * sizeof(*completion_s));
    size_t done = 0;
    int rc;

    *summary = (struct lull_cluster_summary){
        .jobs = run->count,
        .makespan_s = (double)run->result.makespan_ms * 1e-3,
        .run_j = run->result.busy_ratio * gpu_s * run->options->run_w,
        .idle_j = (1.0 - run->result.busy_ratio) * gpu_s * run->options->idle_w,
        .bound_j = NAN,
        .certificate_ratio = NAN,
    };
    if (completion_s == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < run->count; i++)
        if (has_run(run, i))
            completion_s[done++] = (double)run->result.completion_ms[i] * 1e-3;
    summary->rejected = run->count - done;
    rc = lull_cluster_summarise_times(completion_s, done, summary);
    free(completion_s);
    return rc;
}

static json_t *errors_json(const struct lull_shared_setup *setup)
{
    json_t *list = json_array();

    for (unsigned i = 0; lull_shared_error_name(i) != NULL; i++)
        if (lull_shared_makes_error(setup, i))
            json_array_append_new(list, json_string(lull_shared_error_name(i)));
    return list;
}

static json_t *details_json(const struct shared_run *run)
{
    const struct lull_shared_setup *setup = &run->options->setup;

    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:f, s:I, s:I, s:f, s:f, s:f, s:f, s:f}", "policy",
                     "ada-srsf", "transfers", run->options->transfers, "place", run->options->place,
                     "variant", run->options->variant, "errors", errors_json(setup), "busy_ratio",
                     run->result.busy_ratio, "nodes", (json_int_t)setup->nodes, "gpus_per_node",
                     (json_int_t)setup->gpus_per_node, "memory_mb", setup->memory_mb, "beta_ms",
                     setup->beta_ms, "eta_ms", setup->eta_ms, "run_w", run->options->run_w,
                     "idle_w", run->options->idle_w);
}

/* Prints the summary for people, or as one JSON document. Errors: -ENOMEM. */
static int print(const struct shared_run *run, struct lull_error *err)
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
    printf("GPUs                computing %.1f %% of the time\n", 100.0 * run->result.busy_ratio);
    return 0;
}

/* ---- the table of --jobs-out --------------------------------------------------------------- */

/* Writes node:GPUs in the order of choice; neighbours on the same node are written together. */
static void write_placement(const uint32_t *gpus, uint32_t count, uint32_t per_node, FILE *file)
{
    for (uint32_t from = 0, to = 0; from < count; from = to) {
        while (to < count && gpus[to] / per_node == gpus[from] / per_node)
            to++;
        fprintf(file, "%s%u:%u", from > 0 ? " " : "", gpus[from] / per_node, to - from);
    }
}

/* A comma within a name would begin another cell of the table. */
static void write_name(const char *name, FILE *file)
{
    for (; *name != '\0'; name++)
        fputc(*name == ',' ? ';' : *name, file);
}

static const char *reason_of(const struct shared_run *run, size_t job)
{
    const struct lull_shared_setup *setup = &run->options->setup;

    if (lull_shared_is_possible(setup, &run->jobs[job]))
        return "";
    return run->jobs[job].memory_mb > setup->memory_mb ? "more memory than a GPU has"
                                                       : "more GPUs than there are";
}

static void write_job(const struct shared_run *run, size_t job, const uint32_t *gpus, FILE *file)
{
    const struct lull_training_job *told = &run->told[job];
    const struct lull_shared_result *result = &run->result;

    fprintf(file, "%lld,", (long long)told->id);
    write_name(told->net, file);
    fprintf(file, ",%u,%s,%.3f,", told->workers, has_run(run, job) ? "done" : "rejected",
            (double)told->arrival_ms * 1e-3);
    if (has_run(run, job)) {
        fprintf(file, "%.3f,%.3f,", (double)result->placed_ms[job] * 1e-3,
                (double)(told->arrival_ms + result->completion_ms[job]) * 1e-3);
        write_placement(gpus, told->workers, run->options->setup.gpus_per_node, file);
    } else {
        fputs(",,", file);
    }
    fprintf(file, ",%s\n", reason_of(run, job));
}

static int write_rows(const void *context, FILE *file)
{
    const struct shared_run *run = context;
    const uint32_t *gpus = run->result.gpus;

    fputs("job_id,net,gpus,fate,submit_s,start_s,end_s,placement,reason\n", file);
    for (size_t i = 0; i < run->count; i++) {
        write_job(run, i, gpus, file);
        gpus += run->told[i].workers;
    }
    return 0;
}

/* ---- the run ------------------------------------------------------------------------------ */

static int make_jobs(struct shared_run *run, struct lull_error *err)
{
    size_t workers = 0;

    run->jobs = calloc(run->count, sizeof(*run->jobs));
    for (size_t i = 0; i < run->count && run->jobs != NULL; i++) {
        const struct lull_training_job *told = &run->told[i];

        workers += told->workers;
        run->jobs[i] = (struct lull_shared_job){
            .arrival_ms = told->arrival_ms,
            .workers = told->workers,
            .iterations = told->iterations,
            .forward_ms = told->forward_ms,
            .backward_ms = told->backward_ms,
            .model_mb = told->model_mb,
            .memory_mb = told->memory_mb,
        };
    }
    run->result.completion_ms = calloc(run->count, sizeof(*run->result.completion_ms));
    run->result.placed_ms = calloc(run->count, sizeof(*run->result.placed_ms));
    run->result.gpus = calloc(workers, sizeof(*run->result.gpus));
    if (run->jobs == NULL || run->result.completion_ms == NULL || run->result.placed_ms == NULL ||
        run->result.gpus == NULL)
        return lull_error_set(err, -ENOMEM, "there is no memory for %zu jobs", run->count);
    return 0;
}

static int simulate(struct shared_run *run, struct lull_error *err)
{
    const char *const path = run->options->path;
    int rc = lull_training_jobs_read(path, &run->told, &run->count, err);

    if (rc == 0)
        rc = make_jobs(run, err);
    if (rc < 0)
        return rc;
    rc = lull_shared_simulate(&run->options->setup, run->jobs, run->count, &run->result);
    if (rc == -EOVERFLOW)
        return lull_error_set(
            err, rc,
            "%s: the jobs take more than %lld slots of 1 ms, the most that are simulated; give "
            "fewer iterations",
            path, (long long)LULL_SHARED_MOST_SLOTS);
    if (rc < 0)
        return lull_error_set(err, rc, "%s: there is no memory for its %zu jobs", path, run->count);
    if (run->options->jobs_out != NULL)
        rc = lull_cluster_write_table(run->options->jobs_out, write_rows, run, err);
    if (rc < 0)
        return rc;
    return print(run, err);
}

int lull_shared_main(int argc, char **argv, struct lull_error *err)
{
    struct lull_shared_options options;
    struct shared_run run = {.options = &options};
    int rc;

    lull_shared_options_parse(argc, argv, &options);
    rc = simulate(&run, err);
    free(run.told);
    free(run.jobs);
    free(run.result.completion_ms);
    free(run.result.placed_ms);
    free(run.result.gpus);
    return rc;
}
