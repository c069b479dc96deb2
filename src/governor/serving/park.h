/*
 * Parks an idle GPU: chooses the clock, and estimates the energy that the low clock saves.
 *
 * The first work after an idle time begins at the low clock and is detected within the blind time:
 * the readings' delay, then the driver's call and the settling of the clock. It is delayed by at
 * most
 *
 *     blind_s (1 - f / fmax),
 *
 * which work that depends on the clock alone reaches; memory-bound work pays less.
 *
 * Pure; caller's storage; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_SERVING_PARK_H
#define LULL_GOVERNOR_SERVING_PARK_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the lowest clock at which work that begins delays by at most wake_s; clocks: the highest
 * first, at least one. The highest one: no lower clock meets the bound. */
uint32_t lull_park_clock(const uint32_t *clocks_mhz, uint32_t count, double blind_s, double wake_s);

/* Returns the longest delay of the first work at that clock, s. */
double lull_park_wake_s(uint32_t clock_mhz, uint32_t highest_mhz, double blind_s);

/* The record of one GPU's parking. Zero-initialised: never parked. */
struct lull_park_record {
    bool is_parked;
    bool has_idle_w;  /* the power was known when it was parked last */
    bool has_reading; /* ...and at time reading_ns, since it is parked */
    uint32_t count;   /* how often it was parked */
    int64_t since_ns;
    int64_t reading_ns;
    double idle_w;   /* before it was parked, idle at the highest clock */
    double parked_s; /* total of ended times */
    double saved_j;  /* ...and of the part in which power was known: known_s */
    double known_s;
};

/* idle_w: its power, idle at the highest clock; NAN: unknown, so that the saving is as well. */
void lull_park_begin(struct lull_park_record *record, int64_t now_ns, double idle_w);
void lull_park_end(struct lull_park_record *record, int64_t now_ns);

/* Takes the power while it is parked; readings come in the order of time. */
void lull_park_take_power(struct lull_park_record *record, int64_t time_ns, double power_w);

/* Returns the total time so far, s. */
double lull_park_seconds(const struct lull_park_record *record, int64_t now_ns);

/* Returns the estimate of the energy saved so far, J; NAN: it was never parked with known power.
 * Parked time without readings counts with the mean of the rest. */
double lull_park_saved_j(const struct lull_park_record *record, int64_t now_ns);

#endif
