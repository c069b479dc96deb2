/*
 * Estimates one GPU's power at each level (power_share.h) from its readings at the current level: a
 * level is a highest clock, level k of n is lowest + k (highest - lowest) / (n - 1).
 *
 * The power is modelled as a + b x^LULL_POWER_DRAW_EXPONENT of the clock x, fitted to all levels
 * with readings and bent to go through each of them. With readings at only one level,
 * LULL_POWER_DRAW_STATIC represents a. Above all levels with readings it is assumed to rise as the
 * cube, which is more than GPUs do: a raising is cautious, and its reading improves the next
 * estimate. A power far from earlier readings at the same level means that the work has changed:
 * all readings are dropped.
 *
 * A GPU may run below its allowed clock, because of its power limit, heat or lack of work. Its
 * reading then counts for the level that it reaches, and for all above.
 *
 * Pure; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_POWER_POWER_DRAW_H
#define LULL_CLUSTER_CORE_POWER_POWER_DRAW_H

#include <stdint.h>

#include "cluster/core/power/power_share.h"

/* Assumptions for a GPU with few readings. They fall slightly less with the clock than on an
 * emulated A100: from 1410 to 829 MHz its power falls to 0.55 (measured on 8 of them); with these
 * assumptions it would be 0.59. */
#define LULL_POWER_DRAW_STATIC 0.25
#define LULL_POWER_DRAW_EXPONENT 1.5

struct lull_power_draw {
    uint32_t highest_mhz;
    double clock_ratio[LULL_POWER_LEVELS]; /* of the highest clock, rising to 1 */
    double seen_w[LULL_POWER_LEVELS];      /* 0: no reading */
    uint32_t reach;                        /* the highest level that it reaches */
};

/* lowest_mhz <= highest_mhz; 0 and 0: its clock cannot be lowered, all levels are one. */
void lull_power_draw_init(struct lull_power_draw *draw, uint32_t lowest_mhz, uint32_t highest_mhz);

/* The GPU draws power_w > 0 while a level is allowed, and runs at clock_mhz; 0: unknown. */
void lull_power_draw_take(struct lull_power_draw *draw, uint32_t level, uint32_t clock_mhz,
                          double power_w);

/* Writes power_w_out [LULL_POWER_LEVELS], never falling. unknown_w: its power at the highest
 * level if there are no readings. */
void lull_power_draw_predict(const struct lull_power_draw *draw, double unknown_w,
                             double *power_w_out);

#endif
