/*
 * Declarations shared by the two files of an account: account.c takes readings, account_edge.c
 * computes energies. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_ENERGY_ACCOUNT_STATE_H
#define LULL_CORE_ENERGY_ACCOUNT_STATE_H

#include <math.h>

#include "core/energy/account.h"

static inline double lull_energy_seconds(int64_t from_ns, int64_t to_ns)
{
    return (double)(to_ns - from_ns) * 1e-9;
}

static inline double lull_energy_square(double value)
{
    return value * value;
}

static inline const struct lull_energy_point *
lull_energy_point(const struct lull_energy_account *account, uint64_t i)
{
    return &account->points[i % LULL_ENERGY_KEPT];
}

/* Index of the oldest point that is kept. */
static inline uint64_t lull_energy_oldest(const struct lull_energy_account *account)
{
    if (account->count <= LULL_ENERGY_KEPT)
        return 0;
    return account->count - LULL_ENERGY_KEPT;
}

static inline struct lull_power_range lull_energy_range(const struct lull_energy_account *account)
{
    return (struct lull_power_range){account->source.lowest_w, account->source.highest_w};
}

/* The last point with energy; null: there is none. */
const struct lull_energy_point *lull_energy_last(const struct lull_energy_account *account);

/* Time from the middle of a power's averaging to its reading, and the same for energy, s. */
static inline double lull_energy_power_age_s(const struct lull_energy_account *account)
{
    return 0.5 * (account->source.power_refresh_s + account->source.power_window_s);
}

static inline double lull_energy_age_s(const struct lull_energy_account *account)
{
    if (account->has_counter)
        return 0.5 * account->source.counter_refresh_s;
    return lull_energy_power_age_s(account);
}

/* Time before its reading from which a power is assumed to hold, if the reading comes gap_s after
 * the one before, s. */
static inline double lull_energy_held_s(const struct lull_energy_account *account, double gap_s)
{
    return 0.5 * fmin(gap_s, account->source.power_refresh_s);
}

#endif
