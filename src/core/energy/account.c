/* SPDX-License-Identifier: Apache-2.0 */
#include "core/energy/account.h"

#include <math.h>
#include <stddef.h>

#include "core/energy/account_state.h"

/* A counter that leaps by more than this many times what the device can draw has been reset.
 * Chosen, not measured. */
static const double leap_ratio = 2.0;
/* How far counter and polled power of one board are apart in the long run; from 3 % on a report
 * flags it. Chosen, not measured: with it the half intervals lie near the 95 % quantile of the
 * error (test_energy). */
static const double scale_ratio = 0.03;

void lull_energy_account_init(struct lull_energy_account *account,
                              const struct lull_energy_source *source)
{
    *account = (struct lull_energy_account){.source = *source};
}

/* ---- readings ---------------------------------------------------------------------------- */

static void extend_polled(const struct lull_energy_account *account,
                          const struct lull_energy_point *before, struct lull_energy_point *after)
{
    const double gap_s = lull_energy_seconds(before->time_ns, after->time_ns);
    const double held_s = lull_energy_held_s(account, gap_s);

    if (!before->has_power && !after->has_power)
        return;
    after->polled_j =
        before->polled_j + before->power_w * (gap_s - held_s) + after->power_w * held_s;
}

/* What one step of the integral may be wrong by: the power was another one for part of it. */
static double step_variance(const struct lull_energy_account *account,
                            const struct lull_energy_point *before,
                            const struct lull_energy_point *after)
{
    const double gap_s = lull_energy_seconds(before->time_ns, after->time_ns);
    const double reach_s = fmax(gap_s, account->source.power_refresh_s);

    return 0.5 * lull_energy_square((after->power_w - before->power_w) * reach_s);
}

/* Estimates the energy that was drawn while the counter was reset: what the power says, and no less
 * than the counter has counted since. */
static void bridge_reset(struct lull_energy_account *account,
                         const struct lull_energy_point *before, struct lull_energy_point *after,
                         double counter_j)
{
    const double gap_s = lull_energy_seconds(before->time_ns, after->time_ns);
    const double most_j = account->source.highest_w * gap_s;
    const double polled_j = after->polled_j - before->polled_j;
    const double least_j = counter_j >= 0.0 && counter_j <= most_j ? counter_j : 0.0;

    if (before->has_power && after->has_power) {
        after->energy_j += fmax(polled_j, least_j);
        after->variance_j2 +=
            lull_energy_square(scale_ratio * polled_j) + step_variance(account, before, after);
    } else {
        after->energy_j += 0.5 * (least_j + most_j);
        after->variance_j2 += lull_energy_square(most_j - least_j) / 12.0;
    }
    account->resets++;
}

/* A counter that falls, or leaps by more than the device can draw, has been reset; then the power
 * has to bridge the gap. */
static void count(struct lull_energy_account *account, const struct lull_energy_point *before,
                  struct lull_energy_point *after, double counter_j)
{
    const double grown_j = counter_j - account->counter_j;
    const double gap_s = lull_energy_seconds(account->counter_ns, after->time_ns);
    const double most_j =
        leap_ratio * account->source.highest_w * (gap_s + account->source.counter_refresh_s);

    if (grown_j >= 0.0 && grown_j <= most_j)
        after->energy_j += grown_j;
    else
        bridge_reset(account, before, after, counter_j);
}

const struct lull_energy_point *lull_energy_last(const struct lull_energy_account *account)
{
    for (uint64_t i = account->count; i-- > lull_energy_oldest(account);)
        if (lull_energy_point(account, i)->has_energy)
            return lull_energy_point(account, i);
    return NULL;
}

/* Readings must come in the order of time: one that is older than the last would make energy run
 * backwards. */
static bool is_usable(const struct lull_energy_account *account,
                      const struct lull_energy_reading *reading)
{
    const bool has_counter = reading->has_counter && isfinite(reading->counter_j);
    const bool has_power =
        reading->has_power && isfinite(reading->power_w) && reading->power_w >= 0.0;

    if (!has_counter && !has_power)
        return false;
    return account->count == 0 ||
           reading->time_ns >= lull_energy_point(account, account->count - 1)->time_ns;
}

/* The counter decides where energy lies; the polled power only says how it is spread between two of
 * its readings. */
void lull_energy_account_take(struct lull_energy_account *account,
                              const struct lull_energy_reading *reading)
{
    const struct lull_energy_point *counted = lull_energy_last(account);
    const struct lull_energy_point *before = NULL;
    struct lull_energy_point taken = {0};

    if (!is_usable(account, reading))
        return;
    if (account->count == 0) {
        account->has_counter = reading->has_counter;
    } else {
        before = lull_energy_point(account, account->count - 1);
        taken = *before;
    }
    taken.time_ns = reading->time_ns;
    if (reading->has_power) {
        taken.has_power = true;
        taken.power_w = reading->power_w;
    }
    taken.has_energy = account->has_counter ? reading->has_counter : reading->has_power;
    if (before != NULL)
        extend_polled(account, before, &taken);
    if (account->has_counter && taken.has_energy) {
        if (counted != NULL)
            count(account, counted, &taken, reading->counter_j);
        account->counter_j = reading->counter_j;
        account->counter_ns = reading->time_ns;
    } else if (!account->has_counter && before != NULL) {
        taken.energy_j = taken.polled_j;
        taken.variance_j2 += step_variance(account, before, &taken);
    }
    account->points[account->count % LULL_ENERGY_KEPT] = taken;
    account->count++;
}

int64_t lull_energy_account_settled_ns(const struct lull_energy_account *account)
{
    const struct lull_energy_point *last = lull_energy_last(account);
    const double age_s = fmax(lull_energy_age_s(account), lull_energy_power_age_s(account));

    if (last == NULL)
        return INT64_MIN;
    return last->time_ns - (int64_t)(age_s * 1e9);
}
