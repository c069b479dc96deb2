/*
 * The measurements at each operating point of a search, visit by visit, and the expected values at
 * the settled temperature of the operating point.
 *
 * Chips leak more where they are warmer. On the way down a GPU is still warm from the previous
 * operating point, and costs appear some percent too high; on the way up they appear too low. So
 * each visit is recorded with its temperature. Operating points that were visited at several
 * temperatures show how energy and time depend on it, all operating points of one kind alike:
 *
 *     log(energy of an iteration) = own + slope T,    log(its time) alike,
 *
 * least squares with a weak prior (slope 0 +- 0.4 % per degC, a visit's noise 0.5 %), and thermal.h
 * predicts where the temperature of each would settle. Without temperatures, and before there is
 * anything to learn from, visits count unchanged.
 *
 * Pure; caller's storage; zero-initialised is empty; one thread. SPDX-License-Identifier:
 * Apache-2.0
 */
#ifndef LULL_CORE_TUNING_LIMIT_VISITS_H
#define LULL_CORE_TUNING_LIMIT_VISITS_H

#include <stdint.h>

#include "core/tuning/thermal.h"

enum { LULL_LIMIT_VISITS_POINTS = 128, LULL_LIMIT_VISITS_MAX = 2048 };

/* Kinds of operating points: what temperature does differs between them. */
enum lull_limit_kind {
    LULL_LIMIT_FREE,   /* the limit is above the draw: only energy depends on temperature */
    LULL_LIMIT_BOUND,  /* power is given, clocks follow */
    LULL_LIMIT_LOCKED, /* the clock is given, power follows */
    LULL_LIMIT_KINDS,
};

struct lull_limit_visit {
    uint32_t point;
    uint64_t iterations;
    double seconds;
    double joules;
    double warm_s;   /* of these seconds, those with a temperature */
    double degree_s; /* its integral over them */
};

struct lull_limit_visits {
    struct lull_limit_visit items[LULL_LIMIT_VISITS_MAX];
    uint32_t count;
    struct lull_thermal thermal;
};

/* Begins a visit of this operating point < LULL_LIMIT_VISITS_POINTS. With LULL_LIMIT_VISITS_MAX
 * visits, the last one is replaced. */
void lull_limit_visits_begin(struct lull_limit_visits *visits, uint32_t point);

/* The GPUs' temperature at the end of `seconds` at this mean power; NAN unknown. Settling
 * included. */
void lull_limit_visits_feel(struct lull_limit_visits *visits, double seconds, double watts,
                            double temperature_c);

/* A piece of the present visit: as lull_limit_search_take(). */
void lull_limit_visits_take(struct lull_limit_visits *visits, uint64_t iterations, double seconds,
                            double joules, double temperature_c);

/*
 * Seconds and joules of all visits of each of count operating points, count <=
 * LULL_LIMIT_VISITS_POINTS, at the temperature at which each settles; kinds[count];
 * seconds_out[count] and joules_out[count]: 0 where there is no visit.
 */
void lull_limit_visits_settle(const struct lull_limit_visits *visits,
                              const enum lull_limit_kind *kinds, uint32_t count,
                              double *seconds_out, double *joules_out);

#endif
