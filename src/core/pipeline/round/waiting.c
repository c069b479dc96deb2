/*
 * Which gaps of a timeline are worth a lower clock. SPDX-License-Identifier: Apache-2.0
 */
#include "core/pipeline/round/waiting.h"

/* What a point saves in a gap of a device; not above 0 where it does not pay or fit. */
static double saving_j(const struct lull_pipeline_waiting_point *point, double blocking_w,
                       int64_t length_ns)
{
    int64_t below_ns = length_ns - point->down_ns - point->up_ns;

    if (below_ns <= 0)
        return 0.0;
    return (blocking_w - point->power_w) * (double)below_ns * 1e-9 - point->switch_j;
}

/* The best point for the gap; false: none pays. */
static bool choose(const struct lull_pipeline_waiting_point *points, size_t point_count,
                   double blocking_w, struct lull_pipeline_wait *wait)
{
    wait->saved_j = 0.0;
    for (size_t i = 0; i < point_count; i++) {
        double saved_j = saving_j(&points[i], blocking_w, wait->end_ns - wait->begin_ns);

        if (saved_j > wait->saved_j) {
            wait->saved_j = saved_j;
            wait->point = (uint32_t)i;
            wait->wake_ns = wait->end_ns - points[i].up_ns;
        }
    }
    return wait->saved_j > 0.0;
}

size_t lull_pipeline_waiting(const struct lull_pipeline_problem *problem,
                             const struct lull_pipeline_waiting_point *points, size_t point_count,
                             const int64_t *begin_ns, const int64_t *end_ns, int64_t period_ns,
                             struct lull_pipeline_wait *waits_out, double *saved_j_out)
{
    const struct lull_pipeline_graph *graph = problem->graph;
    double saved_j = 0.0;
    size_t count = 0;

    for (uint32_t device = 0; device < graph->device_count; device++) {
        int64_t free_ns = 0;

        for (uint32_t k = graph->first_on[device]; k <= graph->first_on[device + 1]; k++) {
            bool last = k == graph->first_on[device + 1];
            uint32_t op = last ? UINT32_MAX : graph->on_device[k];
            struct lull_pipeline_wait wait = {.device = device,
                                              .before_op = op,
                                              .begin_ns = free_ns,
                                              .end_ns = last ? period_ns : begin_ns[op]};

            if (choose(points, point_count, problem->blocking_w[device], &wait)) {
                waits_out[count++] = wait;
                saved_j += wait.saved_j;
            }
            if (!last)
                free_ns = end_ns[op];
        }
    }
    *saved_j_out = saved_j;
    return count;
}
