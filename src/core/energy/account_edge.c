/*
 * Energies from an account: where an edge lies between readings, and how well that is known.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/energy/account.h"

#include <math.h>
#include <stddef.h>

#include "core/energy/account_state.h"

/* Half of a 95 % interval is two standard deviations. */
static const double deviations = 2.0;
/* An average over many refreshes may hide a scatter of this share of the power. */
static const double hidden_ratio = 0.5;
/* This share of a step that is smeared may lie on the wrong side of an edge. */
static const double smeared_ratio = 0.35;

/* The polled integral up to time_ns: from the last point before it, or beyond the ends evenly. */
static double polled_at(const struct lull_energy_account *account, int64_t time_ns)
{
    uint64_t i = account->count - 1;
    const struct lull_energy_point *before;
    const struct lull_energy_point *after;
    double gap_s;
    double into_s;
    double held_s;

    while (i > lull_energy_oldest(account) && lull_energy_point(account, i)->time_ns > time_ns)
        i--;
    before = lull_energy_point(account, i);
    into_s = lull_energy_seconds(before->time_ns, time_ns);
    if (into_s <= 0.0 || i + 1 == account->count)
        return before->polled_j + before->power_w * into_s;
    after = lull_energy_point(account, i + 1);
    gap_s = lull_energy_seconds(before->time_ns, after->time_ns);
    held_s = lull_energy_held_s(account, gap_s);
    return before->polled_j + before->power_w * fmin(into_s, gap_s - held_s) +
           after->power_w * fmax(0.0, into_s - (gap_s - held_s));
}

/* The readings of energy around an edge, and what lies between. */
struct account_edge_gap {
    const struct lull_energy_point *before;
    const struct lull_energy_point *after; /* the same one: the edge lies behind the last */
    double since_s;                        /* from the energy of before to the edge */
    double until_s;                        /* from the edge to the energy of after; 0 behind */
    double power_w;                        /* mean between them */
    double scatter_w2;                     /* of the power, around that mean */
    double polling_s;                      /* between readings of the power, at the widest */
    bool has_power;
};

/* A reading reports the energy of a slightly earlier time, so that
 * age is included when the gap around an edge is searched for. */
static bool account_edge_find_gap(const struct lull_energy_account *account, int64_t time_ns,
                                  struct account_edge_gap *gap)
{
    const double age_s = lull_energy_age_s(account);

    gap->before = NULL;
    gap->after = NULL;
    for (uint64_t i = account->count; i-- > lull_energy_oldest(account);) {
        if (!lull_energy_point(account, i)->has_energy)
            continue;
        gap->before = lull_energy_point(account, i);
        if (gap->after == NULL)
            gap->after = gap->before;
        if (lull_energy_seconds(gap->before->time_ns, time_ns) + age_s >= 0.0)
            break;
        gap->after = gap->before;
    }
    if (gap->before == NULL)
        return false;
    gap->since_s = lull_energy_seconds(gap->before->time_ns, time_ns) + age_s;
    if (gap->before->time_ns == lull_energy_last(account)->time_ns)
        gap->after = gap->before;
    gap->until_s = 0.0;
    if (gap->after != gap->before)
        gap->until_s = lull_energy_seconds(time_ns, gap->after->time_ns) - age_s;
    return gap->since_s >= 0.0;
}

/* Finds mean and scatter of the powers that were read from a little before the gap to a little
 * behind it. */
static void account_edge_sample_power(const struct lull_energy_account *account,
                                      struct account_edge_gap *gap)
{
    const struct lull_energy_source *source = &account->source;
    const int64_t margin_ns = (int64_t)((source->power_refresh_s + source->power_window_s) * 1e9);
    const int64_t from_ns = gap->before->time_ns - margin_ns;
    const int64_t to_ns = gap->after->time_ns + margin_ns;
    int64_t last_ns = 0;
    uint32_t seen = 0;
    double sum = 0.0;
    double squares = 0.0;

    gap->polling_s = 0.0;
    for (uint64_t i = lull_energy_oldest(account); i < account->count; i++) {
        const struct lull_energy_point *read = lull_energy_point(account, i);

        if (!read->has_power || read->time_ns < from_ns || read->time_ns > to_ns)
            continue;
        if (seen > 0)
            gap->polling_s = fmax(gap->polling_s, lull_energy_seconds(last_ns, read->time_ns));
        last_ns = read->time_ns;
        seen++;
        sum += read->power_w;
        squares += lull_energy_square(read->power_w);
    }
    gap->has_power = seen > 0;
    gap->power_w = 0.5 * source->highest_w;
    gap->scatter_w2 = 0.0;
    if (seen > 0)
        gap->power_w = sum / seen;
    if (seen > 1)
        gap->scatter_w2 = fmax(0.0, squares - seen * lull_energy_square(gap->power_w)) / (seen - 1);
    if (source->power_window_s > source->power_refresh_s)
        gap->scatter_w2 += lull_energy_square(hidden_ratio * gap->power_w) *
                           (1.0 - source->power_refresh_s / source->power_window_s);
}

