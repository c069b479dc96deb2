/*
 * The energy of one GPU from a log of its power or of its energy counter: the readings of a file,
 * however far apart, over one window.
 *
 * Each stretch without a gap is an energy account (account.h), whose steps, edges, resets and
 * uncertainties it has. A gap is a distance between powers of more than five times the typical one
 * (the median) and more than three seconds; the energy drawn in it is unknown. It is therefore
 * excluded from the energy, and reported. An energy counter counts through gaps.
 *
 * Pure but for memory; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_ENERGY_LOG_ENERGY_H
#define LULL_CORE_ENERGY_LOG_ENERGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/energy/account.h"

struct lull_log_energy {
    const char *reason;   /* null: the energy is known; else the reason why not, as text */
    double joules;        /* drawn in the covered time */
    double uncertainty_j; /* half of the 95 % interval, without the gain error of the board */
    double covered_s;     /* of the window: between its first and last reading, without gaps */
    double gap_s;         /* the rest of it */
    uint32_t gaps;        /* between readings */
    int64_t begin_ns;     /* the first reading that counts */
    int64_t end_ns;       /* the last */
    bool has_counter;     /* joules are the counter's; else the integral of the power */
    uint32_t resets;      /* of the counter */
    double estimated_s;   /* in which power stood in for the counter */
};

/*
 * Integrates from from_ns to to_ns (INT64_MIN and INT64_MAX: all of it) as far as the readings
 * reach, which are by rising times, none twice. If two readings or more have the counter, it
 * decides from the first of them on. Errors: -ENOMEM. Without an error *out is filled; reason says
 * what is missing where joules are NAN.
 */
int lull_log_energy(const struct lull_energy_source *source,
                    const struct lull_energy_reading *readings, size_t count, int64_t from_ns,
                    int64_t to_ns, struct lull_log_energy *out);

#endif
