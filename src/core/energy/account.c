/* SPDX-License-Identifier: Apache-2.0 */
#include "core/energy/account.h"

#include <math.h>
#include <stddef.h>

#include "core/energy/account_state.h"

/* A counter that jumps by more than this many times what the device can draw has been reset. */
static const double leap_ratio = 2.0;
/* A counter that has not grown for this many refreshes hangs, if this much energy was drawn:
 * counters count millijoules. A counter that cannot be read is missing after the same time, because
 * it is read once a second. */
static const double still_refreshes = 3.0;
static const double still_j = 1.0;
static const double missing_s = 3.0;
/* A power that is read this long after the last one is late. Default: powers are read
 * ten times a second. */
static const double late_s = 0.25;
/* Without a counter, a gap between power readings of this many
 * times the mean gap before it counts as time without a sensor. */
static const double gap_ratio = 10.0;
/* A counter that grows again has counted during its silence if it grew by this share of the polled
 * energy. */
static const double gone_on_ratio = 0.5;
/* Long-term difference between counter and polled power of one board; from 3 % on a report flags
 * it. Default: with it the half intervals lie near the 95 % quantile of the error (test_energy). */
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

/* The possible error of one step of the integral: the power may have differed for part of the step.
 */
static double step_variance(const struct lull_energy_account *account,
                            const struct lull_energy_point *before,
                            const struct lull_energy_point *after)
{
    const double gap_s = lull_energy_seconds(before->time_ns, after->time_ns);
    const double reach_s = fmax(gap_s, account->source.power_refresh_s);

    return 0.5 * lull_energy_square((after->power_w - before->power_w) * reach_s);
}

/* Returns the variance of the powers read lately, W^2. */
static double power_scatter(const struct lull_energy_account *account)
{
    double count = 0.0;
    double sum = 0.0;
    double squares = 0.0;

    for (uint64_t i = lull_energy_oldest(account); i < account->count; i++) {
        const struct lull_energy_point *point = lull_energy_point(account, i);

        if (!point->has_power)
            continue;
        count += 1.0;
        sum += point->power_w;
        squares += lull_energy_square(point->power_w);
    }
    return count > 1.0 ? fmax(0.0, squares - sum * sum / count) / (count - 1.0) : 0.0;
}

/* Returns the variance that a late reading adds, J^2: powers like those read lately may have come
 * and gone unseen. */
static double late_variance(const struct lull_energy_account *account,
                            const struct lull_energy_point *before,
                            const struct lull_energy_point *after)
{
    const double unseen_s = lull_energy_seconds(before->time_ns, after->time_ns) - late_s;

    return unseen_s > 0.0 ? power_scatter(account) * lull_energy_square(unseen_s) : 0.0;
}

static void note_estimate(struct lull_energy_account *account,
                          const struct lull_energy_point *before, struct lull_energy_point *after)
{
    after->estimated_s += lull_energy_seconds(before->time_ns, after->time_ns);
    account->estimated_s = after->estimated_s;
}

/* Returns whether the power is known from a time up to a point. */
static bool is_power_known(const struct lull_energy_account *account, int64_t since_ns,
                           const struct lull_energy_point *after)
{
    return after->has_power && account->power_begin_ns <= since_ns;
}

/* Estimates the energy since the point before, which the counter does not cover. The estimate
 * follows the power readings, and is no less than min_j, which has been counted. */
static void energy_account_estimate(struct lull_energy_account *account,
                                    const struct lull_energy_point *before,
                                    struct lull_energy_point *after, double min_j)
{
    const double gap_s = lull_energy_seconds(before->time_ns, after->time_ns);
    const double max_j = account->source.highest_w * gap_s;
    const double polled_j = after->polled_j - before->polled_j;

    if (is_power_known(account, before->time_ns, after)) {
        after->energy_j += fmax(polled_j, min_j);
        after->variance_j2 +=
            lull_energy_square(scale_ratio * polled_j) + step_variance(account, before, after);
    } else {
        account->blind_s += gap_s;
        after->energy_j += 0.5 * (min_j + max_j);
        after->variance_j2 += lull_energy_square(max_j - min_j) / 12.0;
    }
    note_estimate(account, before, after);
}

