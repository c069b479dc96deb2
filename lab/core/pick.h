/*
 * The operating point of least energy per launch, among given times and powers: measured ones or
 * those of a model. Pure; any thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_CORE_PICK_H
#define LULL_LAB_CORE_PICK_H

#include <stdint.h>

/*
 * Returns the index of the least time x power among those points whose time is at most that of the
 * base times (1 + slowdown_ratio); INFINITY: among all. Of equal ones the first. times and powers
 * have `count` values > 0; base < count.
 */
uint32_t lull_pick_point(const double *times_ms, const double *powers_w, uint32_t count,
                         uint32_t base, double slowdown_ratio);

#endif
