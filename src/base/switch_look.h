/*
 * The times at which a clock is read back after it was set. Periodic readings show only between
 * which two readings a clock settled. So the delay of the first reading varies from change to
 * change, in steps of an eighth of the period. A constant settling time can then be measured to a
 * fraction of the period (core/switching/switch_cost.h).
 *
 * Pure. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_SWITCH_LOOK_H
#define LULL_BASE_SWITCH_LOOK_H

#include <stdint.h>

/* The period of readings, short enough to see a settling time of some milliseconds. */
#define LULL_SWITCH_LOOK_NS INT64_C(1500000)

/* The delay, ns, from the return of the change with this number to its first reading, for readings
 * step_ns > 0 apart: from an eighth of step_ns to all of it. A lowering and the raising after it
 * have the same delay, so that both go through all delays. */
static inline int64_t lull_switch_first_look_ns(int64_t step_ns, uint64_t number)
{
    static const int64_t eighths[] = {8, 4, 6, 2, 7, 3, 5, 1};

    return step_ns * eighths[number / 2 % 8] / 8;
}

#endif