/* Replaces the growth of a counter that hangs. All steps of one silence
 * share the same error, so standard deviations add up, not variances. */
static void energy_account_replace(struct lull_energy_account *account,
                                   const struct lull_energy_point *before,
                                   struct lull_energy_point *after)
{
    const double since_s = lull_energy_seconds(account->counter_ns, before->time_ns);
    const double until_s = lull_energy_seconds(account->counter_ns, after->time_ns);
    double added_j = after->polled_j - before->polled_j;

    if (is_power_known(account, before->time_ns, after)) {
        const double since_j = before->polled_j - account->counter_polled_j;
        const double until_j = after->polled_j - account->counter_polled_j;

        after->variance_j2 += lull_energy_square(scale_ratio) *
                                  (lull_energy_square(until_j) - lull_energy_square(since_j)) +
                              step_variance(account, before, after);
    } else {
        account->blind_s += until_s - since_s;
        added_j = 0.5 * account->source.highest_w * (until_s - since_s);
        after->variance_j2 += lull_energy_square(account->source.highest_w) / 12.0 *
                              (lull_energy_square(until_s) - lull_energy_square(since_s));
    }
    after->energy_j += added_j;
    account->replaced_j += added_j;
    note_estimate(account, before, after);
}

/* The energy that was certainly drawn since the counter last grew: from the power readings, or else
 * from the device's least power.
 */
static double drawn_j(const struct lull_energy_account *account,
                      const struct lull_energy_point *after)
{
    if (after->has_power)
        return after->polled_j - account->counter_polled_j;
    return account->source.lowest_w * lull_energy_seconds(account->counter_ns, after->time_ns);
}

static bool stands_still(const struct lull_energy_account *account,
                         const struct lull_energy_point *after)
{
    const double gap_s = lull_energy_seconds(account->counter_ns, after->time_ns);

    return gap_s > still_refreshes * account->source.counter_refresh_s &&
           account->source.lowest_w > 0.0 && drawn_j(account, after) >= still_j;
}

/* Returns whether a counter that grows again after a silence counted during it. */
static bool has_gone_on(const struct lull_energy_account *account,
                        const struct lull_energy_point *before,
                        const struct lull_energy_point *after, double grown_j)
{
    const double polled_j = fmax(0.0, after->polled_j - before->polled_j);

    return grown_j >= gone_on_ratio * (account->replaced_j + polled_j);
}

static void note_counter(struct lull_energy_account *account, double counter_j,
                         const struct lull_energy_point *point)
{
    account->counter_j = counter_j;
    account->counter_ns = point->time_ns;
    account->counter_polled_j = point->polled_j;
    account->counter_blind_s = account->blind_s;
    account->replaced_j = 0.0;
}

/* Notes what the counter has grown by, and the power of that time, for the cross-check. */
static void check_growth(struct lull_energy_account *account, const struct lull_energy_point *after,
                         double grown_j, int64_t since_ns, double since_polled_j)
{
    if (!is_power_known(account, since_ns, after))
        return;
    account->counted_j += grown_j;
    account->counted_s += lull_energy_seconds(since_ns, after->time_ns);
    account->checked_j += after->polled_j - since_polled_j;
}

/* The most that a counter can have grown by since a time. */
static double most_grown_j(const struct lull_energy_account *account, int64_t since_ns,
                           int64_t time_ns)
{
    return leap_ratio * account->source.highest_w *
           (lull_energy_seconds(since_ns, time_ns) + account->source.counter_refresh_s);
}

/* Returns whether a counter continues from where it was before its reset rather than from where it
 * was read last: if both are possible, the one nearer to the integral of the power. */
static bool is_back_on_course(const struct lull_energy_account *account,
                              const struct lull_energy_point *after, double counter_j)
{
    const struct lull_energy_course *course = &account->course;
    const double grown_j = counter_j - course->counter_j;
    const double since_read_j = counter_j - account->counter_j;
    const double polled_j = after->polled_j - course->counter_polled_j;

    if (!course->is_open || grown_j < 0.0 ||
        grown_j > most_grown_j(account, course->counter_ns, after->time_ns))
        return false;
    if (since_read_j < 0.0 ||
        since_read_j > most_grown_j(account, account->counter_ns, after->time_ns))
        return true;
    return fabs(grown_j - polled_j) <
           fabs(since_read_j - (after->polled_j - account->counter_polled_j));
}

