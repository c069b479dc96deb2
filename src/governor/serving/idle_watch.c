/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/serving/idle_watch.h"

#include <math.h>

#include "base/clock.h"

/* A power above the level by this ratio and this many watts shows work. Idle boards vary by 1 to 4
 * % (docs/research/measurements/emulated-node.md), and a kernel at the lowest clock draws some 20 W
 * more than none. A lower bound raises idle GPUs by mistake, a higher one misses short kernels. */
static const double excess_ratio = 0.10;
static const double excess_w = 5.0;

/* The level is learnt from readings this long after the last work, or after a raise of the clock:
 * the windows of the sensors are over. */
static const int64_t learning_ns = 200 * LULL_NS_PER_MS;

/* Share of a reading in the level, where the reading is higher. Lower readings replace the level at
 * once. */
static const double rise_ratio = 0.02;

/* Power above the level without utilization for this long is no work: the level is wrong. Longer
 * than the longest sampling period of utilization. */
static const int64_t contradiction_ns = 2 * LULL_NS_PER_S;

/* Sampling period of utilization: 0.2 to 0.3 s on an H200. Where it is longer, up to 1 s, a
 * constant partial load is noticed as late as that. */
static const int64_t sampling_ns = 250 * LULL_NS_PER_MS;

/* A utilization older than this shows nothing. */
static const int64_t stale_ns = LULL_NS_PER_S;

static bool exceeds(double power_w, double level_w)
{
    return power_w > level_w * (1.0 + excess_ratio) + excess_w;
}

static double follow(double level_w, double power_w)
{
    return power_w < level_w ? power_w : level_w + rise_ratio * (power_w - level_w);
}

/* Returns whether the time is long enough after the last work for the level to be learnt. */
static bool is_learning(const struct lull_idle_watch *watch, int64_t time_ns)
{
    const int64_t since_ns = watch->was_busy ? watch->busy_ns : watch->begin_ns;

    return watch->has_utilization && time_ns - since_ns >= learning_ns &&
           time_ns - watch->raised_ns >= learning_ns;
}

/* Takes that power or energy exceeds its level, or does not. Returns whether that shows work.
 * Without utilization for long it shows that the level is wrong, and the levels are learnt again.
 */
static bool take_excess(struct lull_idle_watch *watch, int64_t time_ns, bool is_above)
{
    if (!is_above) {
        watch->excess_ns = 0;
        return false;
    }
    if (watch->excess_ns == 0)
        watch->excess_ns = time_ns;
    if (watch->used_ns >= watch->excess_ns || time_ns - watch->excess_ns < contradiction_ns)
        return true;
    lull_idle_watch_forget_levels(watch, time_ns);
    return false;
}

static bool shows_power(struct lull_idle_watch *watch, int64_t time_ns, double power_w)
{
    if (watch->has_power && take_excess(watch, time_ns, exceeds(power_w, watch->power_w)))
        return true;
    if (!is_learning(watch, time_ns))
        return false;
    watch->power_w = watch->has_power ? follow(watch->power_w, power_w) : power_w;
    watch->has_power = true;
    return false;
}

/* Takes a count that has grown. A refresh lies between the reading that shows it and the one
 * before, so the time between two refreshes is known within two limits, and with it the mean power.
 * Its lower limit shows work, and its upper limit is learnt where it is close, so that late
 * readings neither show work nor make the level too low. */
static bool shows_growth(struct lull_idle_watch *watch, int64_t time_ns, uint64_t energy_mj)
{
    const double joules = (double)(energy_mj - watch->energy_mj) * 1e-3;
    const double longest_s = (double)(time_ns - watch->energy_before_ns) * 1e-9;
    const double shortest_s = (double)(watch->read_ns - watch->energy_ns) * 1e-9;
    double most_w;

    if (watch->has_energy_level && exceeds(joules / longest_s, watch->energy_w) &&
        take_excess(watch, time_ns, true))
        return true;
    if (!is_learning(watch, time_ns) || 2.0 * shortest_s < longest_s)
        return false;
    most_w = joules / shortest_s;
    watch->energy_w = watch->has_energy_level ? follow(watch->energy_w, most_w) : most_w;
    watch->has_energy_level = true;
    return false;
}

