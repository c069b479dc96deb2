/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/run/run_comparison.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

int lull_run_comparison_init(struct lull_run_comparison *comparison, uint32_t pairs,
                             struct lull_error *err)
{
    *comparison = (struct lull_run_comparison){.pairs_wanted = pairs};
    comparison->runs = calloc(2 * (size_t)pairs, sizeof(*comparison->runs));
    if (comparison->runs == NULL)
        return lull_error_set(err, -ENOMEM, "no memory to compare %u pairs of runs", pairs);
    return 0;
}

void lull_run_comparison_fini(struct lull_run_comparison *comparison)
{
    free(comparison->runs);
    *comparison = (struct lull_run_comparison){0};
}

void lull_run_comparison_settled(const struct lull_control *control, bool is_managed,
                                 struct lull_run_statistics *settled_out)
{
    if (is_managed && lull_control_has_settled(control)) {
        lull_run_statistics_compute(control, LULL_RUN_PART_SETTLED, settled_out);
        if (lull_run_statistics_energy_per_iteration_j(settled_out) > 0.0)
            return;
    }
    lull_run_statistics_compute(control, LULL_RUN_PART_ALL, settled_out);
}

/* Records what slowed a GPU other than Lull. */
static void take_conditions(struct lull_compared_run *run, const struct lull_control *control,
                            uint32_t gpu)
{
    const struct lull_run_log *const log = lull_control_log(control, gpu);

    run->limits_mw[gpu] = lull_run_log_limits(log).first_mw;
    if (lull_control_gpu(control, gpu)->limit_changes > 0)
        run->disturbance = "another program changed a power limit";
    else if (run->disturbance == NULL && lull_run_log_is_held(log, LULL_CLOCK_REASON_THROTTLED))
        run->disturbance = "heat or the power supply held clocks down";
}

void lull_run_comparison_add(struct lull_run_comparison *comparison,
                             const struct lull_control *control, double wall_s, int status)
{
    struct lull_compared_run *const run = &comparison->runs[comparison->run_count];

    assert(comparison->run_count < 2 * comparison->pairs_wanted);
    run->is_managed = lull_paired_runs_is_other(comparison->run_count++);
    run->status = status;
    run->wall_s = wall_s;
    if (control == NULL)
        return;
    for (uint32_t gpu = 0; gpu < lull_control_gpu_count(control); gpu++)
        take_conditions(run, control, gpu);
    lull_run_statistics_compute(control, LULL_RUN_PART_WHOLE, &run->whole);
    lull_run_comparison_settled(control, run->is_managed, &run->settled);
}

const struct lull_compared_run *
lull_run_comparison_last(const struct lull_run_comparison *comparison, bool is_managed)
{
    for (uint32_t i = comparison->run_count; i-- > 0;)
        if (comparison->runs[i].is_managed == is_managed && comparison->runs[i].status == 0)
            return &comparison->runs[i];
    return NULL;
}

/* Error of the log ratio of two energies that every pair may share: because of the sensors' errors
 * at different levels of power, and of edges synchronous with the work. */
static double shared_log(const struct lull_run_statistics *reference,
                         const struct lull_run_statistics *other)
{
    struct lull_energy_saving saving;

    if (!lull_run_statistics_saving(reference, other, &saving))
        return 0.0;
    return lull_energy_saving_shared_log(&saving) +
           reference->measured.bias_j / reference->energy_j +
           other->measured.bias_j / other->energy_j;
}

/* Either of the two runs of a pair may have been the first. */
static void run_compare_add_pair(const struct lull_compared_run *pair,
                                 struct lull_paired_runs *times, struct lull_paired_runs *energies)
{
    const struct lull_compared_run *const managed = pair[0].is_managed ? &pair[0] : &pair[1];
    const struct lull_compared_run *const unmanaged = pair[0].is_managed ? &pair[1] : &pair[0];

    lull_paired_runs_add(times, unmanaged->whole.iteration_ms, managed->whole.iteration_ms, 0.0);
    lull_paired_runs_add(energies, lull_run_statistics_energy_per_iteration_j(&unmanaged->settled),
                         lull_run_statistics_energy_per_iteration_j(&managed->settled),
                         shared_log(&unmanaged->settled, &managed->settled));
}

/* Returns why a pair carries no information about Lull's effect; NULL: it does carry some. */
static const char *find_disturbance(const struct lull_run_comparison *comparison,
                                    const struct lull_compared_run *pair)
{
    for (uint32_t i = 0; i < 2; i++)
        if (pair[i].disturbance != NULL)
            return pair[i].disturbance;
    for (uint32_t gpu = 0; !comparison->sets_limits && gpu < LULL_CONTROLLER_MAX_GPUS; gpu++)
        if (pair[0].limits_mw[gpu] != 0 && pair[1].limits_mw[gpu] != 0 &&
            pair[0].limits_mw[gpu] != pair[1].limits_mw[gpu])
            return "another program changed a power limit between its runs";
    return NULL;
}

void lull_run_comparison_difference(const struct lull_run_comparison *comparison, double confidence,
                                    struct lull_run_difference *difference_out)
{
    struct lull_paired_change *const saving = &difference_out->saving;
    struct lull_paired_runs energies = {0};
    struct lull_paired_runs times = {0};
    struct lull_paired_change change;

    *difference_out = (struct lull_run_difference){0};
    for (uint32_t i = 0; i + 1 < comparison->run_count; i += 2) {
        const struct lull_compared_run *const pair = &comparison->runs[i];
        const char *const disturbance = find_disturbance(comparison, pair);

        difference_out->set_aside += disturbance != NULL;
        if (difference_out->disturbance == NULL)
            difference_out->disturbance = disturbance;
        if (pair[0].status != 0 || pair[1].status != 0 || disturbance != NULL)
            continue;
        difference_out->pairs_done++;
        run_compare_add_pair(pair, &times, &energies);
    }
    lull_paired_runs_change(&times, confidence, &difference_out->slowdown);
    lull_paired_runs_change(&energies, 0.5 * (1.0 + confidence), &change);
    *saving = (struct lull_paired_change){
        .pairs = change.pairs,
        .ratio = -change.ratio,
        .lower_ratio = -change.upper_ratio,
        .upper_ratio = -change.lower_ratio,
    };
}

const char *lull_run_difference_no_bound(const struct lull_run_difference *difference)
{
    if (difference->slowdown.pairs >= 2)
        return NULL;
    if (difference->pairs_done == 0 && difference->disturbance != NULL)
        return difference->disturbance;
    if (difference->pairs_done == 0)
        return "no pair of runs is complete";
    if (difference->slowdown.pairs < difference->pairs_done)
        return "iterations were found in fewer than two pairs of runs";
    return "only one run of each kind; use --compare-pairs 3";
}
