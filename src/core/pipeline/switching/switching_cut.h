/*
 * What switching_stretches.c and switching_cut.c share: one device, cut into stretches of one
 * clock. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_SWITCHING_SWITCHING_CUT_H
#define LULL_CORE_PIPELINE_SWITCHING_SWITCHING_CUT_H

#include "core/pipeline/switching/switching_state.h"

/* Bounds of the dynamic program's work; commit 7051d5f measured what plans gain by it. */
enum {
    LULL_CUT_CLOCKS = 64,
    LULL_CUT_EDGE = 24,   /* a stretch may end after each of this many operations at either end */
    LULL_CUT_PLACES = 64, /* a stretch may end at this many places of a device in all */
};

struct lull_switching_stretch {
    double cost_nj;
    uint32_t mhz;
};

/* Prices, and the device at hand. */
struct lull_switching_pricing {
    struct lull_switching_search *search;
    double *price; /* of every operation's time, nJ per ns */
    int64_t *begin_ns;
    double level;    /* about what the prices of a path add up to */
    uint32_t *kept;  /* the cheapest plan in time, or the least late one */
    double least_nj; /* its cost; infinite while no plan was in time */
    int64_t least_late_ns;

    /* The device at hand. Stretches begin and end at places: place i is ahead of operation
     * starts[i] of the device, the last place after all of them. */
    const uint32_t *ops;
    uint32_t last; /* place */
    uint32_t starts[LULL_CUT_PLACES + 1];
    int64_t time_ns[LULL_CUT_PLACES + 1]; /* when the device is told a clock there */
    uint32_t clock_count;
    uint32_t clocks[LULL_CUT_CLOCKS];
    double sums[LULL_CUT_CLOCKS]
               [LULL_CUT_PLACES + 1]; /* what the operations ahead of a place cost */
    struct lull_switching_stretch best[LULL_CUT_PLACES][LULL_CUT_PLACES + 1];
    double inner[LULL_CUT_PLACES + 1];
    uint32_t parent[LULL_CUT_PLACES + 1];
};

/*
 * Gives the device, in search->plan, the stretches that cost least at these prices: energy and
 * priced time together. None is shorter than the dwell at the times of search->end_ns, those of the
 * plan that was walked through last. O(places^3 + places^2 clocks).
 */
void lull_switching_cut(struct lull_switching_pricing *pricing, uint32_t device);

#endif
