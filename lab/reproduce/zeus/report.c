/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/json_string.h"
#include "lab/reproduce/zeus/replay.h"

double lull_replay_regret_ratio(const struct lull_comparison *comparison,
                                const struct lull_comparison_outcome *outcome)
{
    return outcome->cost / comparison->oracle_cost - 1.0;
}

static double missed_runs(const struct lull_comparison *comparison,
                          const struct lull_comparison_outcome *outcome)
{
    (void)comparison;
    return outcome->missed_runs;
}

static double zeus_report_changes_ratio(const struct lull_comparison *comparison,
                                        const struct lull_comparison_outcome *outcome)
{
    (void)comparison;
    return outcome->change_count;
}

struct lull_replay_spread lull_replay_spread_of(const struct lull_replay *replay,
                                                const struct lull_replay_policy *policy,
                                                lull_replay_figure figure)
{
    struct lull_replay_spread spread = {.least = INFINITY, .most = -INFINITY};
    double squares = 0.0;

    for (uint32_t i = 0; i < replay->seed_count; i++) {
        const double value = figure(&replay->comparison, &policy->outcomes[i]);

        spread.mean += value / replay->seed_count;
        spread.least = fmin(spread.least, value);
        spread.most = fmax(spread.most, value);
    }
    for (uint32_t i = 0; i < replay->seed_count; i++)
        squares += pow(figure(&replay->comparison, &policy->outcomes[i]) - spread.mean, 2.0);
    if (replay->seed_count > 1)
        spread.deviation = sqrt(squares / (replay->seed_count - 1));
    return spread;
}

/* ---- for users ---------------------------------------------------------------------------- */

static void print_knobs(FILE *out, const char *name, const struct lull_recurrence_knobs *knobs,
                        const struct lull_recurrence_knobs *base)
{
    fprintf(out, "%-18s %6u at %3.0f W: %12.0f J %10.0f s", name, knobs->size, knobs->limit_w,
            knobs->energy_j, knobs->time_s);
    if (knobs != base)
        fprintf(out, "  %+6.1f %% energy %+6.1f %% time",
                100.0 * (knobs->energy_j / base->energy_j - 1.0),
                100.0 * (knobs->time_s / base->time_s - 1.0));
    fputc('\n', out);
}

static void print_policy(FILE *out, const struct lull_replay *replay,
                         const struct lull_replay_policy *policy)
{
    const struct lull_replay_spread saving =
        lull_replay_spread_of(replay, policy, lull_comparison_saving_ratio);
    const struct lull_replay_spread last =
        lull_replay_spread_of(replay, policy, lull_comparison_last_saving_ratio);
    const struct lull_replay_spread slower =
        lull_replay_spread_of(replay, policy, lull_comparison_last_slowdown_ratio);
    const struct lull_replay_spread regret =
        lull_replay_spread_of(replay, policy, lull_replay_regret_ratio);

    fprintf(out, "%-12s %7.2f %6.2f %9.2f %6.2f %8.2f %9.2f %7.2f %8.1f %8.2f\n", policy->name,
            100.0 * saving.mean, 100.0 * saving.deviation, 100.0 * last.mean,
            100.0 * last.deviation, 100.0 * slower.mean, 100.0 * regret.mean,
            100.0 * regret.deviation, lull_replay_spread_of(replay, policy, missed_runs).mean,
            lull_replay_spread_of(replay, policy, zeus_report_changes_ratio).mean);
}

static void print_seed(FILE *out, const struct lull_replay *replay, uint32_t index)
{
    fprintf(out, "%10llu", (unsigned long long)(replay->first_seed + index));
    for (int i = 0; i < LULL_REPLAY_POLICIES; i++)
        fprintf(out, " %12.2f",
                100.0 * lull_comparison_saving_ratio(&replay->comparison,
                                                     &replay->policies[i].outcomes[index]));
    fputc('\n', out);
}

void lull_replay_print(const struct lull_replay *replay, FILE *out)
{
    const struct lull_comparison *c = &replay->comparison;

    for (uint32_t i = 0; i < c->phase_count; i++) {
        const struct lull_recurrence_potential *p = &c->potential[i];

        fprintf(out, "%s to %g%s%s, %u recurrences\n", c->phases[i].trace->job.dataset,
                c->phases[i].trace->job.target, replay->gpu[0] != '\0' ? " on " : "", replay->gpu,
                c->phases[i].recurrences);
        print_knobs(out, "default", &p->base, &p->base);
        print_knobs(out, "least energy", &p->min_energy, &p->base);
        print_knobs(out, "least cost", &p->min_cost, &p->base);
        print_knobs(out, "least time", &p->min_time, &p->base);
    }
    fprintf(out, "\nsaved energy in %% of the default, by seed\n%10s", "seed");
    for (int i = 0; i < LULL_REPLAY_POLICIES; i++)
        fprintf(out, " %12s", replay->policies[i].name);
    fputc('\n', out);
    for (uint32_t i = 0; i < replay->seed_count; i++)
        print_seed(out, replay, i);
    fprintf(out, "\n%-12s %7s %6s %9s %6s %8s %9s %7s %8s %8s\n", "% over seeds", "saved", "+-",
            "last five", "+-", "slower", "regret", "+-", "missed", "changes");
    for (int i = 0; i < LULL_REPLAY_POLICIES; i++)
        print_policy(out, replay, &replay->policies[i]);
}

