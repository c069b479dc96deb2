/* SPDX-License-Identifier: Apache-2.0 */
#include "core/energy/job_frontier_curve.h"

#include <assert.h>
#include <math.h>

/* The reference is exact, but the fit needs a width: one far smaller than that of any measurement.
 */
static const double exact_half = 1e-7;

/* An interval as wide as this carries no information. */
static const double informative_ratio = 0.5;

void lull_job_frontier_curve_add(struct lull_job_frontier_curve *curve,
                                 const struct lull_job_frontier_node *node)
{
    uint32_t place = curve->node_count;

    assert(curve->node_count < sizeof(curve->nodes) / sizeof(curve->nodes[0]));
    for (; place > 0 && curve->nodes[place - 1].point > node->point; place--)
        curve->nodes[place] = curve->nodes[place - 1];
    assert(place == 0 || curve->nodes[place - 1].point < node->point);
    curve->nodes[place] = *node;
    curve->node_count++;
}

void lull_job_frontier_curve_add_reference(struct lull_job_frontier_curve *curve)
{
    lull_job_frontier_curve_add(curve, &(struct lull_job_frontier_node){.time_half = exact_half});
}

/* ---- time -------------------------------------------------------------------------------- */

/* Returns the coordinate over which time is a line: highest clock / clock - 1. */
static double frontier_curve_abscissa(const struct lull_job_frontier_curve *curve, uint32_t point)
{
    return (double)curve->clocks_mhz[0] / curve->clocks_mhz[point] - 1.0;
}

struct moments {
    double weight;
    double x;
    double y;
    double xx;
    double xy;
};

static struct moments moments_of(const struct lull_job_frontier_curve *curve)
{
    struct moments sums = {0};

    for (uint32_t i = 0; i < curve->node_count; i++) {
        const struct lull_job_frontier_node *node = &curve->nodes[i];
        const double half = fmax(node->time_half, exact_half);
        const double weight = 1.0 / (half * half);
        const double x = frontier_curve_abscissa(curve, node->point);

        sums.weight += weight;
        sums.x += weight * x;
        sums.y += weight * node->time;
        sums.xx += weight * x * x;
        sums.xy += weight * x * node->time;
    }
    return sums;
}

/* Returns the factor, at least 1, by which a line that misses its nodes' intervals is less certain
 * than they are. */
static double frontier_curve_misfit(const struct lull_job_frontier_curve *curve)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < curve->node_count; i++) {
        const struct lull_job_frontier_node *node = &curve->nodes[i];
        const double away = node->time - curve->intercept -
                            curve->slope * frontier_curve_abscissa(curve, node->point);
        /* A half interval is some two standard deviations. */
        const double deviations = 2.0 * away / fmax(node->time_half, exact_half);

        sum += deviations * deviations;
    }
    return curve->node_count > 2 ? fmax(sum / (curve->node_count - 2.0), 1.0) : 1.0;
}

static void fit_time(struct lull_job_frontier_curve *curve)
{
    const struct moments sums = moments_of(curve);
    const double determinant = sums.weight * sums.xx - sums.x * sums.x;
    double factor;

    if (curve->node_count < 2 || !(determinant > 0.0)) {
        curve->intercept = curve->nodes[0].time;
        curve->covariance[0] = curve->nodes[0].time_half * curve->nodes[0].time_half;
        return; /* one clock says nothing about others */
    }
    curve->slope = fmax((sums.weight * sums.xy - sums.x * sums.y) / determinant, 0.0);
    curve->intercept = (sums.y - curve->slope * sums.x) / sums.weight;
    factor = frontier_curve_misfit(curve);
    curve->covariance[0] = factor * sums.xx / determinant;
    curve->covariance[1] = -factor * sums.x / determinant;
    curve->covariance[2] = factor * sums.weight / determinant;
}

struct estimate {
    double low;
    double middle;
    double high;
};

static struct estimate time_at(const struct lull_job_frontier_curve *curve, uint32_t point)
{
    const double x = frontier_curve_abscissa(curve, point);
    const double half = sqrt(fmax(
        curve->covariance[0] + 2.0 * x * curve->covariance[1] + x * x * curve->covariance[2], 0.0));
    struct estimate time;

    time.middle = curve->intercept + curve->slope * x;
    time.low = time.middle - half;
    time.high = time.middle + half;
    return time;
}

/* ---- power ------------------------------------------------------------------------------- */

/* Neighbours that do not fall with the clock get their common mean (pool adjacent violators). */
static void make_power_fall(struct lull_job_frontier_curve *curve)
{
    double weights[LULL_JOB_FRONTIER_SETTINGS + 1];
    double means[LULL_JOB_FRONTIER_SETTINGS + 1];
    uint32_t lengths[LULL_JOB_FRONTIER_SETTINGS + 1];
    uint32_t blocks = 0;
    uint32_t node = 0;

    for (uint32_t i = 0; i < curve->node_count; i++) {
        const double half = fmax(curve->nodes[i].energy_half, exact_half);

        weights[blocks] = 1.0 / (half * half);
        means[blocks] = curve->nodes[i].power_log;
        lengths[blocks++] = 1;
        while (blocks > 1 && means[blocks - 1] > means[blocks - 2]) {
            const double weight = weights[blocks - 2] + weights[blocks - 1];

            means[blocks - 2] = (means[blocks - 2] * weights[blocks - 2] +
                                 means[blocks - 1] * weights[blocks - 1]) /
                                weight;
            weights[blocks - 2] = weight;
            lengths[blocks - 2] += lengths[blocks - 1];
            blocks--;
        }
    }
    for (uint32_t block = 0; block < blocks; block++)
        for (uint32_t i = 0; i < lengths[block]; i++)
            curve->nodes[node++].power_log = means[block];
}

