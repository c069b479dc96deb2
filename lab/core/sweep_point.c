/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/core/sweep_point.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/stats/quantile.h"
#include "core/stats/student.h"

/* ---- medians ------------------------------------------------------------------------------- */

/* Drops every second value, so that a series of any length is seen evenly. */
static void sweep_point_thin(struct lull_sweep_series *series)
{
    for (uint32_t i = 0; i < LULL_SWEEP_SERIES / 2; i++)
        series->values[i] = series->values[(size_t)2 * i];
    series->count = LULL_SWEEP_SERIES / 2;
    series->stride *= 2;
}

static void sweep_point_append(struct lull_sweep_series *series, double value)
{
    if (isnan(value))
        return;
    if (series->seen++ % series->stride != 0)
        return;
    if (series->count == LULL_SWEEP_SERIES)
        sweep_point_thin(series);
    series->values[series->count++] = value;
}

static int sweep_point_compare(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

/* The upper one of two middle values: a clock that was read, never one between two. */
static double sweep_point_median(const struct lull_sweep_series *series)
{
    double sorted[LULL_SWEEP_SERIES];

    if (series->count == 0)
        return NAN;
    memcpy(sorted, series->values, series->count * sizeof(sorted[0]));
    qsort(sorted, series->count, sizeof(sorted[0]), sweep_point_compare);
    return sorted[series->count / 2];
}

/* ---- readings ------------------------------------------------------------------------------ */

void lull_sweep_point_begin(struct lull_sweep_point *point, const struct lull_sweep_edge *begin,
                            double refresh_s)
{
    assert(refresh_s > 0.0);
    *point = (struct lull_sweep_point){
        .begin = *begin,
        .refresh_s = refresh_s,
        .sm_mhz.stride = 1,
        .mem_mhz.stride = 1,
        .temperature_c.stride = 1,
        .sm_min_mhz = NAN,
        .sm_max_mhz = NAN,
        .counter_j = begin->is_found ? begin->counter_j : NAN,
    };
}

void lull_sweep_point_look(struct lull_sweep_point *point, const struct lull_sweep_look *look)
{
    sweep_point_append(&point->sm_mhz, look->sm_mhz);
    sweep_point_append(&point->mem_mhz, look->mem_mhz);
    sweep_point_append(&point->temperature_c, look->temperature_c);
    point->sm_min_mhz = fmin(point->sm_min_mhz, look->sm_mhz);
    point->sm_max_mhz = fmax(point->sm_max_mhz, look->sm_mhz);
    if (!isnan(look->power_w))
        lull_moments_add(&point->power_w, look->power_w);
    point->reasons |= look->reasons;
    point->is_capped = point->is_capped || look->is_capped;
    point->is_throttled = point->is_throttled || look->is_throttled;
    point->has_others = point->has_others || look->has_others;
}

void lull_sweep_point_run(struct lull_sweep_point *point, uint64_t launches, double seconds)
{
    assert(launches > 0 && seconds > 0.0);
    point->launches += launches;
    point->seconds += seconds;
    lull_moments_add(&point->time_ms, 1e3 * seconds / (double)launches);
}

void lull_sweep_point_count(struct lull_sweep_point *point, double counter_j)
{
    if (counter_j < point->counter_j)
        point->has_counter_failed = true;
    point->counter_j = counter_j;
}

/* ---- how well it is known ------------------------------------------------------------------ */

/* Half of the 95 % interval of a mean, relative to it; INFINITY: it is not known. */
static double interval_ratio(const struct lull_moments *moments)
{
    const double count = (double)moments->count;

    if (moments->count < 2 || moments->mean <= 0.0)
        return INFINITY;
    return lull_student_quantile(0.975, count - 1.0) *
           sqrt(lull_moments_variance(moments) / count) / moments->mean;
}

static bool has_enough(const struct lull_sweep_point *point, const struct lull_sweep_rules *rules,
                       double window_s)
{
    return window_s >= rules->min_s && point->launches >= rules->min_launches &&
           (!point->begin.is_found || window_s >= rules->min_refreshes * point->refresh_s);
}

bool lull_sweep_point_is_done(const struct lull_sweep_point *point,
                              const struct lull_sweep_rules *rules, double now_s)
{
    const double window_s = now_s - point->begin.time_s;

    if (point->launches == 0)
        return false;
    if (window_s >= rules->max_s)
        return true;
    return has_enough(point, rules, window_s) &&
           interval_ratio(&point->time_ms) <= rules->interval_ratio &&
           (point->power_w.count == 0 || interval_ratio(&point->power_w) <= rules->interval_ratio);
}

bool lull_sweep_is_impossible(double sm_mhz, double time_ms, double base_sm_mhz,
                              double base_time_ms, double margin_ratio)
{
    return time_ms / base_time_ms > base_sm_mhz / sm_mhz * (1.0 + margin_ratio);
}

/* ---- reasons to reject it ------------------------------------------------------------------ */

/* A clock that is held down by heat or a power limit is not one that was not honoured. */
static bool is_unhonoured(const struct lull_sweep_point *point,
                          const struct lull_sweep_rules *rules,
                          const struct lull_sweep_target *target,
                          const struct lull_sweep_result *result)
{
    const bool is_held = point->is_capped || point->is_throttled;

    /* Readings are whole MHz, and clocks need not be. */
    if (!is_held && fabs(result->sm_mhz - target->sm_mhz) > target->step_mhz + 1.0)
        return true;
    if (is_held && result->sm_mhz > target->sm_mhz + target->step_mhz + 1.0)
        return true;
    return !is_held &&
           lull_sweep_is_impossible(target->sm_mhz, result->time_ms, target->base_sm_mhz,
                                    target->base_time_ms, rules->clock_ratio);
}

static bool is_noisy(const struct lull_sweep_point *point, const struct lull_sweep_rules *rules)
{
    /* A single run, as of a long command, has no measure of noise; repeats do. */
    const double time_ratio = point->time_ms.count < 2 ? 0.0 : interval_ratio(&point->time_ms);
    const double power_ratio = point->power_w.count < 2 ? 0.0 : interval_ratio(&point->power_w);

    return time_ratio > rules->noise_ratio || power_ratio > rules->noise_ratio;
}

static uint32_t sweep_point_find_marks(const struct lull_sweep_point *point,
                                       const struct lull_sweep_rules *rules,
                                       const struct lull_sweep_target *target,
                                       const struct lull_sweep_result *result)
{
    uint32_t marks = 0;

    if (is_unhonoured(point, rules, target, result))
        marks |= LULL_SWEEP_CLOCK;
    if (point->is_throttled)
        marks |= LULL_SWEEP_THERMAL;
    if (point->is_capped && !target->has_own_limit)
        marks |= LULL_SWEEP_POWER;
    if (!has_enough(point, rules, result->window_s))
        marks |= LULL_SWEEP_SHORT;
    if (is_noisy(point, rules))
        marks |= LULL_SWEEP_NOISE;
    if (target->has_counter && !result->is_counted)
        marks |= LULL_SWEEP_COUNTER;
    if (point->has_others)
        marks |= LULL_SWEEP_OTHER_PROCESS;
    return marks;
}

/* ---- time and power ------------------------------------------------------------------------ */

/* Power by the counter between the edges; NAN: it failed. */
static double counted_w(const struct lull_sweep_point *point, const struct lull_sweep_rules *rules,
                        const struct lull_sweep_edge *end, double tail_s, double tail_w)
{
    const double window_s = end->time_s - point->begin.time_s;
    const double counted_j = end->counter_j - point->begin.counter_j;
    double power_w;

    if (!point->begin.is_found || !end->is_found || point->has_counter_failed ||
        end->counter_j < point->counter_j || tail_s >= window_s)
        return NAN;
    power_w = (counted_j - tail_s * tail_w) / (window_s - tail_s);
    if (power_w <= 0.0)
        return NAN;
    if (point->power_w.count > 0 &&
        fabs(power_w / point->power_w.mean - 1.0) > rules->counter_ratio)
        return NAN;
    return power_w;
}

void lull_sweep_point_end(const struct lull_sweep_point *point,
                          const struct lull_sweep_rules *rules,
                          const struct lull_sweep_target *target, const struct lull_sweep_edge *end,
                          double tail_s, double tail_w, struct lull_sweep_result *result_out)
{
    const double power_w = counted_w(point, rules, end, tail_s, tail_w);

    assert(point->launches > 0 && end->time_s > point->begin.time_s);
    *result_out = (struct lull_sweep_result){
        .sm_mhz = sweep_point_median(&point->sm_mhz),
        .sm_min_mhz = point->sm_min_mhz,
        .sm_max_mhz = point->sm_max_mhz,
        .mem_mhz = sweep_point_median(&point->mem_mhz),
        .temperature_c = sweep_point_median(&point->temperature_c),
        .launches = point->launches,
        .time_ms = 1e3 * point->seconds / (double)point->launches,
        .time_sd_ms = point->time_ms.count < 2 ? NAN : sqrt(lull_moments_variance(&point->time_ms)),
        .power_sd_w = point->power_w.count < 2 ? NAN : sqrt(lull_moments_variance(&point->power_w)),
        .window_s = end->time_s - point->begin.time_s - tail_s,
        .is_counted = !isnan(power_w),
        .reasons = point->reasons,
    };
    result_out->power_w = power_w;
    if (!result_out->is_counted && point->power_w.count > 0)
        result_out->power_w = point->power_w.mean;
    result_out->energy_j = result_out->power_w * result_out->window_s;
    result_out->marks = sweep_point_find_marks(point, rules, target, result_out);
}

/* ---- warmth -------------------------------------------------------------------------------- */

bool lull_sweep_warmth_take(struct lull_sweep_warmth *warmth, double time_s, double temperature_c,
                            double still_s)
{
    if (isnan(temperature_c))
        return warmth->is_begun && time_s - warmth->since_s >= still_s;
    if (!warmth->is_begun ||
        fmax(warmth->max_c, temperature_c) - fmin(warmth->min_c, temperature_c) > 1.0) {
        *warmth = (struct lull_sweep_warmth){true, temperature_c, temperature_c, time_s};
        return false;
    }
    warmth->min_c = fmin(warmth->min_c, temperature_c);
    warmth->max_c = fmax(warmth->max_c, temperature_c);
    return time_s - warmth->since_s >= still_s;
}