static void resume_course(struct lull_energy_account *account, struct lull_energy_point *after,
                          double counter_j)
{
    struct lull_energy_course *course = &account->course;
    const double grown_j = counter_j - course->counter_j;

    after->energy_j = fmax(after->energy_j, course->energy_j + grown_j);
    check_growth(account, after, grown_j, course->counter_ns, course->counter_polled_j);
    course->is_open = false;
    account->blind_s = course->blind_s;
    account->glitches++;
}

/* A counter that falls, or jumps by more than the device can
 * draw, has been reset; the power then replaces its growth. */
static void take_reset(struct lull_energy_account *account, const struct lull_energy_point *before,
                       struct lull_energy_point *after, double counter_j)
{
    const double max_counted_j =
        account->source.highest_w * lull_energy_seconds(before->time_ns, after->time_ns);
    const bool may_be_counted = counter_j >= 0.0 && counter_j <= max_counted_j;

    if (!account->course.is_open)
        account->course = (struct lull_energy_course){
            .is_open = true,
            .counter_j = account->counter_j,
            .counter_ns = account->counter_ns,
            .counter_polled_j = account->counter_polled_j,
            .energy_j = before->energy_j - account->replaced_j,
            .blind_s = account->counter_blind_s,
        };
    energy_account_estimate(account, before, after, may_be_counted ? counter_j : 0.0);
    account->leaps += counter_j > account->counter_j;
    account->resets++;
}

static void energy_account_count(struct lull_energy_account *account,
                                 const struct lull_energy_point *before,
                                 struct lull_energy_point *after, double counter_j)
{
    const double grown_j = counter_j - account->counter_j;

    if (grown_j >= 0.0 && grown_j <= 0.0) {
        if (stands_still(account, after))
            energy_account_replace(account, before, after);
        return;
    }
    if (is_back_on_course(account, after, counter_j)) {
        resume_course(account, after, counter_j);
    } else if (grown_j < 0.0 ||
               grown_j > most_grown_j(account, account->counter_ns, after->time_ns)) {
        take_reset(account, before, after, counter_j);
    } else if (has_gone_on(account, before, after, grown_j) || account->replaced_j <= 0.0) {
        account->course.is_open = false;
        after->energy_j += fmax(0.0, grown_j - account->replaced_j);
        if (grown_j >= account->replaced_j)
            account->blind_s = account->counter_blind_s;
        check_growth(account, after, grown_j, account->counter_ns, account->counter_polled_j);
    } else {
        account->course.is_open = false;
        energy_account_estimate(account, before, after, 0.0);
    }
    note_counter(account, counter_j, after);
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
static bool energy_account_is_usable(const struct lull_energy_account *account,
                                     const struct lull_energy_reading *reading)
{
    if (!reading->has_counter && !reading->has_power)
        return false;
    return account->count == 0 ||
           reading->time_ns >= lull_energy_point(account, account->count - 1)->time_ns;
}

/* Returns whether the counter has not been read for so long that power stands in for it. */
static bool is_missing(const struct lull_energy_account *account,
                       const struct lull_energy_reading *reading)
{
    return !reading->has_counter && reading->has_power &&
           lull_energy_seconds(account->counter_ns, reading->time_ns) > missing_s;
}

static void energy_account_take_counter(struct lull_energy_account *account,
                                        const struct lull_energy_reading *reading,
                                        struct lull_energy_point *taken)
{
    const struct lull_energy_point *counted = lull_energy_last(account);

