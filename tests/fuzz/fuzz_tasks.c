/*
 * Tables of tasks: refused with a message, or tasks that meet the conditions of dvfs_task.h.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "../text_file.h"
#include "fuzz.h"
#include "lab/reproduce/edl/tasks.h"

static void check(const struct lull_dvfs_task *task)
{
    require(task->arrival_s >= 0.0 && task->deadline_s > task->arrival_s);
    require(isfinite(task->deadline_s));
    require(task->scaled_s >= 0.0 && task->constant_s >= 0.0);
    require(task->scaled_s + task->constant_s > 0.0);
    require(task->core_share >= 0.0 && task->core_share <= 1.0);
    require(task->constant_w >= 0.0 && task->memory_w >= 0.0 && task->core_w >= 0.0);
    require(task->constant_w + task->memory_w + task->core_w > 0.0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lull_dvfs_task *tasks = NULL;
    struct lull_error err = {0};
    size_t count = 0;

    if (lull_dvfs_tasks_read(text_file(data, size), &tasks, &count, &err) < 0)
        require(err.text[0] != '\0' && tasks == NULL && count == 0);
    else
        require(count > 0);
    for (size_t i = 0; i < count; i++)
        check(&tasks[i]);
    free(tasks);
    return 0;
}
