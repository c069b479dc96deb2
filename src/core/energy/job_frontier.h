/*
 * The frontier of a job: the savings at several slowdowns (its budgets), from the trials of one
 * run.
 *
 * A pair of a trial's blocks is iterations at the highest clocks and, next to them, iterations at a
 * candidate. So the ratios of their times and energies are free of drift, and whole iterations are
 * compared, with the same share of computation and waiting on both sides. Pairs of one steady point
 * with the same points of sections and gaps are combined. Their scatter, pooled over all points,
 * gives the uncertainty of a ratio.
 *
 * An iteration that takes far longer than most, on either side, is attributed to the host (a stall,
 * a checkpoint) and excluded.
 *
 * Between and beyond the points that were visited:
 *   time   is t0 + a / clock, by least squares.
 *   power  falls with the clock and is convex. Between two visited clocks it lies on their chord,
 *          or below it by as much as a parabola that is flat at the lower of them. Below the
 *          lowest one it lies between that one's power and the flattest chord, drawn out.
 * A budget's saving is that of the best clock whose time is within it. Its interval ranges from the
 * certain saving of clocks that are certainly within the budget to the possible saving of clocks
 * that may be within it.
 *
 * Pure; caller's storage; one thread. Ratios are of the job at its highest clocks.
 * Source: none; design.md section 4, "One budget, many levers".
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_ENERGY_JOB_FRONTIER_H
#define LULL_CORE_ENERGY_JOB_FRONTIER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/stats/quantile.h"
#include "core/switching/visit.h"

enum {
    LULL_JOB_FRONTIER_BUDGETS = 6,
    LULL_JOB_FRONTIER_SETTINGS =
        128, /* settings that are distinguished; pairs of further ones are left out */
};

/* 0, 0.2, 0.5, 1, 2 and 5 % of time. */
extern const double lull_job_frontier_budgets[LULL_JOB_FRONTIER_BUDGETS];

/* The beginning of an iteration. */
struct lull_job_frontier_mark {
    int64_t time_ns;
    double energy_j; /* of all the job's GPUs, since any time; NAN: it is not known */
    bool is_first;   /* no iteration ends here */
    struct lull_visit visit;
};

/* Iterations of one side of a pair. */
struct lull_job_frontier_side {
    uint64_t iterations;
    double seconds;
    double energy_j;
};

/* A mean of values of different precision (West 1979). */
struct lull_job_frontier_mean {
    uint32_t count;
    double weight;
    double mean;
    double squares; /* weighted sum of squared deviations */
};

/* All pairs of one steady point with the same points of sections and gaps. */
struct lull_job_frontier_setting {
    uint64_t others;
    uint32_t point;
    struct lull_job_frontier_mean time;   /* log of the ratio of times of an iteration */
    struct lull_job_frontier_mean energy; /* ...and of energies */
    struct lull_job_frontier_mean
        blur; /* share of the blocks' energy that a late reading may misplace */
    struct lull_job_frontier_side sums[2]; /* by visit.is_candidate, where energy is known */
};

struct lull_job_frontier {
    struct lull_job_frontier_setting settings[LULL_JOB_FRONTIER_SETTINGS];
    uint32_t setting_count;
    struct lull_job_frontier_mark last; /* the mark before */
    bool has_last;
    int64_t changed_ns;             /* when the points changed last */
    struct lull_quantile lengths_s; /* of the last measured iterations */
    bool is_paired;                 /* a pair is under way: */
    struct lull_visit candidate;
    struct lull_job_frontier_side times[2]; /* its measured iterations, by visit.is_candidate... */
    struct lull_job_frontier_side
        energies[2]; /* ...and those of them whose energy is distinguished */
};

struct lull_job_frontier_point {
    double slowdown_ratio; /* the budget */
    double saving_ratio;   /* NAN: it is not known, for the reason */
    double low_ratio;      /* 95 % interval; NAN: not known, though the saving is */
    double high_ratio;
    uint32_t point;     /* the clock that saves saving_ratio; undefined where it is NAN */
    bool is_measured;   /* that clock was visited; else its saving is predicted */
    const char *reason; /* why nothing is known; NULL: something is */
};

/* The combined result of all pairs of one setting, as ratios of the job at its highest clocks. */
struct lull_job_frontier_tried {
    uint64_t others; /* as in a visit */
    uint32_t point;
    uint32_t pairs;
    double slowdown_ratio;
    double slowdown_half_ratio; /* half of the 95 % interval; INFINITY with one pair */
    double saving_ratio;        /* NAN: the energy within the blocks is not known */
    double low_ratio;           /* its 95 % interval; NAN with it, infinite with one pair */
    double high_ratio;
};

/* Takes the marks of a run in the order of their times. */
void lull_job_frontier_take(struct lull_job_frontier *frontier,
                            const struct lull_job_frontier_mark *mark);

/*
 * Computes the savings of the budgets with these points of sections and gaps (visit.others).
 * clocks_mhz: the clock list that points index, the highest first, clock_count >= 1; gpus: how many
 * GPUs the energy is of, >= 1. points_out: one for each budget, in their order.
 */
void lull_job_frontier_answer(const struct lull_job_frontier *frontier, uint64_t others,
                              const uint32_t *clocks_mhz, uint32_t clock_count, uint32_t gpus,
                              struct lull_job_frontier_point *points_out);

/*
 * Makes points consistent with a run's result for its accepted setting, so that one clock has one
 * saving and one interval. If a budget's best clock is that of the setting, its figures become the
 * setting's. A proof found the setting to be within tolerance_ratio (INFINITY: nothing is proven),
 * so that no budget from there on saves less than the setting. Afterwards no budget saves less than
 * a smaller one. points: of the setting's `others`, as above. A setting whose saving is not known
 * changes nothing; an interval that is not known becomes NAN.
 */
void lull_job_frontier_include(const struct lull_job_frontier_tried *kept, double tolerance_ratio,
                               struct lull_job_frontier_point *points);

/*
 * Lists the settings that whole pairs of blocks have compared with the reference, in the order in
 * which they were first tried. gpus: as above. tried_out: LULL_JOB_FRONTIER_SETTINGS of them.
 * Returns how many there are.
 */
uint32_t lull_job_frontier_list(const struct lull_job_frontier *frontier, uint32_t gpus,
                                struct lull_job_frontier_tried *tried_out);

#endif
