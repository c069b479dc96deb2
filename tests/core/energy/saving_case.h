/*
 * An audit of the interval of a saving, in virtual time: a job of iterations is run twice, its GPUs
 * are read through a counter and a power sensor with the errors of real ones, and the interval is
 * compared with the true saving. One seed determines everything. SPDX-License-Identifier:
 * Apache-2.0
 */
#ifndef LULL_TESTS_SAVING_CASE_H
#define LULL_TESTS_SAVING_CASE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/energy/saving.h"

/* The most cases that are summarised together. */
enum { SAVING_CASE_MOST = 2000 };

/* Length of an iteration, in periods of the sensor. */
enum saving_step {
    STEP_NONE,  /* any number */
    STEP_LONG,  /* a whole number */
    STEP_SHORT, /* a half, one, or one and a half */
};

struct saving_condition {
    const char *name;
    double run_deviation; /* of a run's energy per iteration, as a ratio */
    double offset_w;      /* the sensor's offset lies within +- this */
    double level_w;       /* each level of power has an error of its own: standard deviation */
    double jitter_ratio;  /* of an iteration's length */
    bool samples;         /* the counter adds up what the power sensor saw, and nothing else */
    enum saving_step step;
    bool is_steady; /* the clock is lowered everywhere, not in the waiting alone */
    uint32_t pairs; /* of runs; below 2: one */
};

struct saving_outcome {
    double true_ratio;
    double lower_ratio; /* of the interval */
    double upper_ratio;
    struct lull_energy_saving saving; /* of the first pair */
};

/* Runs one case: iterations per run, in seed's random job on a random number of GPUs. */
void saving_case_run(const struct saving_condition *condition, uint32_t iterations, uint64_t seed,
                     struct saving_outcome *outcome);

/* Shares of cases whose interval holds the truth. */
struct saving_summary {
    double covered;        /* by all terms */
    double covered_before; /* by the term of the readings alone, as it was before the others */
    double covered_alone[LULL_ENERGY_TERMS]; /* by a term together with that of the readings */
    double width;                            /* median half width, as a ratio */
    double width_before;
    double terms[LULL_ENERGY_TERMS]; /* median of what each leaves alone */
    double saving;                   /* median */
};

void saving_case_summarize(const struct saving_condition *condition, uint32_t iterations,
                           uint32_t cases, struct saving_summary *summary);

/* The conditions of the audit. */
extern const struct saving_condition saving_conditions[];
extern const uint32_t saving_condition_count;

#endif
