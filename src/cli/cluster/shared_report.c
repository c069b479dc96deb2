/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "cli/cluster/cluster.h"
#include "cli/cluster/shared.h"

static bool has_run(const struct lull_shared_run *run, size_t job)
{
    return run->result.completion_ms[job] >= 0;
}

/* ---- summary ------------------------------------------------------------------------------ */

static int summarise(const struct lull_shared_run *run, struct lull_cluster_summary *summary)
{
    const struct lull_shared_setup *setup = &run->wish->setup;
    const double gpu_s =
        (double)setup->nodes * setup->gpus_per_node * (double)run->result.makespan_ms * 1e-3;
    double *completion_s = malloc((run->count + 1) * sizeof(*completion_s));
    size_t done = 0;
    int result;

    *summary = (struct lull_cluster_summary){
        .jobs = run->count,
        .makespan_s = (double)run->result.makespan_ms * 1e-3,
        .run_j = run->result.busy_ratio * gpu_s * run->wish->run_w,
        .idle_j = (1.0 - run->result.busy_ratio) * gpu_s * run->wish->idle_w,
    };
    if (completion_s == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < run->count; i++)
        if (has_run(run, i))
            completion_s[done++] = (double)run->result.completion_ms[i] * 1e-3;
    summary->rejected = run->count - done;
    result = lull_cluster_summarise_times(completion_s, done, summary);
    free(completion_s);
    return result;
}

static json_t *errors_json(const struct lull_shared_setup *setup)
{
    json_t *list = json_array();

    for (unsigned i = 0; lull_shared_error_name(i) != NULL; i++)
        if (lull_shared_makes_error(setup, i))
            json_array_append_new(list, json_string(lull_shared_error_name(i)));
    return list;
}

static json_t *more_json(const struct lull_shared_run *run)
{
    const struct lull_shared_setup *setup = &run->wish->setup;

    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:f, s:I, s:I, s:f, s:f, s:f, s:f, s:f}", "policy",
                     "ada-srsf", "transfers", run->wish->transfers, "place", run->wish->place,
                     "variant", run->wish->variant, "errors", errors_json(setup), "busy_ratio",
                     run->result.busy_ratio, "nodes", (json_int_t)setup->nodes, "gpus_per_node",
                     (json_int_t)setup->gpus_per_node, "memory_mb", setup->memory_mb, "beta_ms",
                     setup->beta_ms, "eta_ms", setup->eta_ms, "run_w", run->wish->run_w, "idle_w",
                     run->wish->idle_w);
}

int lull_shared_report_print(const struct lull_shared_run *run, struct lull_error *err)
{
    struct lull_cluster_summary summary;
    int result = summarise(run, &summary);

    if (result == 0 && run->wish->is_json)
        result = lull_cluster_summary_print_json(&summary, more_json(run));
    if (result < 0)
        return lull_error_set(err, result, "no memory for the summary");
    if (run->wish->is_json)
        return 0;
    lull_cluster_summary_print(&summary, stdout);
    printf("GPUs                computing %.1f %% of the time\n", 100.0 * run->result.busy_ratio);
    return 0;
}

/* ---- jobs --------------------------------------------------------------------------------- */

/* Neighbours on one node together. */
static void write_placement(const uint32_t *gpus, uint32_t count, uint32_t per_node, FILE *file)
{
    for (uint32_t from = 0, to = 0; from < count; from = to) {
        while (to < count && gpus[to] / per_node == gpus[from] / per_node)
            to++;
        fprintf(file, "%s%u:%u", from > 0 ? " " : "", gpus[from] / per_node, to - from);
    }
}

/* A comma within a name would be taken for another cell. */
static void write_name(const char *name, FILE *file)
{
    for (; *name != '\0'; name++)
        fputc(*name == ',' ? ';' : *name, file);
}

static const char *reason_of(const struct lull_shared_run *run, size_t job)
{
    const struct lull_shared_setup *setup = &run->wish->setup;

    if (lull_shared_is_possible(setup, &run->jobs[job]))
        return "";
    return run->jobs[job].memory_mb > setup->memory_mb ? "more memory than a GPU has"
                                                       : "more GPUs than there are";
}

static void write_job(const struct lull_shared_run *run, size_t job, const uint32_t *gpus,
                      FILE *file)
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
        write_placement(gpus, told->workers, run->wish->setup.gpus_per_node, file);
    } else {
        fputs(",,", file);
    }
    fprintf(file, ",%s\n", reason_of(run, job));
}

static int write_rows(const void *context, FILE *file)
{
    const struct lull_shared_run *run = context;
    const uint32_t *gpus = run->result.gpus;

    fputs("job_id,net,gpus,fate,submit_s,start_s,end_s,placement,reason\n", file);
    for (size_t i = 0; i < run->count; i++) {
        write_job(run, i, gpus, file);
        gpus += run->told[i].workers;
    }
    return 0;
}

int lull_shared_report_write_jobs(const struct lull_shared_run *run, struct lull_error *err)
{
    return lull_cluster_write_jobs(run->wish->jobs_out, write_rows, run, err);
}
