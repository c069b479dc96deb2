/*
 * Shares a power budget by weighted proportional fairness (Kelly, Maulloo and Tan, "Rate control
 * for communication networks", J. Oper. Res. Soc. 49, 1998), on levels instead of rates.
 *
 * Each claimant, a job, runs at one of a few levels, the same on all its GPUs; a level is a highest
 * clock, and has a speed and a power. Of all choices that keep every group (cluster, rack, node)
 * within its cap, the sum over the claimants of weight * log(speed) is to be highest. So no
 * claimant starves, equal jobs get equal shares, a claimant of twice the weight yields half as
 * readily, and watts go where they buy most speed. No claimant is put below its least level, even
 * if the caps are then exceeded.
 *
 * Steps between levels are taken in the order of what they gain for a watt, by the upper hull of
 * gain over power. Without the rounding to levels that would be the optimum for groups within
 * groups; the choice is off by at most one step for each group that is full.
 *
 * Pure. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_POWER_POWER_SHARE_H
#define LULL_CLUSTER_CORE_POWER_POWER_SHARE_H

#include <stdint.h>

enum { LULL_POWER_LEVELS = 32, LULL_POWER_NO_GROUP = UINT32_MAX };

struct lull_power_group {
    double cap_w;    /* of what is in it; INFINITY: none */
    uint32_t parent; /* the group that it is in, of a lower number; LULL_POWER_NO_GROUP: none */
};

/* A part of a claimant: its GPUs in one group. */
struct lull_power_claim {
    uint32_t claimant;
    uint32_t group;
    double power_w[LULL_POWER_LEVELS]; /* never falling */
};

struct lull_power_claimant {
    double weight;                   /* > 0 */
    uint32_t level_count;            /* 1 to LULL_POWER_LEVELS; the last one is not lowered */
    uint32_t least;                  /* level; < level_count */
    double speed[LULL_POWER_LEVELS]; /* > 0, rising */
};

/* The claimants and groups that share the watts. */
struct lull_power_claims {
    const struct lull_power_group *groups;
    uint32_t group_count;
    const struct lull_power_claimant *claimants;
    uint32_t claimant_count;
    const struct lull_power_claim *parts;
    uint32_t part_count;
};

/*
 * Writes the level of each claimant, and the largest excess of a group over its cap, W; 0: there is
 * none. Claimants without a part stay at their highest level. O(n log n) for n levels of all
 * claimants. -ENOMEM: nothing is written.
 */
int lull_power_share(const struct lull_power_claims *claims, uint32_t *level_out,
                     double *excess_w_out);

#endif
