/*
 * The settled temperature of GPUs at a power, learnt from their readings while the power changes:
 * one thermal resistance and one time constant,
 *
 *     tau dT/dt = base + rise (P / P0 - 1) - T,    P0 the power of the first reading.
 *
 * Leakage grows with temperature, and a temperature follows its power within a minute. So a
 * measurement some seconds after a change of power is not yet the settled one.
 *
 * Least squares over all readings, for each time constant of a grid; the one that leaves the least
 * is used. A weak prior (rise 0 +- 30 degC, distance from the settled temperature at the first
 * reading 0 +- 5 degC, readings +- 0.5 degC) keeps the fit at "no change" until readings say
 * otherwise. Pure; caller's storage; zero-initialised is empty; one thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_TUNING_THERMAL_H
#define LULL_CORE_TUNING_THERMAL_H

#include <stdbool.h>
#include <stdint.h>

enum { LULL_THERMAL_TAUS = 11, LULL_THERMAL_TERMS = 3 };

struct lull_thermal {
    uint32_t count;
    double first_w;
    /* For each time constant: the power's deviation as the temperature follows it, what is left of
     * the distance at the start, and the normal equations of both and a constant. */
    struct lull_thermal_track {
        double followed;
        double left;
        double products[LULL_THERMAL_TERMS][LULL_THERMAL_TERMS];
        double responses[LULL_THERMAL_TERMS];
        double square;
    } tracks[LULL_THERMAL_TAUS];
};

struct lull_thermal_fit {
    double first_w;
    double base_c; /* settled at first_w */
    double rise_c; /* more at twice first_w */
    double tau_s;
};

/* Takes a reading: for `seconds` > 0 the mean power was watts >= 0, and at their end the
 * temperature was temperature_c. A reading that is not finite is ignored. */
void lull_thermal_take(struct lull_thermal *thermal, double seconds, double watts,
                       double temperature_c);

/* Fits the model to all readings. Returns false where there are fewer than eight. */
bool lull_thermal_fit(const struct lull_thermal *thermal, struct lull_thermal_fit *fit_out);

/* The settled temperature at this power. */
double lull_thermal_settled_c(const struct lull_thermal_fit *fit, double watts);

/* ---- whether it has warmed up -------------------------------------------------------------- */

/*
 * Detects whether a GPU has reached the settled temperature of its job. A GPU that warms up draws
 * more and more at the same work (leakage: some 0.3 % per degree), so later measurements appear
 * more expensive. Skipping the first seconds is not enough, because warming up takes a minute.
 *
 * It has settled once the readings of LULL_WARMTH_SPAN_S seconds are within a degree, the
 * resolution of a driver's reading; or after LULL_WARMTH_MAX_S, so that the wait is bounded.
 *
 * Pure; caller's storage; zero-initialised is empty; one thread at a time.
 */

enum { LULL_WARMTH_SPAN_S = 5, LULL_WARMTH_MAX_S = 60 };

struct lull_warmth {
    uint32_t count; /* readings kept, a second or more apart; ever */
    int64_t begun_ns;
    int64_t last_ns;
    double readings_c[LULL_WARMTH_SPAN_S + 1]; /* the latest ones */
};

/* Returns whether the next reading is due at now_ns; none needs be taken before. */
bool lull_warmth_is_due(const struct lull_warmth *warmth, int64_t now_ns);

/* Takes a reading while the job runs, later than the one before. Returns whether the temperature
 * has settled. */
bool lull_warmth_take(struct lull_warmth *warmth, int64_t now_ns, double temperature_c);

#endif
