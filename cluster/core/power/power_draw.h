/*
 * What one GPU would draw at each level (power_share.h), learnt from what it draws where it is: a
 * level is a highest clock, level k of n is lowest + k (highest - lowest) / (n - 1).
 *
 * The power is taken to be a + b x^LULL_POWER_DRAW_EXPONENT of the clock x, fitted to all levels
 * that were seen and bent to go through each of them. Where one level alone was seen,
 * LULL_POWER_DRAW_STATIC represents a. Above all levels that were seen it is taken to rise as the
 * cube, which is more than GPUs do: a raising is rather too careful than too bold, and what it
 * finds makes the next one better. A power that is far from what was seen at the same level is of
 * other work: all that was learnt is forgotten.
 *
 * A GPU may run below the clock that it is let: its own power limit or heat holds it, or it has
 * nothing to do. What it draws is then of the level that it reaches, and of all above.
 *
 * Pure; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_POWER_POWER_DRAW_H
#define LULL_CLUSTER_CORE_POWER_POWER_DRAW_H

#include <stdint.h>

#include "cluster/core/power/power_share.h"

/* What is taken to hold of a GPU of which little is known: both fall a little less with the clock
 * than what an emulated A100 does whose clock is lowered from 1410 to 829 MHz, which then draws
 * 0.55 of its power (measured on 8 of them); these two say 0.59. */
#define LULL_POWER_DRAW_STATIC 0.25
#define LULL_POWER_DRAW_EXPONENT 1.5

struct lull_power_draw {
    uint32_t highest_mhz;
    double clock_ratio[LULL_POWER_LEVELS]; /* of the highest clock, rising to 1 */
    double seen_w[LULL_POWER_LEVELS];      /* 0: not seen */
    uint32_t reach;                        /* the highest level that it gets to */
};

/* lowest_mhz <= highest_mhz; 0 and 0: its clock cannot be lowered, all levels are one. */
void lull_power_draw_init(struct lull_power_draw *draw, uint32_t lowest_mhz, uint32_t highest_mhz);

/* The GPU draws power_w > 0 while it is let run at a level, and runs at clock_mhz; 0: unknown. */
void lull_power_draw_take(struct lull_power_draw *draw, uint32_t level, uint32_t clock_mhz,
                          double power_w);

/* Writes power_w_out [LULL_POWER_LEVELS], never falling. unknown_w: what it draws at the highest
 * level if nothing was seen. */
void lull_power_draw_predict(const struct lull_power_draw *draw, double unknown_w,
                             double *power_w_out);

#endif
