/*
 * The course of a simulated run: when each rank began each period, and the energy until then. Two
 * courses of one play are compared over any part of the run, beginning to end.
 *
 * Pure; create/destroy; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_SIMULATOR_COURSE_H
#define LULL_SIMULATOR_COURSE_H

#include <stdint.h>

struct lull_simulation_course; /* opaque */

/* A part of a run against the same periods of the reference. */
struct lull_course_change {
    double slowdown_ratio; /* of the rank that loses most */
    double saving_ratio;   /* of the energy of all GPUs together */
};

/* NULL: out of memory. ranks and periods are at least 1. */
struct lull_simulation_course *lull_simulation_course_create(uint32_t ranks, uint64_t periods);
void lull_simulation_course_destroy(struct lull_simulation_course *course);

/* Notes that a rank begins a period, 0..periods; the last one ends the run. energy_j: of the rank's
 * GPU since the start of the run. A later run of the same length may be noted over it. */
void lull_simulation_course_note(struct lull_simulation_course *course, uint32_t rank,
                                 uint64_t period, int64_t time_ns, double energy_j);

/* Compares the periods from..to - 1, 0 <= from < to <= periods, of two complete courses of one
 * play. */
struct lull_course_change
lull_simulation_course_compare(const struct lull_simulation_course *course,
                               const struct lull_simulation_course *reference, uint64_t from,
                               uint64_t to);

/* Returns the largest slowdown of the first n periods of the run
 * over all n >= least, 1..periods, of the rank that loses most. */
double lull_simulation_course_worst(const struct lull_simulation_course *course,
                                    const struct lull_simulation_course *reference, uint64_t least);

#endif
