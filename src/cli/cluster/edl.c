/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/cluster.h"

#include <errno.h>
#include <stdlib.h>

#include "cli/cluster/edl_options.h"
#include "cli/cluster/edl_report.h"
#include "cli/command.h"
#include "simulator/cluster/edl_online.h"
#include "simulator/cluster/edl_tasks.h"
#include "trace/dvfs_tasks.h"

static int draw(const struct lull_edl_options *wish, struct lull_dvfs_task **tasks_out,
                size_t *count_out, struct lull_error *err)
{
    const size_t count = lull_edl_tasks_count(wish->utilisation, wish->is_online);
    struct lull_dvfs_task *tasks = malloc((count + 1) * sizeof(*tasks));

    if (tasks == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for %zu tasks", count);
    lull_edl_tasks_draw(wish->utilisation, wish->is_online, (uint64_t)wish->seed, tasks);
    *tasks_out = tasks;
    *count_out = count;
    return 0;
}

static int find_tasks(const struct lull_edl_options *wish, struct lull_dvfs_task **tasks_out,
                      size_t *count_out, struct lull_error *err)
{
    const int result = wish->path == NULL
                           ? draw(wish, tasks_out, count_out, err)
                           : lull_dvfs_tasks_read(wish->path, tasks_out, count_out, err);

    if (result == 0 && wish->first > 0 && (uint64_t)wish->first < *count_out)
        *count_out = (size_t)wish->first;
    return result;
}

static int schedule(struct lull_edl_run *run, const struct lull_dvfs_task *tasks,
                    struct lull_error *err)
{
    const struct lull_edl_config *config = &run->wish->config;
    int result;

    run->jobs = calloc(run->count + 1, sizeof(*run->jobs));
    if (run->jobs == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for %zu tasks", run->count);
    result = run->wish->is_online
                 ? lull_edl_simulate(config, tasks, run->count, run->jobs, &run->outcome, err)
                 : lull_edl_schedule(config, tasks, run->count, run->jobs, &run->outcome, err);
    if (result == 0 && run->wish->jobs_out != NULL)
        result = lull_edl_report_write_jobs(run, err);
    return result;
}

int lull_cluster_edl_main(const char *policy, int argc, char **argv)
{
    struct lull_edl_options wish;
    struct lull_edl_run run = {.wish = &wish};
    struct lull_dvfs_task *tasks = NULL;
    struct lull_error err = {0};
    int result;

    (void)policy;
    lull_edl_options_parse(argc, argv, &wish);
    result = find_tasks(&wish, &tasks, &run.count, &err);
    if (result == 0)
        result = schedule(&run, tasks, &err);
    if (result == 0)
        result = lull_edl_report_print(&run, &err);
    free(run.jobs);
    free(tasks);
    return result < 0 ? lull_cli_fail(LULL_CLUSTER_COMMAND, &err) : LULL_EXIT_OK;
}
