/*
 * The sentences about a run's saving and slowdown (core/energy/gain.h), for the verdict, `lull top`
 * and the pages.
 *
 * Figures are printed with enough decimals that the printed figures support the same claim. Upper
 * bounds are rounded up. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_REPORT_GAIN_TEXT_H
#define LULL_GOVERNOR_REPORT_GAIN_TEXT_H

#include <stddef.h>

#include "core/energy/gain.h"

/* Writes "saved 11.4 % (10.8 to 12.0) of the energy per iteration", "used 5.0 % (4.0 to 6.0) more
 * energy per iteration", or that no saving is proven. reason: why the saving is unknown, if it is.
 * Returns text. */
const char *lull_gain_saving_text(double saving_ratio, double low_ratio, double high_ratio,
                                  const char *reason, char *text, size_t size);

/* Writes a known change without a claim: "11.4 % (10.8 to 12.0) less energy per iteration". Returns
 * text. */
const char *lull_gain_change_text(double saving_ratio, double low_ratio, double high_ratio,
                                  char *text, size_t size);

/* Writes "not slower (at most 0.7 %)", or that the slowdown is, or may be, above the limit.
 * allowed_ratio: INFINITY or NAN where no limit was promised. reason: as above. Returns text. */
const char *lull_gain_slowdown_text(double slowdown_ratio, double upper_ratio, double allowed_ratio,
                                    const char *reason, char *text, size_t size);

/* The word for a claim in documents: "proven", "within" and so on; NULL: the figure is not known.
 */
const char *lull_gain_saving_word(enum lull_gain_saving claim);
const char *lull_gain_slowdown_word(enum lull_gain_slowdown claim);

#endif