/* Behind the last reading and without power the mean power before it is taken to continue. */
static void account_edge_look_back(const struct lull_energy_account *account,
                                   struct account_edge_gap *gap)
{
    for (uint64_t i = account->count - 1; i-- > lull_energy_oldest(account);) {
        const struct lull_energy_point *earlier = lull_energy_point(account, i);

        if (!earlier->has_energy || earlier->time_ns >= gap->before->time_ns)
            continue;
        gap->power_w = (gap->before->energy_j - earlier->energy_j) /
                       lull_energy_seconds(earlier->time_ns, gap->before->time_ns);
        return;
    }
}

/* The gap's mean power by the counter; it should agree with the power readings, if there are any.
 */
static void compare_with_counter(const struct lull_energy_account *account,
                                 struct account_edge_gap *gap)
{
    const double gap_s = gap->since_s + gap->until_s;
    double counted_w;

    if (gap->after == gap->before && !gap->has_power)
        account_edge_look_back(account, gap);
    if (gap->after == gap->before || gap_s <= 0.0 || !account->has_counter)
        return;
    counted_w = (gap->after->energy_j - gap->before->energy_j) / gap_s;
    if (gap->has_power)
        gap->scatter_w2 += lull_energy_square(counted_w - gap->power_w);
    gap->power_w = counted_w;
}

/* Finds the energy from the reading before the edge up to the edge. */
static double share_j(const struct lull_energy_account *account, const struct account_edge_gap *gap,
                      int64_t time_ns)
{
    const double energy_j = gap->after->energy_j - gap->before->energy_j;
    const double gap_s = gap->since_s + gap->until_s;
    const int64_t power_ns = (int64_t)(lull_energy_power_age_s(account) * 1e9);
    const int64_t lead_ns = power_ns - (int64_t)(lull_energy_age_s(account) * 1e9);
    double from_j;
    double to_j;

    if (gap->after == gap->before || gap_s <= 0.0)
        return gap->power_w * gap->since_s;
    if (!gap->has_power)
        return energy_j * gap->since_s / gap_s;
    from_j = polled_at(account, gap->before->time_ns + lead_ns);
    to_j = polled_at(account, gap->after->time_ns + lead_ns);
    if (to_j <= from_j)
        return energy_j * gap->since_s / gap_s;
    return energy_j * fmin(1.0, fmax(0.0, (polled_at(account, time_ns + power_ns) - from_j) /
                                              (to_j - from_j)));
}

/* Between two readings without power the energy may lie anywhere that the counts and the highest
 * power allow. */
static double uneven_without_power(const struct lull_energy_account *account,
                                   const struct account_edge_gap *gap)
{
    const double energy_j = gap->after->energy_j - gap->before->energy_j;
    const double highest_w = account->source.highest_w;
    double low_j;
    double high_j;

    if (gap->after == gap->before)
        return lull_energy_square(highest_w * gap->since_s) / 12.0;
    low_j = fmax(0.0, energy_j - highest_w * gap->until_s);
    high_j = fmin(energy_j, highest_w * gap->since_s);
    return lull_energy_square(fmax(0.0, high_j - low_j)) / 12.0;
}

/* The time within which the power readings cannot resolve when energy was drawn, s. */
static double smear_s(const struct lull_energy_account *account, const struct account_edge_gap *gap)
{
    return fmax(gap->polling_s, account->source.power_refresh_s) +
           0.25 * account->source.power_window_s;
}

/*
 * The energy between readings lies unevenly: as a random walk with the scatter's variance per step
 * of the polling, tied to both readings; without a counter the edge lies within one such step.
 */
static double uneven_with_power(const struct lull_energy_account *account,
                                const struct account_edge_gap *gap)
{
    const double step_s = smear_s(account, gap);
    const double gap_s = gap->since_s + gap->until_s;

    if (gap->after == gap->before)
        return gap->scatter_w2 * gap->since_s * fmax(gap->since_s, step_s);
    if (!account->has_counter)
        return gap->scatter_w2 * lull_energy_square(0.5 * step_s);
    if (gap_s <= 0.0)
        return 0.0;
    return gap->scatter_w2 * (gap->since_s * gap->until_s / gap_s) * step_s;
}

/* A step in the power, by twice its scatter, that is smeared evenly over step_s around the edge. */
static double edge_bias(const struct lull_energy_account *account,
                        const struct account_edge_gap *gap)
{
    if (!gap->has_power)
        return sqrt(uneven_without_power(account, gap));
    return smeared_ratio * sqrt(gap->scatter_w2) * smear_s(account, gap);
}

/* The age of both readings is uncertain by their refresh; each counts by how near the edge lies to
 * it. */
