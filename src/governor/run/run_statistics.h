/*
 * Run statistics: the time and energy of a run per iteration, from its run logs. No side effects
 * except memory; one thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_RUN_STATISTICS_H
#define LULL_GOVERNOR_RUN_RUN_STATISTICS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/energy/account.h"
#include "core/energy/saving.h"
#include "governor/control/control.h"

enum lull_run_part {
    LULL_RUN_PART_WHOLE,   /* every iteration whose sections were known, warm or not */
    LULL_RUN_PART_ALL,     /* those of them that ran at the temperature of the end */
    LULL_RUN_PART_DESCENT, /* the iterations before the results were settled */
    LULL_RUN_PART_SETTLED, /* the iterations after that */
};

/*
 * Only iterations at the temperature that the GPUs end with count: leakage grows while they warm
 * up, and a cold first run would look cheaper than it is. See lull_run_statistics_compute.
 */
struct lull_run_statistics {
    uint64_t iterations;
    uint64_t warming;    /* further iterations of this part that were left out */
    double iteration_ms; /* mean */
    bool has_energy;
    double energy_j;                 /* of all GPUs of the job over these iterations */
    bool has_uncertainty;            /* of energy_j */
    struct lull_energy_sum measured; /* the pieces of energy_j, which determine its uncertainty */
    uint32_t measured_gpus;          /* number of GPUs whose energy this is */
    double sampling_ratio;  /* see lull_run_sampling_ratio; 0 for the whole and the descent, for
                             * which no saving is reported */
    double average_power_w; /* over the same time */
    double span_s;          /* length of these iterations */
};

/*
 * Computes one part of a stopped run; all zero where it has no such iteration. Left out are
 * iterations before every GPU has come within 1 degree C of its last temperature permanently, but
 * never more than two thirds of the run. The descent and the whole are never cut.
 */
void lull_run_statistics_compute(const struct lull_control *control, enum lull_run_part part,
                                 struct lull_run_statistics *statistics_out);

/* Returns the boundaries of the job's iterations, of the rank that has had most; NULL: no GPU. They
 * are borrowed. */
const struct lull_boundaries *lull_run_statistics_boundaries(const struct lull_control *control);

/* Returns the energy per iteration, J; 0: it is not known. */
double lull_run_statistics_energy_per_iteration_j(const struct lull_run_statistics *statistics);

/*
 * Compares the energy per iteration of one run with that of another, one run each. Its half width
 * is NAN where the uncertainty of an energy is not known. False: an energy is not known.
 */
bool lull_run_statistics_saving(const struct lull_run_statistics *reference,
                                const struct lull_run_statistics *other,
                                struct lull_energy_saving *saving_out);

/*
 * Compares the iterations after the settling of a stopped run with those before it: the ratio by
 * which they took longer, and the half width of its 95 % interval, which assumes independent
 * iterations. False: there are fewer than three on either side.
 */
bool lull_run_statistics_change(const struct lull_control *control, double *slowdown_ratio_out,
                                double *half_width_ratio_out);

/*
 * Returns how long after a boundary energy is read: well inside the section that begins there,
 * where power is low and even. Counters and power readings are up to 0.1 s old, and at the boundary
 * itself, where computation has just ended, that would be an error of tens of joules.
 */
int64_t lull_run_statistics_reading_offset_ns(const struct lull_control *control, uint32_t gpu);

/* Finds the energy of the job's GPUs between two times, J. False: their counters were not read
 * around them. */
bool lull_run_statistics_energy_between(const struct lull_control *control, int64_t begin_ns,
                                        int64_t end_ns, double *energy_out);

#endif