/* Between two nodes: on their chord, or below it by what a parabola is that is flat at its lower
 * end. */
static struct estimate power_between(const struct lull_job_frontier_curve *curve,
                                     const struct lull_job_frontier_node *upper,
                                     const struct lull_job_frontier_node *lower, uint32_t point)
{
    const double top = curve->clocks_mhz[upper->point];
    const double bottom = curve->clocks_mhz[lower->point];
    const double share = (curve->clocks_mhz[point] - bottom) / (top - bottom);
    const double rise = upper->power_log - lower->power_log;
    const double half = share * upper->energy_half + (1.0 - share) * lower->energy_half;
    const double blur = share * upper->blur + (1.0 - share) * lower->blur;
    const double chord = lower->power_log + share * rise;
    const double below = share * (1.0 - share) * rise;

    return (struct estimate){chord - below - half - blur, chord - 0.5 * below, chord + half};
}

/* Returns how fast power falls at the lowest node, at most, log per MHz: of a convex curve no chord
 * that ends there is flatter, and of those that are known the flattest counts. */
static double fall_per_mhz(const struct lull_job_frontier_curve *curve)
{
    const struct lull_job_frontier_node *lower = &curve->nodes[curve->node_count - 1];
    const double bottom = curve->clocks_mhz[lower->point];
    double flattest = INFINITY;

    for (uint32_t i = 0; i + 1 < curve->node_count; i++) {
        const struct lull_job_frontier_node *upper = &curve->nodes[i];
        const double rise = upper->power_log - lower->power_log + upper->energy_half +
                            lower->energy_half + lower->blur;

        flattest = fmin(flattest, rise / (curve->clocks_mhz[upper->point] - bottom));
    }
    return isfinite(flattest) ? flattest : 0.0;
}

/* Below the lowest node: between its power and the flattest chord, drawn out. */
static struct estimate power_beyond(const struct lull_job_frontier_curve *curve, uint32_t point)
{
    const struct lull_job_frontier_node *lower = &curve->nodes[curve->node_count - 1];
    const double fall =
        fall_per_mhz(curve) * (curve->clocks_mhz[lower->point] - curve->clocks_mhz[point]);

    return (struct estimate){lower->power_log - fall - lower->energy_half - lower->blur,
                             lower->power_log - 0.5 * fall, lower->power_log + lower->energy_half};
}

/* ---- savings ----------------------------------------------------------------------------- */

/* The first node at or below a point; node_count: there is none. */
static uint32_t node_from(const struct lull_job_frontier_curve *curve, uint32_t point)
{
    uint32_t node = 0;

    while (node < curve->node_count && curve->nodes[node].point < point)
        node++;
    return node;
}

static struct estimate frontier_curve_saving_at(const struct lull_job_frontier_curve *curve,
                                                uint32_t point, bool *is_visited_out)
{
    const uint32_t index = node_from(curve, point);
    const struct lull_job_frontier_node *node = &curve->nodes[index];
    const struct estimate time = time_at(curve, point);
    struct estimate power;

    *is_visited_out = index < curve->node_count && node->point == point;
    if (*is_visited_out)
        return (struct estimate){1.0 - exp(node->energy_log + node->energy_half),
                                 1.0 - exp(node->energy_log),
                                 1.0 - exp(node->energy_log - node->energy_half - node->blur)};
    power = index == curve->node_count ? power_beyond(curve, point)
                                       : power_between(curve, node - 1, node, point);
    return (struct estimate){1.0 - exp(power.high) * (1.0 + time.high),
                             1.0 - exp(power.middle) * (1.0 + time.middle),
                             1.0 - exp(power.low) * (1.0 + time.low)};
}

void lull_job_frontier_curve_fit(struct lull_job_frontier_curve *curve)
{
    assert(curve->node_count >= 1);
    fit_time(curve);
    make_power_fall(curve);
}

/* A clock counts for each end of the interval where its time, at that end, is within the budget.
 * The highest clock that was visited always does: it is what costs least. */
void lull_job_frontier_curve_ask(const struct lull_job_frontier_curve *curve,
                                 struct lull_job_frontier_point *point)
{
    const uint32_t first = curve->nodes[0].point;
    struct estimate best = {-INFINITY, -INFINITY, -INFINITY};

    if (curve->node_count < 2 && point->slowdown_ratio > 0.0) {
        point->reason =
            "only one steady clock was tested with the accepted clocks in sections and gaps";
        return;
    }
    for (uint32_t i = first; i < curve->clock_count; i++) {
        const struct estimate time = time_at(curve, i);
        bool is_visited;
        const struct estimate saving = frontier_curve_saving_at(curve, i, &is_visited);
        const bool is_free = i == 0;

        if ((is_free || time.middle <= point->slowdown_ratio) && saving.middle > best.middle) {
            best.middle = saving.middle;
            point->is_measured = is_visited;
            point->point = i;
        }
        if (is_free || time.high <= point->slowdown_ratio)
            best.low = fmax(best.low, saving.low);
        if (is_free || time.low <= point->slowdown_ratio)
            best.high = fmax(best.high, saving.high);
    }
    if (!isfinite(best.middle)) {
        point->reason = "no clock was visited that costs so little";
        return;
    }
    best.low = isfinite(best.low) ? best.low : 0.0;
    if (best.high - best.low >= informative_ratio) {
        point->reason = "too few iterations for their spread; use a longer run";
        return;
    }
    point->saving_ratio = best.middle;
    point->low_ratio = best.low;
    point->high_ratio = fmax(best.high, best.middle);
}
