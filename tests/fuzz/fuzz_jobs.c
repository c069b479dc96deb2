/*
 * Files of one job each, in any of their forms: refused with a message, or numbers in their ranges.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <string.h>

#include "../text_file.h"
#include "fuzz.h"
#include "lab/reproduce/edl/tasks.h"
#include "lab/reproduce/ada_srsf/training_jobs.h"

static void read_training(char *text)
{
    struct lull_training_job job;
    struct lull_error err = {0};

    if (lull_training_jobs_read_text("job", text, &job, &err) < 0) {
        require(err.text[0] != '\0');
        return;
    }
    require(job.id >= 0 && job.arrival_ms >= 0);
    require(job.workers > 0 && job.iterations > 0);
    require(job.forward_ms > 0 && job.backward_ms > 0);
    require(job.model_mb >= 0.0 && isfinite(job.model_mb));
    require(job.memory_mb >= 0.0 && isfinite(job.memory_mb));
    require(strlen(job.net) < sizeof(job.net));
}

static void read_task(char *text)
{
    struct lull_dvfs_task task;
    struct lull_error err = {0};

    if (lull_dvfs_tasks_read_text("job", text, &task, &err) < 0) {
        require(err.text[0] != '\0');
        return;
    }
    require(task.arrival_s >= 0.0 && task.deadline_s > task.arrival_s);
    require(isfinite(task.deadline_s) && task.scaled_s + task.constant_s > 0.0);
    require(task.core_share >= 0.0 && task.core_share <= 1.0);
}

static void read_table(const uint8_t *data, size_t size)
{
    struct lull_training_job *jobs = NULL;
    struct lull_error err = {0};
    size_t count = 0;

    if (lull_training_jobs_read(text_file(data, size), &jobs, &count, &err) < 0)
        require(err.text[0] != '\0' && jobs == NULL);
    else
        require(count > 0);
    free(jobs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *const text = malloc(size + 1);

    require(text != NULL);
    for (int form = 0; form < 2; form++) {
        memcpy(text, data, size);
        text[size] = '\0';
        (form == 0 ? read_training : read_task)(text);
    }
    free(text);
    read_table(data, size);
    return 0;
}
