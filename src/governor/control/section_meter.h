/*
 * Section meter: the present section of one GPU, and the totals of each kind of section, for live
 * views of the job.
 *
 * Sections nest: the innermost one counts, and a section within one of the same kind is part of it.
 * The time outside of sections is computation. A power reading counts for the section at its time.
 * Caller's storage, zero-initialised. Times: ns of one monotonic clock. Threads: one at a time.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_CONTROL_SECTION_METER_H
#define LULL_GOVERNOR_CONTROL_SECTION_METER_H

#include <stdint.h>

#include "core/stats/moments.h"
#include "wire/live.h"

enum {
    LULL_SECTION_METER_DEPTH = 8, /* open sections at once; deeper ones are not tracked */
    LULL_SECTION_METER_PAST = 32, /* changes kept for late readings */
};

/* A metered section. */
struct lull_metered_section {
    uint32_t kind;      /* enum lull_live_section */
    uint32_t operation; /* enum lull_operation */
    uint32_t name;      /* of LULL_OPERATION_USER, as the probes number the program's names */
};

struct lull_metered_sections {
    uint64_t count;
    double seconds;
    struct lull_moments power_w;
};

struct lull_metered_change {
    int64_t time_ns;
    uint32_t kind; /* from then on */
};

struct lull_section_meter {
    struct lull_metered_section now;
    int64_t since_ns; /* when it began; 0: nothing has been seen */
    uint32_t depth;   /* sections that are open */
    struct lull_metered_section around[LULL_SECTION_METER_DEPTH];
    struct lull_metered_change past[LULL_SECTION_METER_PAST];
    uint64_t changes;
    struct lull_metered_sections sections[LULL_LIVE_SECTION_COUNT];
};

/* Starts a section, or ends the innermost one. A time before the last one is replaced by the last
 * one.
 */
void lull_section_meter_begin(struct lull_section_meter *meter, int64_t time_ns,
                              const struct lull_metered_section *section);
void lull_section_meter_end(struct lull_section_meter *meter, int64_t time_ns);

/* Notes that the rank has ended; the totals of its sections stay. */
void lull_section_meter_leave(struct lull_section_meter *meter, int64_t time_ns);

/* The GPU's power was read at that time, W. */
void lull_section_meter_take_power(struct lull_section_meter *meter, int64_t time_ns,
                                   double power_w);

/* Returns the energy of all sections of a kind, J: their time at the mean of the readings in them.
 * NAN: it is not known, and *reason_out says why. window_s: averaging window of the sensor. Power
 * is unknown for sections that are shorter on average. */
double lull_section_meter_energy_j(const struct lull_section_meter *meter, uint32_t kind,
                                   double window_s, enum lull_live_unknown *reason_out);

#endif
