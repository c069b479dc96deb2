/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/reproduce/edl/dvfs_task.h"

#include <math.h>

static const double voltage_step = 0.05;

const struct lull_dvfs_range lull_dvfs_assumed = {0.5, 16, 0.5, 1.2};
const struct lull_dvfs_range lull_dvfs_measured = {0.8, 10, 0.8, 1.1};

static double core_at(double voltage)
{
    return sqrt((voltage - 0.5) / 2.0) + 0.5;
}

static struct lull_dvfs_point dvfs_task_point_at(const struct lull_dvfs_task *task, double voltage,
                                                 double core, double memory)
{
    return (struct lull_dvfs_point){
        .voltage_ratio = voltage,
        .core_ratio = core,
        .memory_ratio = memory,
        .time_s = task->scaled_s * (task->core_share / core + (1.0 - task->core_share) / memory) +
                  task->constant_s,
        .power_w =
            task->constant_w + task->memory_w * memory + task->core_w * voltage * voltage * core,
    };
}

struct lull_dvfs_point lull_dvfs_base(const struct lull_dvfs_task *task)
{
    /* The formula would round, and the time and power of the base point are the task's own. */
    return (struct lull_dvfs_point){
        .voltage_ratio = 1.0,
        .core_ratio = 1.0,
        .memory_ratio = 1.0,
        .time_s = task->scaled_s + task->constant_s,
        .power_w = task->constant_w + task->memory_w + task->core_w,
    };
}

struct lull_dvfs_point lull_dvfs_fastest(const struct lull_dvfs_task *task,
                                         const struct lull_dvfs_range *range)
{
    const double voltage = range->voltage_min + voltage_step * (range->voltages - 1);

    return dvfs_task_point_at(task, voltage, core_at(voltage), range->memory_max);
}

/*
 * The memory clock of least energy at a voltage, where d(tP)/dfm = 0. False: the memory clock
 * changes neither time nor power.
 */
static bool best_memory(const struct lull_dvfs_task *task, const struct lull_dvfs_range *range,
                        double voltage, double core, double *memory_out)
{
    const double above = (task->constant_w + task->core_w * voltage * voltage * core) *
                         task->scaled_s * (1.0 - task->core_share);
    const double below =
        task->memory_w * (task->constant_s + task->scaled_s * task->core_share / core);

    if (below == 0.0 && above == 0.0)
        return false;
    *memory_out = below == 0.0
                      ? range->memory_max
                      : fmin(fmax(sqrt(above / below), range->memory_min), range->memory_max);
    return true;
}

bool lull_dvfs_solve_published(const struct lull_dvfs_task *task,
                               const struct lull_dvfs_range *range, double limit_s,
                               struct lull_dvfs_point *point_out)
{
    const struct lull_dvfs_point base = lull_dvfs_base(task);
    double min_j = lull_dvfs_energy_j(&base);
    bool is_found = false;

    for (uint32_t i = 0; i < range->voltages; i++) {
        const double voltage = range->voltage_min + voltage_step * i;
        const double core = core_at(voltage);
        struct lull_dvfs_point point;
        double memory;

        if (!best_memory(task, range, voltage, core, &memory))
            continue;
        point = dvfs_task_point_at(task, voltage, core, memory);
        if (point.time_s > limit_s || !(lull_dvfs_energy_j(&point) < min_j))
            continue;
        min_j = lull_dvfs_energy_j(&point);
        *point_out = point;
        is_found = true;
    }
    return is_found;
}

struct lull_dvfs_point lull_dvfs_solve(const struct lull_dvfs_task *task,
                                       const struct lull_dvfs_range *range)
{
    struct lull_dvfs_point point = lull_dvfs_base(task);

    lull_dvfs_solve_published(task, range, INFINITY, &point);
    return point;
}

/* The point of least energy at this voltage within the limit. */
static bool point_within(const struct lull_dvfs_task *task, const struct lull_dvfs_range *range,
                         double voltage, double limit_s, struct lull_dvfs_point *point_out)
{
    const double rounding_s = 1e-9;
    const double core = core_at(voltage);
    const double by_memory_s = task->scaled_s * (1.0 - task->core_share);
    const double left_s = limit_s - task->constant_s - task->scaled_s * task->core_share / core;
    double memory;

    if (!best_memory(task, range, voltage, core, &memory))
        memory = 1.0;
    if (left_s < 0.0 || (left_s == 0.0 && by_memory_s > 0.0))
        return false;
    if (by_memory_s > 0.0)
        memory = fmax(memory, by_memory_s / left_s);
    if (memory > range->memory_max)
        return false;
    *point_out = dvfs_task_point_at(task, voltage, core, memory);
    if (point_out->time_s > limit_s + rounding_s)
        return false;
    point_out->time_s = fmin(point_out->time_s, limit_s);
    return true;
}

bool lull_dvfs_solve_within(const struct lull_dvfs_task *task, const struct lull_dvfs_range *range,
                            double limit_s, struct lull_dvfs_point *point_out)
{
    struct lull_dvfs_point best = lull_dvfs_base(task);
    bool is_found = best.time_s <= limit_s;

    for (uint32_t i = 0; i < range->voltages; i++) {
        struct lull_dvfs_point point;

        if (!point_within(task, range, range->voltage_min + voltage_step * i, limit_s, &point))
            continue;
        if (is_found && !(lull_dvfs_energy_j(&point) < lull_dvfs_energy_j(&best)))
            continue;
        best = point;
        is_found = true;
    }
    if (is_found)
        *point_out = best;
    return is_found;
}
