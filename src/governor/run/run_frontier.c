/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/run/run_frontier.h"

#include <math.h>
#include <stdlib.h>

#include "base/minmax.h"
#include "core/energy/gain.h"
#include "governor/run/run_statistics.h"

static bool run_frontier_is_used(const struct lull_control *control, uint32_t gpu)
{
    return lull_control_gpu(control, gpu)->process >= 0;
}

static uint32_t used_gpus(const struct lull_control *control)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < lull_control_gpu_count(control); i++)
        count += run_frontier_is_used(control, i);
    return count;
}

/* Stands for all of the job's GPUs. */
enum { ALL_GPUS = -1 };

/* Energy of one of the job's GPUs, or of all, up to a time, each counted from its first reading, J;
 * NAN: not known. */
static double energy_until_j(const struct lull_control *control, int32_t gpu, int64_t time_ns)
{
    double sum_j = 0.0;

    for (uint32_t i = 0; i < lull_control_gpu_count(control); i++) {
        double energy_j;

        if (!run_frontier_is_used(control, i) || (gpu != ALL_GPUS && (uint32_t)gpu != i))
            continue;
        if (!lull_run_log_energy_j(lull_control_log(control, i), time_ns, &energy_j))
            return NAN;
        sum_j += energy_j;
    }
    return sum_j;
}

/* Takes the boundaries that have not been taken and lie before until_ns. Energy is looked up only
 * where an iteration that counts begins or ends. */
static void take_boundaries(const struct lull_control *control, int32_t gpu, int64_t until_ns,
                            struct lull_run_trials *trials)
{
    const struct lull_boundaries *boundaries = lull_run_statistics_boundaries(control);

    if (trials->from != boundaries)
        *trials = (struct lull_run_trials){.from = boundaries};
    for (; boundaries != NULL && trials->taken < boundaries->count; trials->taken++) {
        const struct lull_boundary *boundary = &boundaries->items[trials->taken];
        const struct lull_job_frontier_mark mark = {
            .time_ns = boundary->time_ns,
            .energy_j = boundary->visit.is_measured || trials->was_measured
                            ? energy_until_j(control, gpu, boundary->time_ns)
                            : NAN,
            .is_first = boundary->first,
            .visit = boundary->visit,
        };

        if (boundary->time_ns > until_ns)
            return;
        lull_job_frontier_take(&trials->pairs, &mark);
        trials->was_measured = boundary->visit.is_measured;
    }
}

static const struct lull_job_frontier_tried *
run_frontier_find(const struct lull_job_frontier_tried *tried, uint32_t count, uint32_t point,
                  uint64_t others)
{
    for (uint32_t i = 0; i < count; i++)
        if (tried[i].point == point && tried[i].others == others)
            return &tried[i];
    return NULL;
}

const struct lull_job_frontier_tried *
lull_run_frontier_find(const struct lull_run_frontier *frontier, uint32_t point, uint64_t others)
{
    return run_frontier_find(frontier->tried, frontier->tried_count, point, others);
}

/* ---- a run that has ended ---------------------------------------------------------------- */

static uint32_t kept_point(const struct lull_control *control)
{
    const struct lull_controller *controller = lull_control_controller(control);
    const struct lull_target *steady = lull_controller_look(controller).steady;
    uint32_t kept = 0;

    for (uint32_t i = 0; steady != NULL && i < lull_control_gpu_count(control); i++)
        if (run_frontier_is_used(control, i))
            kept = lull_max_u32(kept, lull_controller_kept_point(controller, i, steady));
    return kept;
}

bool lull_run_frontier_compute(const struct lull_control *control,
                               struct lull_run_frontier *frontier_out)
{
    const uint32_t gpus = used_gpus(control);
    struct lull_controller_view now;
    const struct lull_device_info *info;
    struct lull_run_trials *trials;

    if (gpus == 0)
        return false;
    now = lull_controller_look(lull_control_controller(control));
    info = lull_control_info(control, now.lead);
    trials = calloc(1, sizeof(*trials));
    if (info->sm_clock_count == 0 || trials == NULL) {
        free(trials);
        return false;
    }
    take_boundaries(control, ALL_GPUS, INT64_MAX, trials);
    frontier_out->kept_others = now.kept_others;
    frontier_out->kept_point = kept_point(control);
    frontier_out->is_proven = now.is_proven;
    lull_job_frontier_answer(&trials->pairs, frontier_out->kept_others, info->sm_clocks_mhz,
                             info->sm_clock_count, gpus, frontier_out->points);
    frontier_out->tried_count = lull_job_frontier_list(&trials->pairs, gpus, frontier_out->tried);
    free(trials);
    return true;
}

uint32_t lull_run_frontier_of_gpu(const struct lull_control *control, uint32_t gpu,
                                  struct lull_job_frontier_tried *tried_out)
{
    struct lull_run_trials *trials = calloc(1, sizeof(*trials));
    uint32_t count;

    if (trials == NULL)
        return 0;
    take_boundaries(control, (int32_t)gpu, INT64_MAX, trials);
    count = lull_job_frontier_list(&trials->pairs, 1, tried_out);
    free(trials);
    return count;
}

/* ---- a run that continues ------------------------------------------------------------------ */

void lull_run_trials_take(struct lull_run_trials *trials, const struct lull_control *control,
                          int64_t until_ns)
{
    take_boundaries(control, ALL_GPUS, until_ns, trials);
}

void lull_run_trials_measure_profile(const struct lull_run_trials *trials,
                                     struct lull_control *control)
{
    struct lull_job_frontier_tried tried[LULL_JOB_FRONTIER_SETTINGS];
    const uint64_t others = lull_controller_look(lull_control_controller(control)).profile_others;
    const uint32_t gpus = used_gpus(control);
    const struct lull_job_frontier_tried *alone;

    if (gpus == 0 || others == 0)
        return;
    alone =
        run_frontier_find(tried, lull_job_frontier_list(&trials->pairs, gpus, tried), 0, others);
    if (alone != NULL)
        lull_controller_take_profile_saving(lull_control_controlled(control),
                                            &(struct lull_profile_saving){alone->saving_ratio,
                                                                          alone->low_ratio,
                                                                          alone->high_ratio});
}

double lull_run_trials_saving(const struct lull_run_trials *trials,
                              const struct lull_control *control)
{
    struct lull_job_frontier_tried tried[LULL_JOB_FRONTIER_SETTINGS];
    const uint64_t others = lull_controller_look(lull_control_controller(control)).kept_others;
    const uint32_t point = kept_point(control);
    const uint32_t gpus = used_gpus(control);
    const struct lull_job_frontier_tried *kept;

    if (gpus == 0 || (point == 0 && others == 0))
        return NAN;
    kept = run_frontier_find(tried, lull_job_frontier_list(&trials->pairs, gpus, tried), point,
                             others);
    if (kept == NULL)
        return NAN;
    switch (lull_gain_judge_saving(kept->saving_ratio, kept->low_ratio, kept->high_ratio)) {
    case LULL_GAIN_SAVING_PROVEN:
    case LULL_GAIN_SAVING_NEGATIVE:
        return kept->saving_ratio;
    default:
        return NAN;
    }
}
