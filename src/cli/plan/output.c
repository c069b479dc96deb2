/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/output.h"

#include <stdio.h>

#include "base/file.h"
#include "cli/plan/picture.h"
#include "trace/plan_file.h"

static int plan_output_write(const void *plan, FILE *file)
{
    return lull_plan_file_write(plan, file);
}

int lull_plan_write(const char *path, const struct lull_plan_task *task,
                    const struct lull_plan_options *options, const struct lull_plan_single *single,
                    struct lull_error *err)
{
    struct lull_plan_waiting_points waiting = options->waiting;
    struct lull_plan_file plan = {
        .parts = task->parts,
        .deadline_ns = single->deadline_ns,
        .period_ns = single->period_ns,
        .time_ns = single->point.time_ns,
        .energy_j = single->point.energy_j,
        .bound_j = single->point.bound_j,
        .switching = options->switching,
        .profile = task->profile,
        .graph = task->graph,
        .blocking_w = task->blocking_w,
        .option = single->option,
        .certificate = single->certificate,
        .waiting_points = waiting.points,
        .waiting_point_count = waiting.count,
        .waits = single->waits.waits,
        .wait_count = single->waits.count,
        .waiting_saved_j = single->waits.saved_j,
    };

    snprintf(plan.title, sizeof(plan.title), "%s", task->title);
    snprintf(plan.planner, sizeof(plan.planner), "%s", "frontier");
    return lull_file_write_with(path, plan_output_write, &plan, err);
}

static void write_perseus_stage(const struct lull_plan_task *task,
                                const struct lull_plan_single *single, uint32_t device, FILE *file)
{
    const struct lull_pipeline_graph *const graph = &task->graph;

    putc('[', file);
    for (uint32_t i = graph->first_on[device]; i < graph->first_on[device + 1]; i++) {
        const uint32_t op = graph->on_device[i];
        const struct lull_pipeline_class *const operations =
            &task->profile.classes[graph->ops[op].class_index];

        fprintf(file, "%s('%s', %u)", i > graph->first_on[device] ? ", " : "",
                lull_pipeline_kind_name(operations->kind),
                operations->points[single->option[op]].sm_mhz);
    }
    fprintf(file, "],\n");
}

struct perseus {
    const struct lull_plan_task *task;
    const struct lull_plan_single *single;
};

static int write_perseus(const void *context, FILE *file)
{
    const struct lull_plan_task *const task = ((const struct perseus *)context)->task;
    const struct lull_plan_single *const single = ((const struct perseus *)context)->single;
    const double waiting_j = task->blocking_sum_w * (double)single->period_ns * 1e-9;

    fprintf(file, "[\n");
    for (uint32_t device = 0; device < task->graph.device_count; device++)
        write_perseus_stage(task, single, device, file);
    fprintf(file,
            "]\n# Iteration 0 cost change: 0.0\n# Iteration 0 total cost: %.6f\n"
            "# Iteration 0 total cost with P2P: %.6f\n",
            single->point.energy_j - waiting_j, single->point.energy_j);
    return 0;
}

int lull_plan_write_perseus(const char *path, const struct lull_plan_task *task,
                            const struct lull_plan_single *single, struct lull_error *err)
{
    const struct perseus perseus = {task, single};

    return lull_file_write_with(path, write_perseus, &perseus, err);
}

int lull_plan_write_picture(const char *path, const struct lull_plan_task *task,
                            const struct lull_plan_options *options,
                            const struct lull_plan_single *single, struct lull_error *err)
{
    const struct lull_plan_point high = lull_plan_all_max(task, options);
    const struct lull_plan_point *const point = &single->point;
    struct lull_plan_panel panels[2] = {{.option = task->highest},
                                        {.option = single->option, .waits = &single->waits}};

    snprintf(panels[0].caption, sizeof(panels[0].caption),
             "All at the highest clock: %.3f s, %.0f J", (double)high.time_ns * 1e-9,
             high.energy_j);
    snprintf(panels[1].caption, sizeof(panels[1].caption),
             "Plan: %.3f s (%+.2f %%), %.0f J (%+.2f %%)", (double)point->time_ns * 1e-9,
             100.0 * ((double)point->time_ns / (double)high.time_ns - 1.0), point->energy_j,
             100.0 * (point->energy_j / high.energy_j - 1.0));
    return lull_plan_picture_write(path, task->title, &task->problem, &options->waiting, panels, 2,
                                   err);
}
