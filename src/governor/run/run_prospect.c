/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/run/run_prospect.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/minmax.h"
#include "core/stats/quantile.h"
#include "governor/run/run_statistics.h"

enum {
    MIN_ITERATIONS = 3,  /* fewer show neither their length nor their scatter */
    SPAN_ITERATIONS = 2, /* gaps repeat after one iteration or two */
};

/* The sums over the GPUs of the job, of SPAN_ITERATIONS iterations. */
struct prospect_total {
    struct lull_prediction_budget budget;
    double energy_j;
    double span_ns;
    double compute_ns;
};

/* ---- the right --------------------------------------------------------------------------- */

static const char *prospect_name_right(int code, bool no_daemon)
{
    if (code == -EBUSY)
        return "the GPUs, which another program manages";
    if (no_daemon)
        return geteuid() != 0 ? "root" : "clock control";
    return code == -EACCES ? "access to lulld" : "lulld";
}

/* Returns the right without which nothing could be managed; NULL: none is missing. */
static const char *prospect_find_right(const struct lull_run_pass *pass)
{
    const struct lull_control *const control = pass->control;
    const char *right = NULL;

    if (pass->is_denied)
        return prospect_name_right(pass->run->denial.code, pass->run->options->no_daemon);
    for (uint32_t gpu = 0; gpu < lull_control_gpu_count(control); gpu++) {
        const struct lull_control_gpu *const state = lull_control_gpu(control, gpu);

        if (state->process < 0)
            continue;
        if (state->refusal.code == -EACCES)
            right = "permission in lulld's policy";
        else if (lull_driver_watch_denies(&state->driver) && state->driver.denial == -EPERM)
            right = "root on the host";
        else
            return NULL;
    }
    return right;
}

/* ---- one GPU ----------------------------------------------------------------------------- */

/* Returns why nothing can be estimated for a GPU; NULL: it can. */
static const char *prospect_check_gpu(const struct lull_control *control, uint32_t gpu)
{
    const struct lull_gap_map *const gaps = lull_control_gaps(control, gpu);
    const struct lull_run_log *const log = lull_control_log(control, gpu);
    const uint32_t default_mw = lull_control_info(control, gpu)->power_limit_default_mw;

    if (lull_control_gpu(control, gpu)->shared)
        return "several ranks share a GPU";
    if (gaps == NULL)
        return "the job communicates on the CPU, which does not show when its GPUs compute";
    if (lull_gap_map_is_blind(gaps))
        return "no compute kernels were recorded, so it is unknown when the GPUs wait; lull doctor "
               "shows whether CUPTI can record them";
    if (lull_gap_map_phase(gaps) == LULL_GAP_MAP_SEARCHING)
        return "no repeating iteration was found; use a longer run";
    if (lull_gap_map_phase(gaps) == LULL_GAP_MAP_RECORDING)
        return "the run ended before its compute kernels were recorded; use a longer run";
    if (lull_run_log_is_held(log, LULL_CLOCK_REASON_THROTTLED))
        return "heat or the power supply held the clocks down";
    if (default_mw != 0 && lull_run_log_limits(log).last_mw < default_mw)
        return "a power limit below the default applied, whose clock is not known";
    return NULL;
}

/* Returns the ranks of the job, as far as communicators show them. */
static int64_t world_size_of(const struct lull_communicators *communicators)
{
    uint32_t ranks = 0;

    for (uint32_t i = 0; i < communicators->count; i++)
        ranks = lull_max_u32(ranks, communicators->items[i].what.ranks);
    return ranks;
}

/* Fills in the gaps of iterations of this length, evenly spread, and their exposure. */
static void prospect_fill(const struct lull_gap_map *map, double iteration_ms,
                          struct lull_gap gaps_out[SPAN_ITERATIONS * LULL_GAP_MAP_MAX_GAPS],
                          struct lull_analysis *analysis_out)
{
    uint32_t in_pass;
    const struct lull_mapped_gap *const mapped = lull_gap_map_gaps(map, &in_pass);
    const uint32_t count = SPAN_ITERATIONS / lull_max_u32(lull_gap_map_fold(map), 1) * in_pass;
    struct lull_exposure *const exposure = &analysis_out->exposure;
    double compute_ms = SPAN_ITERATIONS * iteration_ms;
    int64_t now_ns = 0;

    exposure->span_ns = lull_ns_from_ms(compute_ms);
    for (uint32_t i = 0; i < count; i++)
        compute_ms -= mapped[i % in_pass].length_ms;
    if (compute_ms < 0.0)
        compute_ms = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        const struct lull_mapped_gap *const one = &mapped[i % in_pass];

        now_ns += lull_ns_from_ms(compute_ms / count);
        gaps_out[i].begin_ns = now_ns;
        now_ns += lull_ns_from_ms(one->length_ms);
        gaps_out[i].end_ns = now_ns;
        gaps_out[i].communication_ns = lull_ns_from_ms(one->exposed_ms);
        exposure->exposed_ns += gaps_out[i].communication_ns;
    }
    exposure->compute_ns = lull_ns_from_ms(compute_ms);
    exposure->communication_ns = exposure->exposed_ns;
    exposure->idle_ns = exposure->span_ns - exposure->compute_ns - exposure->exposed_ns;
    analysis_out->gaps = gaps_out;
    analysis_out->gap_count = count;
    analysis_out->iteration_ms = iteration_ms;
    analysis_out->communication_kernel_count = 1;
}

