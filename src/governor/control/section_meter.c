/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/control/section_meter.h"

#include <math.h>

#include "base/clock.h"

/* Fewer readings do not determine the power of a kind of section. */
enum { MIN_READINGS = 10 };

static const struct lull_metered_section computation = {.kind = LULL_LIVE_COMPUTATION};

/* Ends the present section and begins another. */
static void section_meter_change(struct lull_section_meter *meter, int64_t time_ns,
                                 const struct lull_metered_section *section)
{
    struct lull_metered_sections *const open = &meter->sections[meter->now.kind];

    if (section->kind == meter->now.kind && meter->since_ns != 0)
        return;
    time_ns = lull_later_ns(time_ns, meter->since_ns);
    if (meter->since_ns != 0 && meter->now.kind != LULL_LIVE_NO_SECTION) {
        open->count++;
        open->seconds += (double)(time_ns - meter->since_ns) * 1e-9;
    }
    meter->now = *section;
    meter->since_ns = time_ns;
    meter->past[meter->changes++ % LULL_SECTION_METER_PAST] =
        (struct lull_metered_change){.time_ns = time_ns, .kind = section->kind};
}

void lull_section_meter_begin(struct lull_section_meter *meter, int64_t time_ns,
                              const struct lull_metered_section *section)
{
    if (meter->depth < LULL_SECTION_METER_DEPTH) {
        meter->around[meter->depth] = meter->depth == 0 ? computation : meter->now;
        section_meter_change(meter, time_ns, section);
    }
    meter->depth++;
}

void lull_section_meter_end(struct lull_section_meter *meter, int64_t time_ns)
{
    if (meter->depth == 0)
        return;
    meter->depth--;
    if (meter->depth < LULL_SECTION_METER_DEPTH)
        section_meter_change(meter, time_ns, &meter->around[meter->depth]);
}

void lull_section_meter_leave(struct lull_section_meter *meter, int64_t time_ns)
{
    meter->depth = 0;
    section_meter_change(meter, time_ns,
                         &(struct lull_metered_section){.kind = LULL_LIVE_NO_SECTION});
}

/* Returns the section at a time, which may be some changes back. NO_SECTION: unknown. */
static uint32_t kind_at(const struct lull_section_meter *meter, int64_t time_ns)
{
    for (uint64_t back = 1; back <= meter->changes && back <= LULL_SECTION_METER_PAST; back++) {
        const struct lull_metered_change *const past =
            &meter->past[(meter->changes - back) % LULL_SECTION_METER_PAST];

        if (past->time_ns <= time_ns)
            return past->kind;
    }
    return LULL_LIVE_NO_SECTION;
}

void lull_section_meter_take_power(struct lull_section_meter *meter, int64_t time_ns,
                                   double power_w)
{
    lull_moments_add(&meter->sections[kind_at(meter, time_ns)].power_w, power_w);
}

double lull_section_meter_energy_j(const struct lull_section_meter *meter, uint32_t kind,
                                   double window_s, enum lull_live_unknown *reason_out)
{
    const struct lull_metered_sections *const sections = &meter->sections[kind];

    *reason_out = LULL_LIVE_TOO_EARLY;
    if (sections->count == 0 || sections->power_w.count < MIN_READINGS)
        return (double)NAN;
    *reason_out = LULL_LIVE_TOO_SHORT;
    if (sections->seconds < window_s * (double)sections->count)
        return (double)NAN;
    *reason_out = LULL_LIVE_KNOWN;
    return sections->power_w.mean * sections->seconds;
}
