/*
 * Chooses the start of a job that may wait so that the cost or the emissions of its power are
 * least, among all starts between now and the latest one that its deadline permits.
 *
 * A job draws the same all the time, so that what a start costs is the mean of the tariff over its
 * run. That mean is piecewise linear in the start, with bends where the run begins or ends at a
 * change of the tariff: only those need be looked at.
 *
 * Pure. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_POWER_POWER_SHIFT_H
#define LULL_CLUSTER_CORE_POWER_POWER_SHIFT_H

#include "cluster/core/power/power_meter.h"

struct lull_power_shift {
    int64_t begin_ns;
    double now_per_kwh;   /* the tariff's mean over a run from now on... */
    double begin_per_kwh; /* ...and from then on */
};

/*
 * Finds the earliest of the cheapest starts of a run of length_ns (> 0) from now_ns to latest_ns.
 * Runs are compared that end before the tariff's last time, for nothing is known beyond it, and a
 * start that is later than now has to save more than min_ratio (>= 0) of the mean of the tariff's
 * size over a run from now on: else the job begins now. O(n log n) for n changes of the tariff.
 */
struct lull_power_shift lull_power_shift_find(const struct lull_tariff *tariff, int64_t length_ns,
                                              int64_t now_ns, int64_t latest_ns, double min_ratio);

#endif
