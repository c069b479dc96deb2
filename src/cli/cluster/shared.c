/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/shared.h"

#include <errno.h>
#include <stdlib.h>

#include "cli/cluster/cluster.h"
#include "cli/command.h"

static int make_jobs(struct lull_shared_run *run, struct lull_error *err)
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
        return lull_error_set(err, -ENOMEM, "no memory for %zu jobs", run->count);
    return 0;
}

static int simulate(struct lull_shared_run *run, struct lull_error *err)
{
    const char *const path = run->wish->path;
    int result = lull_training_jobs_read(path, &run->told, &run->count, err);

    if (result == 0)
        result = make_jobs(run, err);
    if (result < 0)
        return result;
    result = lull_shared_simulate(&run->wish->setup, run->jobs, run->count, &run->result);
    if (result == -EOVERFLOW)
        return lull_error_set(
            err, result, "%s: more happens than can be simulated ms by ms; give fewer iterations",
            path);
    if (result < 0)
        return lull_error_set(err, result, "%s: no memory for its %zu jobs", path, run->count);
    if (run->wish->jobs_out != NULL)
        result = lull_shared_report_write_jobs(run, err);
    return result == 0 ? lull_shared_report_print(run, err) : result;
}

int lull_cluster_shared_main(const char *policy, int argc, char **argv)
{
    struct lull_shared_options wish;
    struct lull_shared_run run = {.wish = &wish};
    struct lull_error err = {0};
    int result;

    (void)policy;
    lull_shared_options_parse(argc, argv, &wish);
    result = simulate(&run, &err);
    free(run.told);
    free(run.jobs);
    free(run.result.completion_ms);
    free(run.result.placed_ms);
    free(run.result.gpus);
    return result < 0 ? lull_cli_fail(LULL_CLUSTER_COMMAND, &err) : LULL_EXIT_OK;
}
