/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tuning/limit_visits.h"

#include <math.h>
#include <string.h>

/* The prior deviation of a slope, per degree, and the noise of a visit. Default:
 * leakage costs some 0.3 % per degree (thermal.h). */
static const double prior_slope = 0.004;
static const double visit_noise = 0.005;

/* Relative change of an iteration's energy and time per degree of temperature. */
struct slopes {
    double energy;
    double time;
};

/* Weighted means of the visits of one operating point. */
struct visited_point {
    double weight;
    double temperature_c;
    double log_energy;
    double log_time;
};

void lull_limit_visits_begin(struct lull_limit_visits *visits, uint32_t point)
{
    if (visits->count < LULL_LIMIT_VISITS_MAX)
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

static bool limit_visits_is_informative(const struct lull_limit_visit *visit)
{
    return visit->iterations > 0 && visit->warm_s > 0.0 && visit->joules > 0.0;
}

static double temperature_of(const struct lull_limit_visit *visit)
{
    return visit->degree_s / visit->warm_s;
}

static void add_to_point(const struct lull_limit_visit *visit, struct visited_point *own)
{
    const double share = visit->warm_s / (own->weight + visit->warm_s);
    const double iterations = (double)visit->iterations;

    own->weight += visit->warm_s;
    own->temperature_c += share * (temperature_of(visit) - own->temperature_c);
    own->log_energy += share * (log(visit->joules / iterations) - own->log_energy);
    own->log_time += share * (log(visit->seconds / iterations) - own->log_time);
}

/* The slopes that all operating points of one kind share, from how the visits of each differ. */
static struct slopes find_slopes(const struct lull_limit_visits *visits,
                                 const enum lull_limit_kind *kinds,
                                 const struct visited_point *visited, enum lull_limit_kind kind)
{
    double spread = pow(visit_noise / prior_slope, 2.0);
    struct slopes slopes = {0};

    for (uint32_t i = 0; i < visits->count; i++) {
        const struct lull_limit_visit *visit = &visits->items[i];
        const struct visited_point *own = &visited[visit->point];
        double away_c;

        if (kinds[visit->point] != kind || !limit_visits_is_informative(visit))
            continue;
        away_c = temperature_of(visit) - own->temperature_c;
        spread += away_c * away_c;
        slopes.energy +=
            away_c * (log(visit->joules / (double)visit->iterations) - own->log_energy);
        slopes.time += away_c * (log(visit->seconds / (double)visit->iterations) - own->log_time);
    }
    slopes.energy /= spread;
    slopes.time /= spread;
    return slopes;
}

/* ---- settled ----------------------------------------------------------------------------- */

static void limit_visits_add_settled(const struct lull_limit_visit *visit,
                                     const struct lull_thermal_fit *fit,
                                     const struct slopes *slopes, double *seconds, double *joules)
{
    double away_c = 0.0;

    if (fit != NULL && limit_visits_is_informative(visit))
        away_c =
            lull_thermal_settled_c(fit, visit->joules / visit->seconds) - temperature_of(visit);
    *seconds += visit->seconds * exp(slopes->time * away_c);
    *joules += visit->joules * exp(slopes->energy * away_c);
}

/* Fits the slopes from visits of one operating point at different temperatures. With these slopes
 * each visit is converted to the temperature at which the job would settle. */
void lull_limit_visits_settle(const struct lull_limit_visits *visits,
                              const enum lull_limit_kind *kinds, uint32_t count,
                              double *seconds_out, double *joules_out)
{
    struct visited_point visited[LULL_LIMIT_VISITS_POINTS] = {0};
    struct slopes slopes[LULL_LIMIT_KINDS];
    struct lull_thermal_fit known;
    const struct lull_thermal_fit *fit = NULL;

    if (lull_thermal_fit(&visits->thermal, &known))
        fit = &known;
    for (uint32_t i = 0; i < visits->count; i++)
        if (limit_visits_is_informative(&visits->items[i]))
            add_to_point(&visits->items[i], &visited[visits->items[i].point]);
    for (int kind = 0; kind < LULL_LIMIT_KINDS; kind++)
        slopes[kind] = find_slopes(visits, kinds, visited, (enum lull_limit_kind)kind);
    memset(seconds_out, 0, count * sizeof(seconds_out[0]));
    memset(joules_out, 0, count * sizeof(joules_out[0]));
    for (uint32_t i = 0; i < visits->count; i++) {
        const uint32_t point = visits->items[i].point;

        limit_visits_add_settled(&visits->items[i], fit, &slopes[kinds[point]], &seconds_out[point],
                                 &joules_out[point]);
    }
}
