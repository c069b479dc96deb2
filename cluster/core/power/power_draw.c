/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/power/power_draw.h"

#include <assert.h>
#include <math.h>

/* A power this far from the level's estimate means other work; a smaller difference moves the
 * estimate by this part of it. Chosen: means over a second of one job differ by up to 5 % on the
 * emulated node. */
static const double other_work_ratio = 0.15;
static const double new_weight = 0.4;

/* The weight of the typical static part, in levels with readings. Chosen: little. */
static const double preference = 0.05;

/* The part of a difference to earlier readings that is ignored. Measured with
 * cluster/tests/core/power/test_power_steer.c: with 0 a sum was above 101 % of its cap for 1.2 s of
 * 600, later than two seconds after a step; with this, in none. */
static const double doubt_ratio = 0.2;

void lull_power_draw_init(struct lull_power_draw *draw, uint32_t lowest_mhz, uint32_t highest_mhz)
{
    assert(lowest_mhz <= highest_mhz);
    *draw = (struct lull_power_draw){.highest_mhz = highest_mhz, .reach = LULL_POWER_LEVELS - 1};
    for (uint32_t k = 0; k < LULL_POWER_LEVELS; k++) {
        const double part = k / (LULL_POWER_LEVELS - 1.0);

        draw->clock_ratio[k] =
            highest_mhz == 0 ? 1.0 : (lowest_mhz + part * (highest_mhz - lowest_mhz)) / highest_mhz;
    }
}

/* Returns the level at which a GPU actually runs when one is allowed. Clocks lie up to a step
 * below a level, and a reading may be of another moment. */
static uint32_t power_draw_reached_level(const struct lull_power_draw *draw, uint32_t level,
                                         uint32_t clock_mhz)
{
    uint32_t at = level;

    if (clock_mhz == 0 || draw->highest_mhz == 0)
        return level;
    while (at > 0 && draw->clock_ratio[at] * draw->highest_mhz > clock_mhz)
        at--;
    return at + 1 >= level ? level : at;
}

static void power_draw_forget(struct lull_power_draw *draw)
{
    for (uint32_t k = 0; k < LULL_POWER_LEVELS; k++)
        draw->seen_w[k] = 0.0;
    draw->reach = LULL_POWER_LEVELS - 1;
}

void lull_power_draw_take(struct lull_power_draw *draw, uint32_t level, uint32_t clock_mhz,
                          double power_w)
{
    double *seen_w = draw->seen_w;
    uint32_t at;
    double factor = 1.0;

    assert(level < LULL_POWER_LEVELS && power_w > 0.0);
    at = power_draw_reached_level(draw, level, clock_mhz);
    if (seen_w[at] > 0.0)
        factor = power_w / seen_w[at];
    if (fabs(factor - 1.0) > other_work_ratio) {
        power_draw_forget(draw);
        factor = 1.0;
    }
    for (uint32_t k = 0; k < LULL_POWER_LEVELS; k++)
        seen_w[k] *= 1.0 + new_weight * (factor - 1.0);
    if (seen_w[at] == 0.0)
        seen_w[at] = power_w;
    /* Readings at higher levels were of this one, too. */
    for (uint32_t k = at + 1; k < LULL_POWER_LEVELS && at < level; k++)
        seen_w[k] = 0.0;
    if (at < level)
        draw->reach = at;
    else if (level >= draw->reach)
        draw->reach = LULL_POWER_LEVELS - 1;
}

/* The power is taken to be a + b * shape of the clock ratio. */
struct curve {
    double a_w;
    double b_w;
};

static double power_draw_shape(double clock_ratio)
{
    return pow(clock_ratio, LULL_POWER_DRAW_EXPONENT);
}

/* Least squares over the readings, with a slight preference for the typical static part, which
 * decides if only one level, or close levels, have readings. */
static struct curve power_draw_fit(const struct lull_power_draw *draw)
{
    const double c = LULL_POWER_DRAW_STATIC;
    double n = preference * (1.0 - c) * (1.0 - c);
    double h = -preference * c * (1.0 - c);
    double hh = preference * c * c;
    double y = 0.0, yh = 0.0;
    struct curve curve;

