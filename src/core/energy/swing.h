/*
 * Swing: the fluctuation of a job's power in pieces of equal length, so that two sides (at the
 * reference, and managed) can be compared.
 *
 * Two values are computed for each piece: the peak to peak, and the band: the root mean square of
 * the components of its power from one frequency to another, by the discrete Fourier transform of
 * the piece less its mean. Grids and generators are rated for swings of 0.1 to 20 Hz; a series with
 * a step of dt s shows frequencies up to 1 / (2 dt), and a piece of T s shows them from 1 / T.
 * Faster swings are not lost but appear slower (aliasing).
 *
 * Both grow with the length of a piece, so only sides with equal pieces can be compared. The
 * scatter of the pieces of one side gives the uncertainty of a difference between sides.
 *
 * Pure; caller's storage; one thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_ENERGY_SWING_H
#define LULL_CORE_ENERGY_SWING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/stats/moments.h"

/* The ends of the band, Hz, if a series can show them. */
#define LULL_SWING_LOWEST_HZ 0.1
#define LULL_SWING_HIGHEST_HZ 20.0

/* With fewer pieces their spread cannot be estimated. */
enum { LULL_SWING_MIN_PIECES = 3 };

/* The pieces of one side; zero-initialised is empty. */
struct lull_swing {
    struct lull_moments mean_w; /* of each piece */
    struct lull_moments peak_to_peak_w;
    struct lull_moments band_w;
};

/*
 * Adds a piece of count readings (>= 2), W, which lie step_s (> 0) apart. A piece with a value that
 * is not finite is skipped, since it would make all results unknown.
 */
void lull_swing_add(struct lull_swing *swing, const double *powers_w, uint32_t count,
                    double step_s);

/*
 * Returns the root mean square of the components with frequencies from lowest_hz to highest_hz,
 * both included, W: over all frequencies it is the standard deviation. As above.
 */
double lull_swing_band_w(const double *powers_w, uint32_t count, double step_s, double lowest_hz,
                         double highest_hz);

/*
 * Returns whether the swings of one side are wider than those of another by more than allowed_ratio
 * (>= 0), in peak to peak or in the band, by more than twice the standard error of the difference.
 * Also false if a side has fewer than LULL_SWING_MIN_PIECES.
 */
bool lull_swing_is_wider(const struct lull_swing *swing, const struct lull_swing *reference,
                         double allowed_ratio);

#endif
