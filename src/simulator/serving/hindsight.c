/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/serving/hindsight.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

enum {
    SETTINGS = 24,
    HALVINGS = 6, /* of a factor of 2 in rate: to 1.1 % */
};

/* Rates outside these bounds are not tried. */
static const double rate_min_per_s = 1.0 / 64.0;
static const double rate_max_per_s = 65536.0;

int lull_serving_make_arrivals(const struct lull_serving_source *source, double rate_per_s,
                               struct lull_server_arrivals *arrivals_out)
{
    const double golden = 0.6180339887; /* its multiples spread well over a trace */
    const struct lull_server_arrivals_part part = {
        .rate_per_s = rate_per_s,
        .duration_ns = source->duration_ns,
        .start_ratio = fmod((double)(source->seed - 1) * golden, 1.0),
    };
    const struct lull_server_arrivals_poisson poisson = {
        .rate_per_s = rate_per_s,
        .duration_ns = source->duration_ns,
        .prompt_tokens = source->prompt_tokens,
        .output_tokens = source->output_tokens,
        .seed = source->seed,
    };

    if (source->trace != NULL)
        return lull_server_arrivals_scale(source->trace, &part, arrivals_out);
    return lull_server_arrivals_draw(&poisson, arrivals_out);
}

/* ---- rate --------------------------------------------------------------------------------- */

/* Simulates full clocks at a rate. *is_met_out: the objective holds. */
static int hindsight_try_rate(const struct lull_serving_run *run,
                              const struct lull_serving_source *source, double rate_per_s,
                              bool *is_met_out, struct lull_error *err)
{
    const double missed_ratio = 1.0 - run->objective.share;
    struct lull_serving_run full = *run;
    struct lull_serving_bar bar = {.energy_j = INFINITY};
    struct lull_server_arrivals arrivals = {0};
    struct lull_serving_outcome outcome = {0};
    int result;

    full.arrivals = &arrivals;
    full.bar = &bar;
    full.policy = LULL_SERVING_AT_HIGHEST;
    full.no_quantiles = true;
    result = lull_serving_make_arrivals(source, rate_per_s, &arrivals);
    bar.most_missed = (uint64_t)(missed_ratio * (double)arrivals.count) + 1;
    if (result < 0)
        lull_error_set(err, result, "simulation: no memory");
    else
        result = lull_serving_simulate(&full, &outcome, err);
    *is_met_out = !outcome.is_given_up &&
                  (outcome.done == 0 || lull_serving_missed_ratio(&outcome) <= missed_ratio);
    free(outcome.requests);
    lull_server_arrivals_fini(&arrivals);
    return result;
}

int lull_serving_find_rate(const struct lull_serving_run *run,
                           const struct lull_serving_source *source, double *rate_per_s_out,
                           struct lull_error *err)
{
    double rate = 1.0;
    bool is_met = false;
    bool was_met;
    int result = hindsight_try_rate(run, source, rate, &was_met, err);

    for (is_met = was_met; result == 0 && is_met == was_met;) {
        rate *= was_met ? 2.0 : 0.5;
        if (rate < rate_min_per_s || rate > rate_max_per_s)
            return lull_error_set(err, -ERANGE,
                                  "the objective cannot be met, or not be missed, at any rate of "
                                  "requests. Change --slo, or --max-num-batched-tokens.");
        result = hindsight_try_rate(run, source, rate, &is_met, err);
    }
    if (was_met) /* the rate before was low enough */
        rate *= 0.5;
    for (double factor = sqrt(2.0), i = 0; i < HALVINGS && result == 0; i++) {
        result = hindsight_try_rate(run, source, rate * factor, &is_met, err);
        if (is_met)
            rate *= factor;
        factor = sqrt(factor);
    }
    *rate_per_s_out = rate;
    return result;
}

/* ---- fixed settings ----------------------------------------------------------------------- */

double lull_serving_allowance(const struct lull_serving_run *run,
                              const struct lull_serving_outcome *reference)
{
    return (1.0 - run->objective.share) / 2.0 * (double)reference->done;
}

int lull_serving_find_fixed(const struct lull_serving_run *run, enum lull_serving_policy policy,
                            uint64_t most_missed, struct lull_serving_outcome *outcome_out,
                            double *setting_out, struct lull_error *err)
{
    const struct lull_gpu_model *model = run->pools[0].setup.gpu;
    const bool is_clock = policy == LULL_SERVING_AT_CLOCK;
    const double most = is_clock ? model->sm_max_mhz : model->limit_max_w;
    const double least = is_clock ? model->sm_min_mhz : model->limit_min_w;
    struct lull_serving_outcome best = {0};
    struct lull_serving_run fixed = *run;
    struct lull_serving_bar bar = {.most_missed = most_missed};

    assert(is_clock || policy == LULL_SERVING_AT_LIMIT);
    fixed.policy = policy;
    fixed.no_quantiles = true;
    for (int i = 0; i < SETTINGS; i++) {
        const double setting = most - (most - least) * i / (SETTINGS - 1);
        struct lull_serving_outcome outcome;
        int result;

        fixed.clock_mhz = setting;
        fixed.limit_w = setting;
        bar.energy_j = best.energy_j;
        fixed.bar = best.requests != NULL ? &bar : NULL;
        result = lull_serving_simulate(&fixed, &outcome, err);
        if (result < 0) {
            free(best.requests);
            return result;
        }
        if (best.requests != NULL && outcome.missed > most_missed) {
            free(outcome.requests);
            break;
        }
        if (best.requests != NULL && (outcome.is_given_up || outcome.energy_j >= best.energy_j)) {
            free(outcome.requests);
            continue;
        }
        free(best.requests);
        best = outcome;
        *setting_out = setting;
    }
    if (lull_serving_find_quantiles(&best, run->arrivals->count, err) < 0) {
        free(best.requests);
        return -ENOMEM;
    }
    *outcome_out = best;
    return 0;
}
