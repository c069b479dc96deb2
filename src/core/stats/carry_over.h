/*
 * Tests whether iterations at the reference are slower directly after the candidate than later.
 * Such a carry-over hides a slowdown from pairs of short blocks.
 *
 * Coins decide whether a block at the reference follows one at the candidate (exposed) or one at
 * the reference (clean). So without carry-over both kinds differ from the level before them by the
 * same on average, whatever the job does. The two are compared by Student's t with pooled variance.
 * The idea of testing the order of carry-over is that of Bojinov, Simchi-Levi, Zhao 2023, "Design
 * and analysis of switchback experiments".
 *
 * Pure; caller's storage; zero-initialised is empty. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_STATS_CARRY_OVER_H
#define LULL_CORE_STATS_CARRY_OVER_H

#include <stdbool.h>

#include "core/stats/moments.h"

struct lull_carry_over {
    struct lull_moments exposed; /* relative deviations of blocks from the level before them */
    struct lull_moments clean;
};

void lull_carry_over_add(struct lull_carry_over *carry, bool is_exposed, double deviation_ratio);

/* Returns whether there are enough blocks of both kinds to detect a carry-over that is large
 * compared with the scatter of blocks. */
bool lull_carry_over_is_tested(const struct lull_carry_over *carry);

/* Returns how much slower exposed blocks are, at most (by two standard errors), where they are
 * slower by min_ratio (>= 0) or more, and by chance only with this error; else 0. */
double lull_carry_over_find(const struct lull_carry_over *carry, double min_ratio, double error);

#endif