static double account_edge_variance(const struct lull_energy_account *account,
                                    const struct account_edge_gap *gap)
{
    const double gap_s = gap->since_s + gap->until_s;
    double refresh_s = account->source.power_refresh_s;
    double share = 0.0;
    double refresh_j2;

    if (gap_s > 0.0 && gap->after != gap->before)
        share = gap->since_s / gap_s;
    if (account->has_counter)
        refresh_s = account->source.counter_refresh_s;
    refresh_j2 = lull_energy_square(refresh_s) / 12.0 *
                 (lull_energy_square(gap->power_w) + gap->scatter_w2) *
                 (lull_energy_square(1.0 - share) + lull_energy_square(share));
    if (!gap->has_power)
        return refresh_j2 + uneven_without_power(account, gap);
    return refresh_j2 + uneven_with_power(account, gap);
}

/* A shorter window lies within the averaging window of one
 * power reading or, without power, between two counts. */
static double resolution_s(const struct lull_energy_account *account,
                           const struct account_edge_gap *gap)
{
    if (gap->has_power)
        return account->source.power_refresh_s + account->source.power_window_s;
    return gap->since_s + gap->until_s;
}

bool lull_energy_account_at(const struct lull_energy_account *account, int64_t time_ns,
                            struct lull_energy_edge *edge_out)
{
    struct account_edge_gap gap;

    if (account->count == 0 || !account_edge_find_gap(account, time_ns, &gap))
        return false;
    account_edge_sample_power(account, &gap);
    compare_with_counter(account, &gap);
    *edge_out = (struct lull_energy_edge){
        .time_ns = time_ns,
        .energy_j = gap.before->energy_j + share_j(account, &gap, time_ns),
        .edge_j2 = account_edge_variance(account, &gap),
        .bias_j = edge_bias(account, &gap),
        .path_j2 = gap.since_s <= 0.0 ? gap.before->variance_j2 : gap.after->variance_j2,
        .resolution_s = resolution_s(account, &gap),
        .estimated_s = gap.since_s <= 0.0 ? gap.before->estimated_s : gap.after->estimated_s,
    };
    return true;
}

struct lull_energy_figure lull_energy_between(const struct lull_energy_account *account,
                                              const struct lull_energy_edge *begin,
                                              const struct lull_energy_edge *end)
{
    const double length_s = lull_energy_seconds(begin->time_ns, end->time_ns);
    const double max_j = account->source.highest_w * length_s;
    const double joules = fmax(0.0, end->energy_j - begin->energy_j);
    const double variance_j2 =
        begin->edge_j2 + end->edge_j2 + fmax(0.0, end->path_j2 - begin->path_j2);

    return (struct lull_energy_figure){
        .seconds = length_s,
        .joules = joules,
        .uncertainty_j = fmin(deviations * sqrt(variance_j2), fmax(joules, max_j - joules)),
        .bias_j = begin->bias_j + end->bias_j,
        .is_estimate = length_s < fmax(begin->resolution_s, end->resolution_s) ||
                       end->estimated_s > begin->estimated_s,
    };
}

void lull_energy_sum_add(struct lull_energy_sum *sum, const struct lull_energy_figure *figure)
{
    sum->count++;
    sum->estimates += figure->is_estimate;
    sum->seconds += figure->seconds;
    sum->joules += figure->joules;
    sum->square_j2 += lull_energy_square(figure->uncertainty_j);
    sum->largest_j += figure->uncertainty_j;
    sum->bias_j += fmin(figure->bias_j, figure->uncertainty_j);
}

double lull_energy_sum_uncertainty_j(const struct lull_energy_sum *sum)
{
    return fmin(sum->largest_j, sqrt(sum->square_j2) + sum->bias_j);
}

bool lull_energy_account_check(const struct lull_energy_account *account, double *ratio_out)
{
    if (account->counted_j <= 0.0)
        return false;
    *ratio_out = account->checked_j / account->counted_j - 1.0;
    return true;
}

enum lull_energy_doubt lull_energy_account_doubt(const struct lull_energy_account *account)
{
    const struct lull_energy_point *last = lull_energy_last(account);
    const struct lull_energy_source *source = &account->source;
    const double error_w =
        account->power.count > 1
            ? sqrt(lull_moments_variance(&account->power) / (double)account->power.count)
            : 0.0;
    struct lull_energy_evidence evidence = {
        .range = lull_energy_range(account),
        .blind_s = account->blind_s,
        .leaps = account->leaps,
        .counted_j = account->counted_j,
        .counted_s = account->counted_s,
        .polled_j = account->checked_j,
        .polled_ratio = account->power.mean > 0.0 ? error_w / account->power.mean : 0.0,
        .edge_s = source->counter_refresh_s + source->power_refresh_s + source->power_window_s,
    };

    if (last == NULL)
        return LULL_ENERGY_CREDIBLE;
    evidence.seconds = lull_energy_seconds(account->begin_ns, last->time_ns);
    evidence.energy_j = last->energy_j;
    return lull_energy_judge(&evidence);
}
