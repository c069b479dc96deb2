/*
 * Training jobs: refused with a message, or setups that are composed and built or refused in turn.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "../text_file.h"
#include "fuzz.h"
#include "cluster/trace/training_jobs.h"

/* So many tasks that one input does not take seconds. */
static bool is_small(const struct lull_training_setup *job)
{
    return (double)job->batch * job->pipeline * job->chunks * job->model.layers < 2e3 &&
           (double)job->pipeline * job->chunks < 64.0;
}

static void check_job(const struct lull_training_entry *entry)
{
    struct lull_training_setup job = entry->job;
    struct lull_error err = {0};
    struct lull_training_step step;
    struct lull_job_graph graph;

    require(entry->gpu[0] != '\0');
    require(isfinite(entry->step_s) && entry->step_s >= 0.0);
    if (job.matrix_ratio <= 0.0)
        job.matrix_ratio = 0.5;
    if (lull_training_compose(&job, &lull_training_gpus[1], &step, &err) < 0) {
        require(err.text[0] != '\0');
        return;
    }
    require(step.parallel.forward_ns >= 0 && step.parallel.backward_ns >= 0);
    if (!is_small(&job))
        return;
    if (lull_job_parallel_build(&step.parallel, &graph, &err) < 0) {
        require(err.text[0] != '\0');
        return;
    }
    require(graph.task_count > 0);
    lull_job_graph_fini(&graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lull_training_jobs jobs;
    struct lull_error err = {0};

    if (lull_training_jobs_read(text_file(data, size), &jobs, &err) < 0) {
        require(err.text[0] != '\0' && jobs.entries == NULL);
        return 0;
    }
    require(jobs.count > 0);
    for (size_t i = 0; i < jobs.count; i++)
        check_job(&jobs.entries[i]);
    lull_training_jobs_fini(&jobs);
    return 0;
}
