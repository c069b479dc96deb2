/*
 * A saving of energy and half of its 95 % interval, from one run without Lull and one with it on
 * the same GPUs. A gain of the boards' sensors cancels. The half interval is the root of the sum of
 * the squares of five terms:
 *
 * - readings: counters and sensors are refreshed now and then (core/energy/account.h);
 * - runs: two runs of one program differ even if nothing was changed. One run of each kind cannot
 * show this difference, so the value measured with other jobs is used (saving.c);
 * - offset: a constant error of a board's sensor in watts, the same in both runs. It has more
 * weight in the run with less power, so it does not cancel;
 * - level: the error of a sensor differs from one level of power to another;
 * - sampling: a sensor's sampling may be synchronised with the iterations (core/energy/strobe.h).
 *
 * Only the first of them shrinks in proportion to the length of the runs. If several pairs of runs
 * were made (core/stats/paired_runs.h), their differences include the effects of readings, runs and
 * sampling; offset and level are the same in every pair.
 *
 * bench/bench_saving.c measures the coverage of the interval; tests/core/energy/test_saving.c holds
 * each term to the condition that it represents.
 *
 * Pure. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_ENERGY_SAVING_H
#define LULL_CORE_ENERGY_SAVING_H

#include <stdbool.h>
#include <stdint.h>

/* A run. */
struct lull_energy_side {
    uint32_t gpus; /* that the energy is of, at least 1 */
    uint64_t iterations;
    double seconds;
    double energy_j;
    double reading_j;      /* half of the 95 % interval that the readings leave of energy_j */
    double sampling_ratio; /* standard deviation of energy_j by sampling in step, over energy_j */
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
    double half_width_ratio;         /* half of the 95 % interval */
    double terms[LULL_ENERGY_TERMS]; /* the contribution of each term, as half widths */
};

/* Compares two runs. False: one of them has no energy or no iterations. */
bool lull_energy_saving_compute(const struct lull_energy_side *reference,
                                const struct lull_energy_side *managed,
                                struct lull_energy_saving *saving_out);

/* Returns the common error, by offset and level, of the logarithm of the energies' ratio in all
 * pairs of runs, for lull_paired_runs_add. */
double lull_energy_saving_shared_log(const struct lull_energy_saving *saving);

#endif
