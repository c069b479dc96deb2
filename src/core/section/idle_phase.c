/* SPDX-License-Identifier: Apache-2.0 */
#include "core/section/idle_phase.h"

#include <assert.h>
#include <math.h>

/* A phase is lowered after this time: far longer than a change of the clock takes, and than the
 * pauses between iterations. */
static const double least_s = 1.0;
/* The costs of so many raisings must be expected to remain of a phase. */
static const double worth_raisings = 20.0;
/* Guess of a raising's cost before the first: half the time within which a reading shows work, and
 * a change of the clock, at no speed at all. */
static const double first_cost_s = 0.15;
/* A raising without an answer counts as if it had taken so long. */
static const double unanswered_s = 1.0;
/* A GPU that was not read for this long is not known to be idle. */
static const double blind_s = 0.5;
/* A reading without work may be of so long before: drivers renew utilisation every 0.2 to 0.3 s
 * (measured on an H200), and power every 0.1 s or sooner. */
static const int64_t utilization_lag_ns = INT64_C(200000000);
static const int64_t power_lag_ns = INT64_C(100000000);
/* Power above that of the idle GPU so far by this share, and at least by some watts, shows work. */
static const double power_rise_ratio = 0.1;
static const double power_rise_w = 5.0;
/* Number of power readings from which the level of an idle GPU is taken. */
enum { LEVEL_READINGS = 3 };
/* The weight of the last raising in the mean cost. */
static const double cost_weight = 0.25;

static double idle_phase_seconds(int64_t from_ns, int64_t to_ns)
{
    return (double)(to_ns - from_ns) * 1e-9;
}

void lull_idle_phase_init(struct lull_idle_phase *phase, double rate, double lowest_ratio,
                          int64_t now_ns)
{
    assert(rate >= 0.0 && rate < 1.0 && lowest_ratio > 0.0 && lowest_ratio <= 1.0);
    *phase = (struct lull_idle_phase){
        .rate = rate,
        .lowest_ratio = lowest_ratio,
        .start_ns = now_ns,
        .begin_ns = now_ns,
        .cost_s = first_cost_s * (1.0 - lowest_ratio),
    };
}

/* ---- phases ------------------------------------------------------------------------------ */

/* Counts what the phase has saved by now. */
static void settle_low(struct lull_idle_phase *phase, int64_t now_ns)
{
    const double low_s = idle_phase_seconds(phase->low_ns, now_ns);

    phase->phases++;
    phase->low_s += low_s;
    if (phase->idle_w.count > 0 && phase->low_w.count > 0)
        phase->saved_j += low_s * (phase->idle_w.mean - phase->low_w.mean);
}

/* The GPU works again: since some time after the last reading, at the latest since now_ns. */
static void idle_phase_end(struct lull_idle_phase *phase, int64_t now_ns)
{
    const double length_s = idle_phase_seconds(phase->begin_ns, now_ns);
    const int64_t lag_ns = phase->low_w.count >= LEVEL_READINGS ? power_lag_ns : utilization_lag_ns;

    if (phase->is_low) {
        settle_low(phase, now_ns);
        phase->awaited_ns = now_ns - (now_ns - phase->reading_ns + lag_ns) / 2;
    }
    if (length_s >= least_s)
        phase->lengths_s[phase->length_count++ % LULL_IDLE_PHASES_KEPT] = length_s;
    phase->is_low = false;
    phase->begin_ns = now_ns;
    phase->reading_ns = 0;
    phase->idle_w = (struct lull_moments){0};
    phase->low_w = (struct lull_moments){0};
}

void lull_idle_phase_take_event(struct lull_idle_phase *phase, int64_t time_ns)
{
    if (time_ns > phase->begin_ns)
        idle_phase_end(phase, time_ns);
}

static bool has_risen(const struct lull_moments *level, double power_w)
{
    return level->count >= LEVEL_READINGS &&
           power_w - level->mean > fmax(power_rise_ratio * level->mean, power_rise_w);
}

void lull_idle_phase_take_reading(struct lull_idle_phase *phase, int64_t time_ns, bool is_busy,
                                  double power_w)
{
    struct lull_moments *const level = phase->is_low ? &phase->low_w : &phase->idle_w;

    if (time_ns <= phase->begin_ns)
        return;
    if (is_busy || has_risen(level, power_w)) {
        idle_phase_end(phase, time_ns);
        return;
    }
    phase->reading_ns = time_ns;
    /* The first readings at the lowest clock may be means over the time before. */
    if (isfinite(power_w) &&
        (!phase->is_low || idle_phase_seconds(phase->low_ns, time_ns) > blind_s))
        lull_moments_add(level, power_w);
}

void lull_idle_phase_take_raised(struct lull_idle_phase *phase, int64_t effect_ns)
{
    double cost_s;

    if (phase->awaited_ns == 0)
        return;
    cost_s =
        fmax(idle_phase_seconds(phase->awaited_ns, effect_ns), 0.0) * (1.0 - phase->lowest_ratio);
    phase->spent_s += cost_s;
    phase->cost_s += cost_weight * (cost_s - phase->cost_s);
    phase->awaited_ns = 0;
}

/* ---- decision ---------------------------------------------------------------------------- */

static double expect_rest_s(const struct lull_idle_phase *phase, double length_s)
{
    const uint32_t kept =
        phase->length_count < LULL_IDLE_PHASES_KEPT ? phase->length_count : LULL_IDLE_PHASES_KEPT;
    double rest_s = 0.0;
    uint32_t longer = 0;

    for (uint32_t i = 0; i < kept; i++) {
        if (phase->lengths_s[i] <= length_s)
            continue;
        rest_s += phase->lengths_s[i] - length_s;
        longer++;
    }
    return longer > 0 ? rest_s / longer : length_s;
}

static bool is_worth(const struct lull_idle_phase *phase, int64_t now_ns)
{
    const double length_s = idle_phase_seconds(phase->begin_ns, now_ns);
    const double earned_s = phase->rate * idle_phase_seconds(phase->start_ns, now_ns);

    return length_s >= least_s && phase->spent_s <= earned_s &&
           expect_rest_s(phase, length_s) >= worth_raisings * phase->cost_s;
}

/* Returns whether the GPU was read a short time ago, and was idle. */
static bool is_seen_idle(const struct lull_idle_phase *phase, int64_t now_ns)
{
    return phase->reading_ns != 0 && idle_phase_seconds(phase->reading_ns, now_ns) < blind_s;
}

bool lull_idle_phase_poll(struct lull_idle_phase *phase, int64_t now_ns)
{
    if (phase->awaited_ns != 0 && idle_phase_seconds(phase->awaited_ns, now_ns) > unanswered_s)
        lull_idle_phase_take_raised(phase, now_ns);
    if (!is_seen_idle(phase, now_ns)) {
        lull_idle_phase_stop(phase, now_ns);
        return false;
    }
    if (!phase->is_low && phase->awaited_ns == 0 && is_worth(phase, now_ns)) {
        phase->is_low = true;
        phase->low_ns = now_ns;
    }
    return phase->is_low;
}

void lull_idle_phase_stop(struct lull_idle_phase *phase, int64_t now_ns)
{
    if (!phase->is_low)
        return;
    settle_low(phase, now_ns);
    phase->is_low = false;
    phase->low_w = (struct lull_moments){0};
}
