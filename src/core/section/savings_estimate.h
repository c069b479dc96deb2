/*
 * Estimates how much of a GPU's gaps could have run at a low clock, and the resulting saving, with
 * a driver that needs down_ns until a lowering and up_ns until a raising takes effect.
 *
 * alone: each gap is switched separately. The lowering is requested when the gap begins, the
 *   raising ahead of its end, so that it is low for length - down - up. Only gaps for which that
 *   pays count, by the rule that also holds in a run (lull_forecast_pays: longer than down + up and
 *   a quarter).
 * merged: neighbouring gaps and the computation between them may be one section, switched as above
 *   but once; the computation inside then runs low and takes longer. Sections are chosen so that
 *   gap time - break-even time of each section - price * computation inside is greatest, with the
 *   lowest price at which all computation at the low clock stays within an allowance. So two
 *   gaps are joined where the computation between them is short against what joining gains.
 * feed_forward: perfect foresight. Lowering and raising are requested ahead, so that the clock is
 *   low for the whole gap and never beside computation. Gaps longer than down + up are switched;
 *   one driver serves one request at a time, so a lowering has effect down_ns after the raising
 *   before it at the earliest.
 * ideal: the driver switches at once and at no cost.
 *
 * Pure. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SECTION_SAVINGS_ESTIMATE_H
#define LULL_CORE_SECTION_SAVINGS_ESTIMATE_H

#include <stddef.h>
#include <stdint.h>

#include "core/section/exposure.h"

struct lull_switch_latency {
    int64_t down_ns; /* >= 0 */
    int64_t up_ns;
};

/* The part of a rank's time at the low clock. To sum it over ranks, add up the members. */
struct lull_switchable {
    uint64_t sections;       /* lowered and raised again, once each */
    double gap_ms;           /* low, without compute kernels */
    double communication_ms; /* the part of gap_ms that communicates, taken as even over each gap */
    double slowed_ms;        /* low, with compute kernels, in time at the full clock */
};

/* Power of a GPU at the highest clock and at the low one, W. */
struct lull_power_level {
    double compute_w;       /* compute kernels run */
    double idle_w;          /* a context is alive and nothing runs */
    double communication_w; /* on top of either while communicating */
};

struct lull_power_levels {
    struct lull_power_level high;
    struct lull_power_level low;
    double low_speed_ratio; /* of computation at the low clock, in (0, 1] */
};

/* gaps: in the order in which lull_exposure_gaps gives them. O(n). */
void lull_switchable_ideal(const struct lull_gap *gaps, size_t count,
                           struct lull_switchable *switchable_out);
void lull_switchable_alone(const struct lull_gap *gaps, size_t count,
                           const struct lull_switch_latency *latency,
                           struct lull_switchable *switchable_out);
void lull_switchable_feed_forward(const struct lull_gap *gaps, size_t count,
                                  const struct lull_switch_latency *latency,
                                  struct lull_switchable *switchable_out);

/* O(48 n). Error: -ENOMEM. */
int lull_switchable_merged(const struct lull_gap *gaps, size_t count,
                           const struct lull_switch_latency *latency, double allowed_slowed_ms,
                           struct lull_switchable *switchable_out);

/* Energy of a rank with the highest clock all the time, J. */
double lull_exposure_energy_j(const struct lull_exposure *exposure,
                              const struct lull_power_levels *levels);

/* The part of that energy which is saved when this much runs low, J; the switches themselves are
 * taken to cost nothing. */
double lull_savings_estimate_j(const struct lull_switchable *switchable,
                               const struct lull_power_levels *levels);

#endif