    for (uint32_t k = 0; k < LULL_POWER_LEVELS; k++) {
        const double at = power_draw_shape(draw->clock_ratio[k]);

        if (draw->seen_w[k] == 0.0)
            continue;
        n += 1.0;
        h += at;
        hh += at * at;
        y += draw->seen_w[k];
        yh += draw->seen_w[k] * at;
    }
    curve.a_w = (y * hh - yh * h) / (n * hh - h * h);
    curve.b_w = (yh * n - y * h) / (n * hh - h * h);
    if (curve.a_w < 0.0)
        curve = (struct curve){0.0, yh / hh};
    if (curve.b_w < 0.0)
        curve = (struct curve){y / n, 0.0};
    return curve;
}

/* Returns the highest level with readings; -1: none. */
static int highest_seen(const struct lull_power_draw *draw)
{
    int level = LULL_POWER_LEVELS - 1;

    while (level >= 0 && draw->seen_w[level] == 0.0)
        level--;
    return level;
}

/* The cube of the clock, beside the static part: more than any curve rises. */
static double power_draw_steepest(double clock_ratio)
{
    return LULL_POWER_DRAW_STATIC + (1.0 - LULL_POWER_DRAW_STATIC) * pow(clock_ratio, 3.0);
}

/* Finds the nearest levels with readings at a level or below, and at it or above; -1 and
 * LULL_POWER_LEVELS: there is none. */
static void find_seen(const struct lull_power_draw *draw, int level, int *below_out, int *above_out)
{
    *below_out = *above_out = level;
    while (*below_out >= 0 && draw->seen_w[*below_out] == 0.0)
        (*below_out)--;
    while (*above_out < (int)LULL_POWER_LEVELS && draw->seen_w[*above_out] == 0.0)
        (*above_out)++;
}

/* Returns the ratio of the readings to the curve at a level: linear between levels with
 * readings, and constant beyond them. */
static double power_draw_residual(const struct lull_power_draw *draw, const double *ratios,
                                  int level)
{
    int below, above;
    double span;

    find_seen(draw, level, &below, &above);
    if (below < 0)
        return ratios[above];
    if (above == LULL_POWER_LEVELS)
        return ratios[below];
    span = draw->clock_ratio[above] - draw->clock_ratio[below];
    if (span <= 0.0)
        return ratios[above];
    return ratios[below] + (ratios[above] - ratios[below]) *
                               (draw->clock_ratio[level] - draw->clock_ratio[below]) / span;
}

/* Returns the margin added for a level without readings: a part of the difference to the nearest
 * level with readings. */
static double doubt_w(const struct lull_power_draw *draw, const double *power_w, int level)
{
    double min_w = INFINITY;
    int below, above;

    find_seen(draw, level, &below, &above);
    if (below >= 0)
        min_w = power_w[level] - power_w[below];
    if (above < (int)LULL_POWER_LEVELS)
        min_w = fmin(min_w, power_w[above] - power_w[level]);
    return doubt_ratio * fmax(min_w, 0.0);
}

void lull_power_draw_predict(const struct lull_power_draw *draw, double unknown_w,
                             double *power_w_out)
{
    struct lull_power_draw known = *draw;
    double ratios[LULL_POWER_LEVELS] = {0.0};
    double likely_w[LULL_POWER_LEVELS] = {0.0};
    struct curve curve;
    int highest;

    if (highest_seen(&known) < 0)
        known.seen_w[LULL_POWER_LEVELS - 1] = fmax(unknown_w, 0.0);
    highest = highest_seen(&known);
    for (int k = 0; k < (int)LULL_POWER_LEVELS; k++)
        power_w_out[k] = 0.0;
    if (highest < 0)
        return;
    curve = power_draw_fit(&known);
    for (int k = 0; k < (int)LULL_POWER_LEVELS; k++)
        ratios[k] =
            known.seen_w[k] / (curve.a_w + curve.b_w * power_draw_shape(known.clock_ratio[k]));
    for (int k = 0; k < (int)LULL_POWER_LEVELS; k++) {
        const int at = k < highest ? k : highest;

        likely_w[k] = (curve.a_w + curve.b_w * power_draw_shape(known.clock_ratio[at])) *
                      power_draw_residual(&known, ratios, at) *
                      (power_draw_steepest(known.clock_ratio[k]) /
                       power_draw_steepest(known.clock_ratio[at]));
    }
    for (int k = 0; k < (int)LULL_POWER_LEVELS; k++) {
        power_w_out[k] = likely_w[k] + (k < highest ? doubt_w(&known, likely_w, k) : 0.0);
        if (k > 0)
            power_w_out[k] = fmax(power_w_out[k], power_w_out[k - 1]);
        if (k > (int)draw->reach)
            power_w_out[k] = power_w_out[draw->reach];
    }
}