static bool shows_energy(struct lull_idle_watch *watch, int64_t time_ns, uint64_t energy_mj)
{
    bool shows = false;

    if (watch->has_energy && energy_mj == watch->energy_mj) {
        watch->read_ns = time_ns;
        return false;
    }
    if (watch->has_energy && energy_mj > watch->energy_mj && watch->energy_before_ns != 0)
        shows = shows_growth(watch, time_ns, energy_mj);
    watch->energy_before_ns = watch->has_energy ? watch->read_ns : 0;
    watch->energy_mj = energy_mj;
    watch->energy_ns = time_ns;
    watch->read_ns = time_ns;
    watch->has_energy = true;
    return shows;
}

static bool shows_reason(struct lull_idle_watch *watch, uint64_t reasons)
{
    const bool was_idle = watch->has_idle_bit;

    watch->has_idle_bit = (reasons & LULL_CLOCK_REASON_IDLE) != 0;
    return was_idle && !watch->has_idle_bit;
}

/* The driver repeats a utilization until its next sampling period ends. The same value shows new
 * work only when it has been read for longer than that. */
static bool shows_utilization(struct lull_idle_watch *watch, int64_t time_ns, uint32_t percent)
{
    const bool is_new = !watch->has_utilization || percent != watch->percent;

    if (percent > 0)
        watch->used_ns = time_ns;
    if (is_new)
        watch->percent_ns = time_ns;
    watch->percent = percent;
    watch->has_utilization = true;
    watch->utilization_ns = time_ns;
    return percent > 0 && (is_new || time_ns - watch->percent_ns >= sampling_ns);
}

enum lull_idle_sign lull_idle_watch_take(struct lull_idle_watch *watch, int64_t time_ns,
                                         uint32_t wanted, const struct lull_device_reading *reading)
{
    const uint32_t valid = wanted & reading->valid;
    enum lull_idle_sign sign = LULL_IDLE_SIGN_NONE;

    if (!watch->has_begun)
        watch->begin_ns = time_ns;
    watch->has_begun = true;
    if ((valid & LULL_READING_REASONS) != 0 && shows_reason(watch, reading->reasons))
        sign = LULL_IDLE_SIGN_REASON;
    if ((valid & LULL_READING_POWER) != 0 && shows_power(watch, time_ns, reading->power_mw * 1e-3))
        sign = LULL_IDLE_SIGN_POWER;
    if ((valid & LULL_READING_ENERGY) != 0 && shows_energy(watch, time_ns, reading->energy_mj))
        sign = LULL_IDLE_SIGN_ENERGY;
    if ((valid & LULL_READING_UTILIZATION) != 0 &&
        shows_utilization(watch, time_ns, reading->utilization_percent))
        sign = LULL_IDLE_SIGN_UTILIZATION;
    if (sign != LULL_IDLE_SIGN_NONE)
        lull_idle_watch_note_work(watch, time_ns);
    return sign;
}

void lull_idle_watch_note_work(struct lull_idle_watch *watch, int64_t time_ns)
{
    if (!watch->was_busy || time_ns > watch->busy_ns)
        watch->busy_ns = time_ns;
    watch->was_busy = true;
}

void lull_idle_watch_forget_levels(struct lull_idle_watch *watch, int64_t now_ns)
{
    watch->raised_ns = now_ns;
    watch->excess_ns = 0;
    watch->has_power = false;
    watch->has_energy_level = false;
}

bool lull_idle_watch_is_idle(const struct lull_idle_watch *watch, int64_t now_ns, int64_t after_ns)
{
    const int64_t since_ns = watch->was_busy ? watch->busy_ns : watch->begin_ns;

    return watch->has_utilization && now_ns - watch->utilization_ns < stale_ns &&
           now_ns - since_ns >= after_ns;
}

bool lull_idle_watch_shows_work(const struct lull_idle_watch *watch, int64_t now_ns,
                                int64_t within_ns)
{
    return watch->was_busy && now_ns - watch->busy_ns < within_ns;
}

double lull_idle_watch_level_w(const struct lull_idle_watch *watch)
{
    if (watch->has_power)
        return watch->power_w;
    return watch->has_energy_level ? watch->energy_w : (double)NAN;
}

const char *lull_idle_sign_text(enum lull_idle_sign sign)
{
    static const char *const texts[] = {
        [LULL_IDLE_SIGN_NONE] = "none",
        [LULL_IDLE_SIGN_UTILIZATION] = "utilization",
        [LULL_IDLE_SIGN_ENERGY] = "energy counter",
        [LULL_IDLE_SIGN_POWER] = "power",
        [LULL_IDLE_SIGN_REASON] = "idle bit",
    };

    return texts[sign];
}
