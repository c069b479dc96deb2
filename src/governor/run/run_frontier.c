/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/run/run_frontier.h"

#include <math.h>
#include <stdlib.h>

#include "governor/run/run_statistics.h"

static bool is_used(const struct lull_control *control, uint32_t gpu)
{
    return lull_control_gpu(control, gpu)->process >= 0;
}

static uint32_t used_gpus(const struct lull_control *control)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < lull_control_gpu_count(control); i++)
        count += is_used(control, i);
    return count;
}

/* Energy of the job's GPUs up to a time, each counted from its first reading, J; NAN: not known. */
static double energy_until_j(const struct lull_control *control, int64_t time_ns)
{
    double sum_j = 0.0;

    for (uint32_t i = 0; i < lull_control_gpu_count(control); i++) {
        double energy_j;

        if (!is_used(control, i))
            continue;
        if (!lull_run_log_energy_j(lull_control_log(control, i), time_ns, &energy_j))
            return NAN;
        sum_j += energy_j;
    }
    return sum_j;
}

/* Energy is looked up only where an iteration that counts begins or ends. */
static void take_boundaries(const struct lull_control *control, struct lull_job_frontier *frontier)
{
    const struct lull_boundaries *boundaries = lull_run_statistics_boundaries(control);
    bool was_measured = false;

    for (size_t i = 0; i < boundaries->count; i++) {
        const struct lull_boundary *boundary = &boundaries->items[i];
        const struct lull_job_frontier_mark mark = {
            .time_ns = boundary->time_ns,
            .energy_j = boundary->visit.is_measured || was_measured
                            ? energy_until_j(control, boundary->time_ns)
                            : NAN,
            .is_first = boundary->first,
            .visit = boundary->visit,
        };

        lull_job_frontier_take(frontier, &mark);
        was_measured = boundary->visit.is_measured;
    }
}

bool lull_run_frontier_compute(const struct lull_control *control,
                               struct lull_job_frontier_point *points_out)
{
    const uint32_t gpus = used_gpus(control);
    const struct lull_device_info *info;
    struct lull_job_frontier *frontier;

    if (gpus == 0)
        return false;
    info = lull_control_info(control, 0);
    frontier = malloc(sizeof(*frontier));
    if (info->sm_clock_count == 0 || frontier == NULL) {
        free(frontier);
        return false;
    }
    lull_job_frontier_init(frontier);
    take_boundaries(control, frontier);
    lull_job_frontier_answer(frontier,
                             lull_controller_kept_others(lull_control_controller(control)),
                             info->sm_clocks_mhz, info->sm_clock_count, gpus, points_out);
    free(frontier);
    return true;
}
