/*
 * Synchronised sampling: the error of a job's mean power if the sensor samples only part of the
 * time.
 *
 * A sensor that looks at the power for W out of every T seconds (25 of 100 ms on A100 and H100,
 * arXiv 2312.02741) uses that sample for all of T. If iterations are synchronised with T, it
 * samples the same places of each, and the error does not average out, however long the run is. A
 * power edge at one place of every iteration then appears too early or too late by up to T / 2,
 * always by the same amount.
 *
 * The degree of synchronisation follows from the starts b_j of the iterations, relative to the
 * refreshes: the resultants R_m = |mean of exp(2 pi i m b_j / T)| are 1 in step, and near 0 where
 * the phases are spread. With a random phase of the sensor an edge is misplaced, on average over
 * the run, with the variance T^2 sum over m of R_m^2 sinc^2(m W / T) / (2 pi^2 m^2) (the Fourier
 * series of a sawtooth, averaged over the window): T^2 / 12 for short windows in step, and 0 where
 * the windows leave no gap. T is known to 2 % only (a period of 100 ms was measured as 101 ms on an
 * A100), so the worst T of that range counts.
 *
 * Pure; caller's storage; one thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_ENERGY_STROBE_H
#define LULL_CORE_ENERGY_STROBE_H

#include <stdint.h>

#include "core/energy/account.h"
#include "core/stats/moments.h"

/* This many iterations, of ten minutes at most, suffice to find their rhythm. More would only take
 * longer.
 */
enum { LULL_ENERGY_STROBE_KEPT = 1024 };

/* The beginnings of iterations, the first of them; zero-initialised is empty. */
struct lull_energy_strobe {
    uint32_t count;
    int64_t begins_ns[LULL_ENERGY_STROBE_KEPT];
};

/* The shape of the power over an iteration. */
struct lull_energy_waveform {
    double iteration_s;
    double sections;    /* in which it is low, at least 1 */
    double swing_ratio; /* difference of its levels over its mean */
};

void lull_energy_strobe_add(struct lull_energy_strobe *strobe, int64_t begin_ns);

/* Returns the mean displacement of an edge over the run, s: one standard deviation, 0 if the
 * sensor's windows leave no gap. */
double lull_energy_strobe_edge_s(const struct lull_energy_strobe *strobe,
                                 const struct lull_energy_source *source);

/*
 * Returns the difference of the power's levels over its mean. It follows from the
 * scatter of the readings, but is no less than the known difference between
 * waiting and computing GPUs, because a sensor in step may sample one level only. low_share is the
 * share of its time that a job waits; 0 where that is not known.
 */
double lull_energy_strobe_swing_ratio(const struct lull_moments *readings_w, double low_share);

/* Returns the standard deviation of the mean power that this leaves, over the mean power. */
double lull_energy_strobe_ratio(double edge_s, const struct lull_energy_waveform *waveform);

#endif