    taken->has_energy = reading->has_counter || (counted != NULL && is_missing(account, reading));
    if (!taken->has_energy)
        return;
    if (counted == NULL)
        note_counter(account, reading->counter_j, taken);
    else if (reading->has_counter)
        energy_account_count(account, counted, taken, reading->counter_j);
    else
        energy_account_replace(account, counted, taken);
}

static void energy_account_take_power(const struct lull_energy_account *account,
                                      const struct lull_energy_point *before,
                                      struct lull_energy_point *taken, bool has_power)
{
    taken->has_energy = has_power;
    if (before == NULL)
        return;
    taken->energy_j = taken->polled_j;
    taken->variance_j2 +=
        step_variance(account, before, taken) + late_variance(account, before, taken);
}

/* Takes the plausible part of a reading; an impossible power is counted. */
static struct lull_energy_reading energy_account_accept(struct lull_energy_account *account,
                                                        const struct lull_energy_reading *read)
{
    const struct lull_power_range range = lull_energy_range(account);
    struct lull_energy_reading reading = *read;

    reading.has_counter = read->has_counter && isfinite(read->counter_j);
    reading.has_power = read->has_power && lull_power_is_plausible(&range, read->power_w);
    account->refused_powers += read->is_refused || (read->has_power && !reading.has_power);
    return reading;
}

/* Notes when powers were read. Without a counter, the energy drawn in a gap that is long compared
 * with those before it is unknown. */
static void note_power(struct lull_energy_account *account,
                       const struct lull_energy_reading *reading, bool was_known)
{
    const double gap_s = lull_energy_seconds(account->power_ns, reading->time_ns);
    const double typical_s = lull_energy_seconds(account->begin_ns, account->power_ns) /
                             fmax(1.0, (double)account->power.count);
    const bool is_gap =
        account->power.count > 1 && gap_s > missing_s && gap_s > gap_ratio * typical_s;

    if (is_gap && !account->has_counter)
        account->blind_s += gap_s;
    if (!was_known || is_gap)
        account->power_begin_ns = reading->time_ns;
    account->power_ns = reading->time_ns;
    lull_moments_add(&account->power, reading->power_w);
}

/* Fills the point of a reading but for its energy. A power that was read too long ago says nothing
 * about the present one. */
static void begin_point(struct lull_energy_account *account,
                        const struct lull_energy_reading *reading,
                        const struct lull_energy_point *before, struct lull_energy_point *taken)
{
    taken->time_ns = reading->time_ns;
    if (reading->has_power) {
        note_power(account, reading, taken->has_power);
        taken->has_power = true;
        taken->power_w = reading->power_w;
    } else if (taken->has_power &&
               lull_energy_seconds(account->power_ns, reading->time_ns) > missing_s) {
        taken->has_power = false;
    }
    if (before != NULL)
        extend_polled(account, before, taken);
}

/* The counter decides where energy lies; the polled power only says how it is spread between two of
 * its readings. */
void lull_energy_account_take(struct lull_energy_account *account,
                              const struct lull_energy_reading *read)
{
    const struct lull_energy_reading reading = energy_account_accept(account, read);
    const struct lull_energy_point *before = NULL;
    struct lull_energy_point taken = {0};

    if (!energy_account_is_usable(account, &reading))
        return;
    if (account->count == 0) {
        account->has_counter = reading.has_counter;
        account->begin_ns = reading.time_ns;
    } else {
        before = lull_energy_point(account, account->count - 1);
        taken = *before;
    }
    begin_point(account, &reading, before, &taken);
    if (account->has_counter)
        energy_account_take_counter(account, &reading, &taken);
    else
        energy_account_take_power(account, before, &taken, reading.has_power);
    account->points[account->count % LULL_ENERGY_KEPT] = taken;
    account->count++;
}

bool lull_energy_account_last(const struct lull_energy_account *account, int64_t time_ns,
                              double *energy_out)
{
    const struct lull_energy_point *last = lull_energy_last(account);

    if (last == NULL || last->time_ns != time_ns)
        return false;
    *energy_out = last->energy_j;
    return true;
}

int64_t lull_energy_account_settled_ns(const struct lull_energy_account *account)
{
    const struct lull_energy_point *last = lull_energy_last(account);
    const double age_s = fmax(lull_energy_age_s(account), lull_energy_power_age_s(account));

    if (last == NULL)
        return INT64_MIN;
    return last->time_ns - (int64_t)(age_s * 1e9);
}