/* ---- JSON --------------------------------------------------------------------------------- */

static json_t *knobs_json(const struct lull_recurrence_knobs *knobs)
{
    return json_pack("{s:I, s:f, s:f, s:f, s:f}", "batch_size", (json_int_t)knobs->size,
                     "power_limit_w", knobs->limit_w, "energy_j", knobs->energy_j, "time_s",
                     knobs->time_s, "cost_j", knobs->cost);
}

static json_t *phases_json(const struct lull_comparison *c)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < c->phase_count; i++) {
        const struct lull_recurrence_potential *p = &c->potential[i];

        json_array_append_new(
            list, json_pack("{s:f, s:I, s:f, s:o, s:o, s:o, s:o, s:o, s:o}", "target",
                            c->phases[i].trace->job.target, "recurrences",
                            (json_int_t)c->phases[i].recurrences, "oracle_cost_j", c->min_cost[i],
                            "default", knobs_json(&p->base), "best_size", knobs_json(&p->best_size),
                            "best_limit", knobs_json(&p->best_limit), "least_energy",
                            knobs_json(&p->min_energy), "least_cost", knobs_json(&p->min_cost),
                            "least_time", knobs_json(&p->min_time)));
    }
    return list;
}

static json_t *spread_json(struct lull_replay_spread spread)
{
    return json_pack("{s:f, s:f, s:f, s:f}", "mean", spread.mean, "deviation", spread.deviation,
                     "least", spread.least, "most", spread.most);
}

static json_t *seeds_json(const struct lull_replay *replay, const struct lull_replay_policy *policy)
{
    const struct lull_comparison *c = &replay->comparison;
    json_t *list = json_array();

    for (uint32_t i = 0; i < replay->seed_count; i++) {
        const struct lull_comparison_outcome *o = &policy->outcomes[i];

        json_array_append_new(
            list,
            json_pack("{s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:f}", "seed",
                      (json_int_t)(replay->first_seed + i), "runs", (json_int_t)o->runs, "missed",
                      (json_int_t)o->missed_runs, "changes", (json_int_t)o->change_count,
                      "energy_j", o->energy_j, "time_s", o->time_s, "cost_j", o->cost,
                      "saving_ratio", lull_comparison_saving_ratio(c, o), "last_saving_ratio",
                      lull_comparison_last_saving_ratio(c, o), "last_slowdown_ratio",
                      lull_comparison_last_slowdown_ratio(c, o), "regret_ratio",
                      lull_replay_regret_ratio(c, o), "last_batch_size", (json_int_t)o->last_size,
                      "last_power_limit_w", o->last_limit_w));
    }
    return list;
}

static json_t *policy_json(const struct lull_replay *replay,
                           const struct lull_replay_policy *policy)
{
    return json_pack(
        "{s:o, s:I, s:o, s:o, s:o, s:o, s:o}", "policy", lull_json_string(policy->name), "window",
        (json_int_t)policy->config.batch.window, "saving_ratio",
        spread_json(lull_replay_spread_of(replay, policy, lull_comparison_saving_ratio)),
        "last_saving_ratio",
        spread_json(lull_replay_spread_of(replay, policy, lull_comparison_last_saving_ratio)),
        "last_slowdown_ratio",
        spread_json(lull_replay_spread_of(replay, policy, lull_comparison_last_slowdown_ratio)),
        "regret_ratio",
        spread_json(lull_replay_spread_of(replay, policy, lull_replay_regret_ratio)), "seeds",
        seeds_json(replay, policy));
}

json_t *lull_replay_json(const struct lull_replay *replay)
{
    const struct lull_comparison *c = &replay->comparison;
    json_t *policies = json_array();

    for (int i = 0; i < LULL_REPLAY_POLICIES; i++)
        json_array_append_new(policies, policy_json(replay, &replay->policies[i]));
    return json_pack("{s:o, s:o, s:f, s:o, s:I, s:f, s:f, s:f, s:o, s:o}", "dataset",
                     lull_json_string(c->phases[0].trace->job.dataset), "gpu",
                     lull_json_string(replay->gpu), "eta_ratio", c->eta_ratio, "beta_ratio",
                     isfinite(replay->beta_ratio) ? json_real(replay->beta_ratio) : json_null(),
                     "recurrences", (json_int_t)c->recurrences, "default_energy_j",
                     c->base_energy_j, "default_time_s", c->base_time_s, "oracle_cost_j",
                     c->oracle_cost, "phases", phases_json(c), "policies", policies);
}
