/*
 * Private to the prices of dwell (dwell_stretches.c, dwell_cut.c): one device, cut into stretches
 * of one clock. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_ROUND_DWELL_CUT_H
#define LULL_CORE_PIPELINE_ROUND_DWELL_CUT_H

#include "core/pipeline/round/dwell_state.h"

enum {
    LULL_CUT_CLOCKS = 64,
    LULL_CUT_EDGE = 24, /* operations at both ends of a device that a stretch may end after, each */
    LULL_CUT_PLACES = 64, /* of all that it may end after */
};

struct stretch {
    double cost_nj;
    uint32_t mhz;
};

/* Prices, and the device at hand. */
struct pricing {
    struct search *search;
    double *price; /* of every operation, nJ per ns; at a price of 0 time is worth nothing */
    int64_t *begin_ns;
    double level;    /* what the prices of a path add up to, about */
    double least_nj; /* of the plans in time */
    uint32_t *kept;
    int64_t least_late_ns;

    /* Of the device at hand. Stretches begin at places, and end at them: place i is ahead of
     * operation starts[i] of the device, the last place behind all of them. */
    const uint32_t *ops;
    uint32_t last; /* place */
    uint32_t starts[LULL_CUT_PLACES + 1];
    int64_t time_ns[LULL_CUT_PLACES + 1]; /* when the device is told a clock there */
    uint32_t clock_count;
    uint32_t clocks[LULL_CUT_CLOCKS];
    double sums[LULL_CUT_CLOCKS]
               [LULL_CUT_PLACES + 1]; /* what the operations ahead of a place cost */
    struct stretch best[LULL_CUT_PLACES][LULL_CUT_PLACES + 1];
    double inner[LULL_CUT_PLACES + 1];
    uint32_t parent[LULL_CUT_PLACES + 1];
};

/*
 * Gives the device, in search->plan, the stretches that are the cheapest at these prices: energy
 * and priced time together, none shorter than the dwell as far as the times of search->end_ns,
 * those of the plan walked through last, still hold. O(places^3 + places^2 clocks).
 */
void lull_dwell_cut(struct pricing *pricing, uint32_t device);

#endif
