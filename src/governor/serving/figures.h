/*
 * What a server's metrics show over a run and over its last minute: requests, tokens, latencies.
 *
 * Readings are totals since the server's start. Differences of successive readings are added up, so
 * that a restart of the server loses only what happened between two readings.
 *
 * Pure; caller's storage; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_SERVING_FIGURES_H
#define LULL_GOVERNOR_SERVING_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/serving/reading.h"

/* Totals between two times. NAN: unknown; of a server without this metric, or of GPUs without
 * readings. */
struct lull_serving_totals {
    int64_t time_ns;
    double finished; /* requests */
    double output_tokens;
    double prompt_tokens;
    double energy_j; /* of the GPUs */
    struct lull_serving_histogram ttft;
    struct lull_serving_histogram tpot;
};

enum { LULL_SERVING_SLICES = 12 }; /* of the last minute, 5 s each */

/* Zero-initialised: no reading. */
struct lull_serving_figures {
    bool has_reading;
    double begin_j; /* energy at the first reading at which it was known; NAN: not yet */
    struct lull_serving_reading last;
    struct lull_serving_totals now;                         /* since the first reading */
    struct lull_serving_totals slices[LULL_SERVING_SLICES]; /* former values of now */
    uint32_t slice_count;                                   /* so far */
};

/* energy_j: of the GPUs since any fixed time; NAN: unknown. */
void lull_serving_figures_take(struct lull_serving_figures *figures,
                               const struct lull_serving_reading *reading, double energy_j);

/* Writes what happened in about the last minute, or since the first reading where that is less.
 * False: there are no two readings. */
bool lull_serving_figures_minute(const struct lull_serving_figures *figures,
                                 struct lull_serving_totals *totals_out);

/* Returns the p-quantile of a histogram, s: linear within its bucket. NAN: it is empty, its
 * values are only upper bounds, or the quantile is above the last finite bound. */
double lull_serving_quantile_s(const struct lull_serving_histogram *histogram, double p);

#endif
