/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/model/plan.h"

#include <errno.h>
#include <stdlib.h>

double lull_pipeline_blocking_sum_w(const struct lull_pipeline_problem *problem)
{
    double sum_w = 0.0;

    for (uint32_t device = 0; device < problem->graph->device_count; device++)
        sum_w += problem->blocking_w[device];
    return sum_w;
}

void lull_pipeline_plan_highest(const struct lull_pipeline_problem *problem, uint32_t *point_out)
{
    for (size_t op = 0; op < problem->graph->op_count; op++)
        point_out[op] = LULL_PIPELINE_HIGHEST;
}

/* Effective energies leave blocking power out, so it is added once for all devices and the whole
 * iteration. */
struct lull_pipeline_cost lull_pipeline_plan_cost(const struct lull_pipeline_problem *problem,
                                                  const uint32_t *point, int64_t period_ns)
{
    const struct lull_pipeline_graph *graph = problem->graph;
    int64_t *duration_ns = malloc(graph->op_count * sizeof(*duration_ns));
    struct lull_pipeline_cost cost = {.time_ns = -ENOMEM};
    double energy_nj = 0.0;

    if (duration_ns == NULL)
        return cost;
    for (size_t op = 0; op < graph->op_count; op++) {
        const struct lull_pipeline_point *runs_at = lull_pipeline_point_of(problem, point, op);

        duration_ns[op] = runs_at->time_ns;
        energy_nj +=
            lull_pipeline_effective_nj(runs_at, problem->blocking_w[graph->ops[op].device]);
    }
    cost.time_ns = lull_pipeline_earliest(graph, duration_ns, NULL);
    free(duration_ns);
    if (cost.time_ns < 0)
        return cost;
    if (period_ns < cost.time_ns)
        period_ns = cost.time_ns;
    cost.energy_j = (energy_nj + lull_pipeline_blocking_sum_w(problem) * (double)period_ns) * 1e-9;
    return cost;
}

/* The stage of a device's first operation that is not fixed. */
static uint32_t first_stage(const struct lull_pipeline_problem *problem, uint32_t device)
{
    const struct lull_pipeline_graph *graph = problem->graph;

    for (uint32_t i = graph->first_on[device]; i < graph->first_on[device + 1]; i++) {
        const struct lull_pipeline_class *class =
            lull_pipeline_class_of(problem, graph->on_device[i]);

        if (class->kind != LULL_PIPELINE_FIXED)
            return class->stage;
    }
    return UINT32_MAX;
}

uint32_t lull_pipeline_stages(const struct lull_pipeline_problem *problem)
{
    uint32_t stages = 1;

    while (stages < problem->graph->device_count &&
           first_stage(problem, stages) != first_stage(problem, 0))
        stages++;
    return stages;
}
