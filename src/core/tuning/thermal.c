/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tuning/thermal.h"

#include <math.h>

/* With fewer readings than this nothing is fitted. */
enum { TERMS = LULL_THERMAL_TERMS, MIN_READINGS = 8 };

enum term { BASE, RISE, DISTANCE };

/* The grid's shortest time constant, and the prior: the deviations of a reading, of the rise and of
 * the distance from the settled temperature (thermal.h). */
static const double shortest_tau_s = 5.0;
static const double reading_c = 0.5;
static const double prior_rise_c = 30.0;
static const double prior_distance_c = 5.0;

static double tau_of(uint32_t index)
{
    return shortest_tau_s * pow(2.0, 0.5 * index);
}

/* The normal equations are updated reading by reading, so that a fit needs no readings to be kept.
 * */
static void thermal_follow(struct lull_thermal_track *track, double tau_s, double seconds,
                           double deviation, double temperature_c)
{
    const double kept = exp(-seconds / tau_s);
    double terms[TERMS];

    track->followed = kept * track->followed + (1.0 - kept) * deviation;
    track->left *= kept;
    terms[BASE] = 1.0;
    terms[RISE] = track->followed;
    terms[DISTANCE] = track->left;
    for (int i = 0; i < TERMS; i++) {
        for (int j = 0; j < TERMS; j++)
            track->products[i][j] += terms[i] * terms[j];
        track->responses[i] += terms[i] * temperature_c;
    }
    track->square += temperature_c * temperature_c;
}

void lull_thermal_take(struct lull_thermal *thermal, double seconds, double watts,
                       double temperature_c)
{
    if (!(seconds > 0.0) || !(watts > 0.0) || !isfinite(seconds) || !isfinite(watts) ||
        !isfinite(temperature_c))
        return;
    if (thermal->count++ == 0) {
        thermal->first_w = watts;
        for (uint32_t i = 0; i < LULL_THERMAL_TAUS; i++)
            thermal->tracks[i].left = 1.0;
    }
    for (uint32_t i = 0; i < LULL_THERMAL_TAUS; i++)
        thermal_follow(&thermal->tracks[i], tau_of(i), seconds, watts / thermal->first_w - 1.0,
                       temperature_c);
}

/* Solves the normal equations with the prior in them; returns what the fit leaves, squared. */
static double thermal_solve(const struct lull_thermal_track *track, double *terms_out)
{
    const double noise = reading_c * reading_c;
    double rows[TERMS][TERMS + 1];
    double rest = track->square;

    for (int i = 0; i < TERMS; i++) {
        for (int j = 0; j < TERMS; j++)
            rows[i][j] = track->products[i][j];
        rows[i][TERMS] = track->responses[i];
    }
    rows[RISE][RISE] += noise / (prior_rise_c * prior_rise_c);
    rows[DISTANCE][DISTANCE] += noise / (prior_distance_c * prior_distance_c);
    /* Positive definite: no pivoting. */
    for (int k = 0; k < TERMS; k++)
        for (int i = k + 1; i < TERMS; i++) {
            const double factor = rows[i][k] / rows[k][k];

            for (int j = k; j <= TERMS; j++)
                rows[i][j] -= factor * rows[k][j];
        }
    for (int i = TERMS - 1; i >= 0; i--) {
        terms_out[i] = rows[i][TERMS];
        for (int j = i + 1; j < TERMS; j++)
            terms_out[i] -= rows[i][j] * terms_out[j];
        terms_out[i] /= rows[i][i];
        rest -= terms_out[i] * track->responses[i];
    }
    return rest;
}

bool lull_thermal_fit(const struct lull_thermal *thermal, struct lull_thermal_fit *fit_out)
{
    double least = INFINITY;

    if (thermal->count < MIN_READINGS)
        return false;
    for (uint32_t i = 0; i < LULL_THERMAL_TAUS; i++) {
        double terms[TERMS];
        const double rest = thermal_solve(&thermal->tracks[i], terms);

        if (rest >= least)
            continue;
        least = rest;
        *fit_out = (struct lull_thermal_fit){
            .first_w = thermal->first_w,
            .base_c = terms[BASE],
            .rise_c = terms[RISE],
            .tau_s = tau_of(i),
        };
    }
    return true;
}

double lull_thermal_settled_c(const struct lull_thermal_fit *fit, double watts)
{
    return fit->base_c + fit->rise_c * (watts / fit->first_w - 1.0);
}

/* ---- whether it has warmed up -------------------------------------------------------------- */

static const int64_t second_ns = INT64_C(1000000000);
static const double resolution_c = 1.0;

bool lull_warmth_is_due(const struct lull_warmth *warmth, int64_t now_ns)
{
    return warmth->count == 0 || now_ns - warmth->last_ns >= second_ns;
}

bool lull_warmth_take(struct lull_warmth *warmth, int64_t now_ns, double temperature_c)
{
    double lowest = temperature_c;
    double highest = temperature_c;

    if (warmth->count == 0)
        warmth->begun_ns = now_ns;
    warmth->last_ns = now_ns;
    warmth->readings_c[warmth->count++ % (LULL_WARMTH_SPAN_S + 1)] = temperature_c;
    if (now_ns - warmth->begun_ns >= LULL_WARMTH_MAX_S * second_ns)
        return true;
    for (uint32_t i = 0; i <= LULL_WARMTH_SPAN_S && i < warmth->count; i++) {
        lowest = fmin(lowest, warmth->readings_c[i]);
        highest = fmax(highest, warmth->readings_c[i]);
    }
    return warmth->count > LULL_WARMTH_SPAN_S && highest - lowest <= resolution_c;
}
