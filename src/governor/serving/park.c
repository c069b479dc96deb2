/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/serving/park.h"

#include <assert.h>
#include <math.h>

#include "base/clock.h"

/* The saving of a longer time without readings is extrapolated. */
static const int64_t gap_ns = LULL_NS_PER_S;

double lull_park_wake_s(uint32_t clock_mhz, uint32_t highest_mhz, double blind_s)
{
    return blind_s * (1.0 - (double)clock_mhz / highest_mhz);
}

uint32_t lull_park_clock(const uint32_t *clocks_mhz, uint32_t count, double blind_s, double wake_s)
{
    uint32_t lowest = 0;

    assert(count > 0);
    while (lowest + 1 < count &&
           lull_park_wake_s(clocks_mhz[lowest + 1], clocks_mhz[0], blind_s) <= wake_s)
        lowest++;
    return clocks_mhz[lowest];
}

void lull_park_begin(struct lull_park_record *record, int64_t now_ns, double idle_w)
{
    record->is_parked = true;
    record->count++;
    record->since_ns = now_ns;
    record->has_idle_w = isfinite(idle_w);
    record->has_reading = false;
    record->idle_w = idle_w;
}

void lull_park_end(struct lull_park_record *record, int64_t now_ns)
{
    record->parked_s = lull_park_seconds(record, now_ns);
    record->is_parked = false;
}

void lull_park_take_power(struct lull_park_record *record, int64_t time_ns, double power_w)
{
    const int64_t before_ns = record->reading_ns;

    if (!record->is_parked || !record->has_idle_w || time_ns < record->since_ns)
        return;
    record->reading_ns = time_ns;
    if (record->has_reading && time_ns - before_ns <= gap_ns) {
        const double seconds = (double)(time_ns - before_ns) * 1e-9;

        record->saved_j += (record->idle_w - power_w) * seconds;
        record->known_s += seconds;
    }
    record->has_reading = true;
}

double lull_park_seconds(const struct lull_park_record *record, int64_t now_ns)
{
    if (!record->is_parked)
        return record->parked_s;
    return record->parked_s + (double)(now_ns - record->since_ns) * 1e-9;
}

double lull_park_saved_j(const struct lull_park_record *record, int64_t now_ns)
{
    if (record->known_s <= 0.0)
        return (double)NAN;
    return record->saved_j * lull_park_seconds(record, now_ns) / record->known_s;
}
