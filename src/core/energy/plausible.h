/*
 * The plausibility of power and energy readings, with one rule for GPUs of all vendors.
 *
 * A power is plausible within the range that the board can draw. An energy is credible unless one
 * of its sensors contradicts the other, or the possible power of the board. Then no figure is
 * known, because it is unknown which sensor is right.
 *
 * Pure; any thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_ENERGY_PLAUSIBLE_H
#define LULL_CORE_ENERGY_PLAUSIBLE_H

#include <stdbool.h>
#include <stdint.h>

/* The powers that a board can draw, W. */
struct lull_power_range {
    double lowest_w; /* at all times; 0: it may draw nothing */
    double highest_w;
};

/* Returns the range of a GPU whose highest power limit this is, W; 0: that is not known. Power may
 * briefly overshoot the limit by a fifth. A GPU whose driver answers draws 2 W: the smallest boards
 * idle at some 5 W. Without a limit, 1500 W is the bound. */
static inline struct lull_power_range lull_power_range_of_gpu(double highest_limit_w)
{
    return (struct lull_power_range){
        .lowest_w = 2.0,
        .highest_w = highest_limit_w > 0.0 ? 1.2 * highest_limit_w : 1500.0,
    };
}

/* Returns whether the board can draw this. NAN is not plausible. */
static inline bool lull_power_is_plausible(const struct lull_power_range *range, double power_w)
{
    return power_w >= range->lowest_w && power_w <= range->highest_w;
}

/* The readings that an energy was computed from. */
struct lull_energy_evidence {
    struct lull_power_range range;
    double seconds;      /* from the first reading to the last */
    double energy_j;     /* of that time */
    double blind_s;      /* of it, in which neither sensor was read */
    uint32_t leaps;      /* number of times that the counter rose by more than the board can draw */
    double counted_j;    /* the counter's growth while the power was read as well... */
    double counted_s;    /* ...in this time... */
    double polled_j;     /* ...of which this is the power's integral... */
    double polled_ratio; /* ...with this standard error, as a ratio */
    double edge_s;       /* possible time difference between the two */
};

enum lull_energy_doubt {
    LULL_ENERGY_CREDIBLE,
    LULL_ENERGY_BLIND,        /* neither sensor was read for too long */
    LULL_ENERGY_LEAPING,      /* the counter rises by more than the board can draw */
    LULL_ENERGY_CONTRADICTED, /* counter and power differ by more than sampling explains */
    LULL_ENERGY_TOO_HIGH,     /* the mean is more than the board can draw */
    LULL_ENERGY_TOO_LOW,      /* the mean is less than the board draws idle */
};

/* Judges an energy. The first reason in the order of the enumeration counts. */
enum lull_energy_doubt lull_energy_judge(const struct lull_energy_evidence *evidence);

#endif
