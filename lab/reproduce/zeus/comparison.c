/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/reproduce/zeus/comparison.h"

#include <errno.h>
#include <stddef.h>

int lull_comparison_init(struct lull_comparison *comparison,
                         const struct lull_recurrence_phase *phases, uint32_t phase_count,
                         double eta_ratio, struct lull_error *err)
{
    struct lull_comparison c = {
        .phases = phases, .phase_count = phase_count, .eta_ratio = eta_ratio};

    if (phase_count == 0 || phase_count > LULL_COMPARISON_PHASES)
        return lull_error_set(err, -EINVAL, "there are %u phases; there must be 1 to %d",
                              phase_count, LULL_COMPARISON_PHASES);
    for (uint32_t i = 0; i < phase_count; i++) {
        const double recurrences = phases[i].recurrences;
        const int rc = lull_recurrence_search(phases[i].trace, eta_ratio, &c.potential[i], err);

        if (rc < 0)
            return rc;
        c.min_cost[i] = lull_recurrence_min_cost(phases[i].trace, eta_ratio);
        c.recurrences += phases[i].recurrences;
        c.base_energy_j += recurrences * c.potential[i].base.energy_j;
        c.base_time_s += recurrences * c.potential[i].base.time_s;
        c.oracle_cost += recurrences * c.min_cost[i];
    }
    *comparison = c;
    return 0;
}

struct comparison_tally {
    struct lull_comparison_outcome outcome;
    double *cost_by_recurrence;
    double energy_j[LULL_COMPARISON_LAST]; /* a ring of the last runs */
    double time_s[LULL_COMPARISON_LAST];
};

static void zeus_comparison_observe(void *context, const struct lull_recurrence_step *step)
{
    struct comparison_tally *const tally = context;
    struct lull_comparison_outcome *o = &tally->outcome;

    tally->energy_j[o->runs % LULL_COMPARISON_LAST] = step->run.energy_j;
    tally->time_s[o->runs % LULL_COMPARISON_LAST] = step->run.time_s;
    o->runs++;
    o->missed_runs += !step->run.has_reached;
    o->energy_j += step->run.energy_j;
    o->time_s += step->run.time_s;
    o->cost += step->cost;
    o->last_size = step->run.size->size;
    o->last_limit_w = step->run.limit->limit_w;
    if (tally->cost_by_recurrence != NULL)
        tally->cost_by_recurrence[step->recurrence] += step->cost;
}

int lull_comparison_play(const struct lull_comparison *comparison,
                         const struct lull_zeus_config *policy, uint64_t seed,
                         double *cost_by_recurrence, struct lull_comparison_outcome *outcome_out,
                         struct lull_error *err)
{
    struct comparison_tally tally = {.cost_by_recurrence = cost_by_recurrence};
    const struct lull_recurrence_series series = {
        .phases = comparison->phases,
        .phase_count = comparison->phase_count,
        .seed = seed,
        .observe = zeus_comparison_observe,
        .context = &tally,
    };
    struct lull_zeus_config config = *policy;
    uint32_t last;
    int rc;

    config.batch.price.eta_ratio = comparison->eta_ratio;
    rc = lull_recurrence_play(&series, &config, &tally.outcome.change_count, err);
    if (rc < 0)
        return rc;
    last = tally.outcome.runs < LULL_COMPARISON_LAST ? tally.outcome.runs : LULL_COMPARISON_LAST;
    for (uint32_t i = 0; i < last; i++) {
        tally.outcome.last_energy_j += tally.energy_j[i] / last;
        tally.outcome.last_time_s += tally.time_s[i] / last;
    }
    *outcome_out = tally.outcome;
    return 0;
}

double lull_comparison_saving_ratio(const struct lull_comparison *comparison,
                                    const struct lull_comparison_outcome *outcome)
{
    return 1.0 - outcome->energy_j / comparison->base_energy_j;
}

static const struct lull_recurrence_knobs *last_base(const struct lull_comparison *comparison)
{
    return &comparison->potential[comparison->phase_count - 1].base;
}

double lull_comparison_last_saving_ratio(const struct lull_comparison *comparison,
                                         const struct lull_comparison_outcome *outcome)
{
    return 1.0 - outcome->last_energy_j / last_base(comparison)->energy_j;
}

double lull_comparison_last_slowdown_ratio(const struct lull_comparison *comparison,
                                           const struct lull_comparison_outcome *outcome)
{
    return outcome->last_time_s / last_base(comparison)->time_s - 1.0;
}
