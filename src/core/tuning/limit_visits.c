/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tuning/limit_visits.h"

#include <math.h>
#include <string.h>

static const double prior_slope = 0.004; /* per degree */
static const double visit_noise = 0.005;

/* How energy and time of an iteration go with temperature, relative change per degree. */
struct slopes {
    double energy;
    double time;
};

/* Weighted means of the visits of one operating point. */
struct group {
    double weight;
    double temperature_c;
    double log_energy;
    double log_time;
};

void lull_limit_visits_begin(struct lull_limit_visits *visits, uint32_t point)
{
    if (visits->count < LULL_LIMIT_VISITS_MOST)
        visits->count++;
    visits->items[visits->count - 1] = (struct lull_limit_visit){.point = point};
}

void lull_limit_visits_feel(struct lull_limit_visits *visits, double seconds, double watts,
                            double temperature_c)
{
    lull_thermal_take(&visits->thermal, seconds, watts, temperature_c);
}

void lull_limit_visits_take(struct lull_limit_visits *visits, uint64_t iterations, double seconds,
                            double joules, double temperature_c)
{
    struct lull_limit_visit *visit = &visits->items[visits->count - 1];

    visit->iterations += iterations;
    visit->seconds += seconds;
    visit->joules += joules;
    if (!isfinite(temperature_c))
        return;
    visit->warm_s += seconds;
    visit->degree_s += seconds * temperature_c;
}

/* ---- slopes ------------------------------------------------------------------------------ */

static bool is_telling(const struct lull_limit_visit *visit)
{
    return visit->iterations > 0 && visit->warm_s > 0.0 && visit->joules > 0.0;
}

static double temperature_of(const struct lull_limit_visit *visit)
{
    return visit->degree_s / visit->warm_s;
}

static void add_to_group(const struct lull_limit_visit *visit, struct group *group)
{
    const double share = visit->warm_s / (group->weight + visit->warm_s);
    const double iterations = (double)visit->iterations;

    group->weight += visit->warm_s;
    group->temperature_c += share * (temperature_of(visit) - group->temperature_c);
    group->log_energy += share * (log(visit->joules / iterations) - group->log_energy);
    group->log_time += share * (log(visit->seconds / iterations) - group->log_time);
}

/* Of all operating points of one kind, within each. */
static struct slopes find_slopes(const struct lull_limit_visits *visits,
                                 const enum lull_limit_kind *kinds, const struct group *groups,
                                 enum lull_limit_kind kind)
{
    double spread = pow(visit_noise / prior_slope, 2.0);
    struct slopes slopes = {0};

    for (uint32_t i = 0; i < visits->count; i++) {
        const struct lull_limit_visit *visit = &visits->items[i];
        const struct group *group = &groups[visit->point];
        double away_c;

        if (kinds[visit->point] != kind || !is_telling(visit))
            continue;
        away_c = temperature_of(visit) - group->temperature_c;
        spread += away_c * away_c;
        slopes.energy +=
            away_c * (log(visit->joules / (double)visit->iterations) - group->log_energy);
        slopes.time += away_c * (log(visit->seconds / (double)visit->iterations) - group->log_time);
    }
    slopes.energy /= spread;
    slopes.time /= spread;
    return slopes;
}

/* ---- settled ----------------------------------------------------------------------------- */

static void add_settled(const struct lull_limit_visit *visit, const struct lull_thermal_fit *fit,
                        const struct slopes *slopes, double *seconds, double *joules)
{
    const double away_c =
        fit == NULL || !is_telling(visit)
            ? 0.0
            : lull_thermal_settled_c(fit, visit->joules / visit->seconds) - temperature_of(visit);

    *seconds += visit->seconds * exp(slopes->time * away_c);
    *joules += visit->joules * exp(slopes->energy * away_c);
}

void lull_limit_visits_settle(const struct lull_limit_visits *visits,
                              const enum lull_limit_kind *kinds, uint32_t count,
                              double *seconds_out, double *joules_out)
{
    struct group groups[LULL_LIMIT_VISITS_SETTINGS] = {0};
    struct slopes slopes[LULL_LIMIT_KINDS];
    struct lull_thermal_fit fit;
    const bool is_known = lull_thermal_fit(&visits->thermal, &fit);

    for (uint32_t i = 0; i < visits->count; i++)
        if (is_telling(&visits->items[i]))
            add_to_group(&visits->items[i], &groups[visits->items[i].point]);
    for (int kind = 0; kind < LULL_LIMIT_KINDS; kind++)
        slopes[kind] = find_slopes(visits, kinds, groups, (enum lull_limit_kind)kind);
    memset(seconds_out, 0, count * sizeof(seconds_out[0]));
    memset(joules_out, 0, count * sizeof(joules_out[0]));
    for (uint32_t i = 0; i < visits->count; i++) {
        const uint32_t point = visits->items[i].point;

        add_settled(&visits->items[i], is_known ? &fit : NULL, &slopes[kinds[point]],
                    &seconds_out[point], &joules_out[point]);
    }
}