/* Returns the iterations of the log as steps, which the caller frees; NULL: no memory, or none. */
static struct lull_trace_step *steps_of(const struct lull_boundaries *boundaries, size_t *count_out)
{
    struct lull_trace_step *const steps = calloc(boundaries->count + 1, sizeof(*steps));

    *count_out = 0;
    for (size_t i = boundaries->warmup; steps != NULL && i + 1 < boundaries->count; i++) {
        if (boundaries->items[i + 1].first)
            continue;
        steps[*count_out].begin_ns = boundaries->items[i].time_ns;
        steps[(*count_out)++].end_ns = boundaries->items[i + 1].time_ns;
    }
    return steps;
}

/* Returns the typical length of a step, ms. A pause of the host does not change it. NAN: no step,
 * or no memory. */
static double steps_median_ms(const struct lull_trace_step *steps, size_t count)
{
    double *const lengths_ms = calloc(count + 1, sizeof(*lengths_ms));
    double median_ms = NAN;

    for (size_t i = 0; lengths_ms != NULL && i < count; i++)
        lengths_ms[i] = lull_ms_from_ns(steps[i].end_ns - steps[i].begin_ns);
    if (lengths_ms != NULL && count > 0) {
        lull_quantile_sort(lengths_ms, count);
        median_ms = lull_quantile_of_sorted(lengths_ms, count, 0.5);
    }
    free(lengths_ms);
    return median_ms;
}

static int prospect_add_gpu(const struct lull_run_pass *pass, uint32_t gpu,
                            struct prospect_total *total, struct lull_prediction *assumed_out)
{
    const struct lull_control *const control = pass->control;
    const struct lull_prediction_setup setup = {
        .down_ms = -1.0,
        .up_ms = -1.0,
        .tolerance_ratio = pass->run->options->control.tolerance_ratio,
    };
    struct lull_gap gaps[SPAN_ITERATIONS * LULL_GAP_MAP_MAX_GAPS];
    struct lull_analysis analysis = {0};
    struct lull_trace trace = {
        .world_size = world_size_of(&lull_control_gpu(control, gpu)->communicators),
    };
    double iteration_ms;
    int result = -ENOMEM;

    snprintf(trace.gpu, sizeof(trace.gpu), "%.63s", lull_control_info(control, gpu)->name);
    trace.steps = steps_of(&lull_control_log(control, gpu)->boundaries, &trace.step_count);
    iteration_ms = steps_median_ms(trace.steps, trace.step_count);
    if (isfinite(iteration_ms)) {
        prospect_fill(lull_control_gaps(control, gpu), iteration_ms, gaps, &analysis);
        result = lull_predict(&setup, &trace, &analysis, assumed_out, NULL);
    }
    free(trace.steps);
    if (result < 0)
        return result;
    lull_prediction_add(&assumed_out->budgets[LULL_PREDICTION_TOLERANCE], &total->budget);
    total->energy_j += assumed_out->energy_j;
    total->span_ns += (double)analysis.exposure.span_ns;
    total->compute_ns += (double)analysis.exposure.compute_ns;
    return 0;
}

/* ---- the job ----------------------------------------------------------------------------- */

static const char *prospect_estimate(const struct lull_run_pass *pass,
                                     struct lull_run_prospect *prospect)
{
    const struct lull_control *const control = pass->control;
    struct prospect_total total = {0};
    struct lull_run_statistics all;

    lull_run_statistics_compute(control, LULL_RUN_PART_ALL, &all);
    if (all.iterations < MIN_ITERATIONS)
        return "fewer than three iterations were measured; use a longer run";
    prospect->energy_j = lull_run_statistics_energy_per_iteration_j(&all);
    if (!all.has_energy || !(prospect->energy_j > 0.0))
        return "the energy of an iteration is not known";
    for (uint32_t gpu = lull_control_gpu_count(control); gpu-- > 0;) {
        const char *reason;

        if (lull_control_gpu(control, gpu)->process < 0)
            continue;
        reason = prospect_check_gpu(control, gpu);
        if (reason != NULL)
            return reason;
        if (prospect_add_gpu(pass, gpu, &total, &prospect->assumed) < 0)
            return "its iterations are not known";
    }
    if (!(total.span_ns > 0.0))
        return "no rank was detected on a GPU";
    prospect->range = lull_prediction_range_of(&total.budget, total.energy_j);
    prospect->model_j = total.energy_j / SPAN_ITERATIONS;
    prospect->compute_ratio = total.compute_ns / total.span_ns;
    return NULL;
}

bool lull_run_prospect_compute(const struct lull_run_pass *pass,
                               struct lull_run_prospect *prospect_out)
{
    *prospect_out = (struct lull_run_prospect){
        .tolerance_ratio = pass->run->options->control.tolerance_ratio,
    };
    if (pass->control == NULL)
        return false;
    prospect_out->right = prospect_find_right(pass);
    if (prospect_out->right == NULL)
        return false;
    prospect_out->reason = prospect_estimate(pass, prospect_out);
    return true;
}
