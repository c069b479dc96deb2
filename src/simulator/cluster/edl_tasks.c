/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/cluster/edl_tasks.h"

#include "core/stats/random.h"

static double between(struct lull_random *random, double low, double high)
{
    return low + (high - low) * lull_random_uniform(random);
}

static double whole_between(struct lull_random *random, uint64_t low, uint64_t high)
{
    return (double)(low + lull_random_below(random, high - low + 1));
}

size_t lull_edl_tasks_count(double utilisation, bool is_online)
{
    return (size_t)(utilisation * LULL_EDL_TASKS_GPUS) + (is_online ? LULL_EDL_TASKS_AT_ONCE : 0);
}

/* All but when it arrives. */
static void draw_model(struct lull_random *random, struct lull_dvfs_task *task)
{
    const double scale = whole_between(random, 10, 50);
    double power_w;

    task->scaled_s = between(random, 1.66, 7.61) * scale;
    task->constant_s = between(random, 0.1, 0.95) * scale;
    task->core_share = between(random, 0.07, 0.91);
    power_w = whole_between(random, 175, 206);
    task->constant_w = power_w * between(random, 0.2, 0.41);
    task->memory_w = power_w * between(random, 0.1, 0.2);
    task->core_w = power_w - task->constant_w - task->memory_w;
}

void lull_edl_tasks_draw(double utilisation, bool is_online, uint64_t seed,
                         struct lull_dvfs_task *tasks_out)
{
    const size_t count = lull_edl_tasks_count(utilisation, is_online);
    struct lull_random random;

    lull_random_init(&random, seed);
    for (size_t i = 0; i < count; i++) {
        struct lull_dvfs_task *task = &tasks_out[i];
        double share;

        *task = (struct lull_dvfs_task){.id = i};
        draw_model(&random, task);
        share = is_online ? between(&random, 0.15, 0.85) : between(&random, 0.25, 0.75);
        if (is_online && i >= LULL_EDL_TASKS_AT_ONCE)
            task->arrival_s = whole_between(&random, 1, LULL_EDL_TASKS_SLOTS - 1);
        task->deadline_s = task->arrival_s + (task->scaled_s + task->constant_s) / share;
    }
}
