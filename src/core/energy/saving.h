/*
 * A saving of energy and the half of its 95 % interval, from one or several runs without and with
 * Lull on the same GPUs. A gain of the boards' sensors cancels. What is left is the sum, as
 * squares, of
 *
 * - readings: counters and sensors are refreshed now and then (core/energy/account.h); shrinks with
 *   the length of the runs;
 * - runs: two runs of one program differ though nothing was changed. Where it was not measured, by
 *   more than one run of a kind, it is known from elsewhere only, as one scaled inverse chi-squared
 *   distribution of the variance: see saving.c;
 * - offset: watts that a board's sensor tells too much whatever the power is, the same in all runs.
 *   It weighs less in a run that draws more, so it does not cancel;
 * - level: how the error of a sensor differs from one level of power to another;
 * - sampling: a sensor that looks in step with the iterations (core/energy/strobe.h).
 *
 * Only the first of them shrinks as the runs get longer.
 *
 * Pure. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_ENERGY_SAVING_H
#define LULL_CORE_ENERGY_SAVING_H

#include <stdbool.h>
#include <stdint.h>

/* The runs of one kind. All sums are over them. */
struct lull_energy_side {
    uint32_t runs; /* at least 1 */
    uint32_t gpus; /* that the energies are of, at least 1 */
    uint64_t iterations;
    double seconds;
    double energy_j;
    double reading_j;      /* half of the 95 % interval that the readings leave of energy_j */
    double sampling_ratio; /* standard deviation of energy_j by sampling in step, over energy_j */
    double scatter;        /* of ln of the runs' energies per iteration: sum of the squared
                              deviations from their mean; 0 with one run */
};

enum lull_energy_term {
    LULL_ENERGY_TERM_READINGS,
    LULL_ENERGY_TERM_RUNS,
    LULL_ENERGY_TERM_OFFSET,
    LULL_ENERGY_TERM_LEVEL,
    LULL_ENERGY_TERM_SAMPLING,
    LULL_ENERGY_TERMS
};

struct lull_energy_saving {
    double saving_ratio;             /* 1 - energy per iteration managed / reference */
    double half_width_ratio;         /* of the 95 % interval */
    double terms[LULL_ENERGY_TERMS]; /* what each leaves alone, as half widths */
};

/* Compares two sides. False: one of them has no energy or no iterations. */
bool lull_energy_saving_compute(const struct lull_energy_side *reference,
                                const struct lull_energy_side *managed,
                                struct lull_energy_saving *saving_out);

#endif
