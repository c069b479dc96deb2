/*
 * When a clock is read back after it was set.
 *
 * Periodic readings show only between which two of them a settling ended. So the first reading
 * comes sooner or later from change to change, in steps of an eighth: what always takes equally
 * long shows to a fraction of the time between two readings (core/switching/switch_cost.h).
 *
 * Pure. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_SWITCH_LOOK_H
#define LULL_BASE_SWITCH_LOOK_H

#include <stdint.h>

/* From one reading to the next: often enough to see a settling of some milliseconds. */
#define LULL_SWITCH_LOOK_NS INT64_C(1500000)

/* From the return of the change with this number to its first reading, ns, of readings that are
 * step_ns > 0 apart: an eighth of that to all of it. A lowering and the raising after it have it at
 * the same time, so that both come to see all of them. */
static inline int64_t lull_switch_first_look_ns(int64_t step_ns, uint64_t number)
{
    static const int64_t eighths[] = {8, 4, 6, 2, 7, 3, 5, 1};

    return step_ns * eighths[number / 2 % 8] / 8;
}

#endif
