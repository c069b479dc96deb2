/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/fixed.h"

#include <assert.h>

/* Periods of a comparison: jitter of a third of a per cent, as presets have it, leaves an error of
 * 0.05 % in the half that is measured. The printed results come from longer plays, which may change
 * the setting by one. */
enum { COMPARED_PERIODS = 100 };
static const double limit_step_w = 5.0;

/* Number of settings below the unrestricted one. */
static uint32_t count_settings(const struct lull_gpu_model *model, enum lull_fixed_lever lever)
{
    if (lever == LULL_FIXED_CLOCK)
        return lull_gpu_model_step_count(model) - 1;
    return (uint32_t)((model->limit_max_w - model->limit_min_w) / limit_step_w);
}

static int fixed_simulate(const struct lull_simulation_options *options,
                          enum lull_fixed_lever lever, uint32_t setting,
                          struct lull_simulation_outcome *outcome_out, struct lull_error *err)
{
    struct lull_simulation_options fixed = *options;

    if (lever == LULL_FIXED_CLOCK)
        fixed.steps_below = setting;
    else
        fixed.limit_w = options->model->limit_max_w - limit_step_w * setting;
    return lull_simulate_node(&fixed, outcome_out, err);
}

static bool fixed_is_within(const struct lull_simulation_outcome *outcome,
                            const struct lull_simulation_outcome *reference, double tolerance_ratio)
{
    return lull_simulation_slowdown(outcome, reference) <= tolerance_ratio;
}

/* The lowest setting within the tolerance over a few periods. */
static int fixed_bisect(const struct lull_simulation_options *options, enum lull_fixed_lever lever,
                        double tolerance_ratio, uint32_t *setting_out, struct lull_error *err)
{
    struct lull_simulation_outcome reference;
    uint32_t within = 0;
    uint32_t beyond = count_settings(options->model, lever) + 1;
    int result = fixed_simulate(options, lever, 0, &reference, err);

    while (result == 0 && beyond - within > 1) {
        const uint32_t middle = within + (beyond - within) / 2;
        struct lull_simulation_outcome outcome;

        result = fixed_simulate(options, lever, middle, &outcome, err);
        if (result == 0 && fixed_is_within(&outcome, &reference, tolerance_ratio))
            within = middle;
        else
            beyond = middle;
    }
    *setting_out = within;
    return result;
}

int lull_simulate_fixed(const struct lull_simulation_options *options, enum lull_fixed_lever lever,
                        double tolerance_ratio, const struct lull_simulation_outcome *reference,
                        struct lull_simulation_outcome *outcome_out, double *setting_out,
                        struct lull_error *err)
{
    struct lull_simulation_options few = *options;
    const struct lull_gpu_model *model = options->model;
    uint32_t setting;
    int result;

    assert(!options->managed && tolerance_ratio >= 0.0);
    few.course = NULL;
    if (few.periods > COMPARED_PERIODS)
        few.periods = COMPARED_PERIODS;
    if (few.measured > few.periods / 2)
        few.measured = few.periods / 2;
    result = fixed_bisect(&few, lever, tolerance_ratio, &setting, err);
    if (result == 0)
        result = fixed_simulate(options, lever, setting, outcome_out, err);
    while (result == 0 && setting > 0 && !fixed_is_within(outcome_out, reference, tolerance_ratio))
        result = fixed_simulate(options, lever, --setting, outcome_out, err);
    *setting_out =
        lever == LULL_FIXED_CLOCK
            ? lull_gpu_model_step_mhz(model, lull_gpu_model_step_count(model) - 1 - setting)
            : model->limit_max_w - limit_step_w * setting;
    return result;
}
