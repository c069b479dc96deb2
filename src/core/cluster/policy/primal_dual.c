/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/policy/primal_dual.h"

#include <math.h>

static double gain_at(const struct lull_slot_point *point, uint32_t start)
{
    return -(point->cost_j + point->delay_j * (double)(start - point->first));
}

/* Up to rounding: at the ends of the ranges lie the jobs that they were taken from. */
static bool is_on_menu(const struct lull_price_law *law, const struct lull_slot_point *point,
                       double gain_j)
{
    const double slack = 1e-12;

    return point->slots > 0 && point->gpus <= law->gang && gain_j > 0.0 &&
           gain_j <= law->most_j * point->gpus * (1.0 + slack) &&
           gain_j >= law->least_j * point->gpus * point->slots * (1.0 - slack);
}

/* The best start of an operating point, if it is better than the bid. */
static void bid_point(struct lull_prices *prices, const struct lull_slot_point *point,
                      uint32_t number, struct lull_bid *bid)
{
    const struct lull_price_law *law = lull_prices_law(prices, point->type);

    for (uint32_t start = point->first; start <= point->last; start++) {
        const double gain_j = gain_at(point, start);
        const bool is_first = bid->choice.point == LULL_SLOT_REJECTED;
        double price_j;

        if (!is_first && gain_j <= bid->gain_j - bid->price_j)
            return; /* later starts gain no more, and prices are not below 0 */
        if (!is_on_menu(law, point, gain_j))
            continue;
        price_j = point->gpus * lull_prices_sum(prices, point->type, start, point->slots);
        if (is_first || gain_j - price_j > bid->gain_j - bid->price_j)
            *bid = (struct lull_bid){{number, start}, gain_j, price_j};
    }
}

bool lull_bid_choose(struct lull_prices *prices, const struct lull_slot_job *job,
                     struct lull_bid *bid_out)
{
    *bid_out = (struct lull_bid){.choice = {LULL_SLOT_REJECTED, 0}};
    for (uint32_t i = 0; i < job->point_count; i++)
        if (lull_prices_reach(prices, job->points[i].last + job->points[i].slots) < 0)
            return false;
    for (uint32_t i = 0; i < job->point_count; i++)
        bid_point(prices, &job->points[i], i, bid_out);
    return bid_out->choice.point != LULL_SLOT_REJECTED && bid_out->gain_j > bid_out->price_j;
}

void lull_bid_admit(struct lull_prices *prices, const struct lull_slot_job *job,
                    const struct lull_bid *bid, struct lull_bid_account *account)
{
    const struct lull_slot_point *point = &job->points[bid->choice.point];

    lull_prices_book(prices, point->type, bid->choice.start, point->slots, point->gpus);
    account->gain_j += bid->gain_j;
    account->surplus_j += bid->gain_j - bid->price_j;
}

double lull_bid_dual_j(const struct lull_prices *prices, const struct lull_bid_account *account)
{
    return account->surplus_j + lull_prices_worth(prices);
}

double lull_bid_ratio(const struct lull_price_law *laws, uint32_t type_count)
{
    double kappa = 0.0;

    for (uint32_t i = 0; i < type_count; i++)
        if (laws[i].gang > 0)
            kappa = fmax(kappa, lull_price_kappa(&laws[i]));
    return kappa + fmax(1.0, kappa);
}

void lull_bid_widen(const struct lull_slot_job *job, struct lull_price_law *laws)
{
    for (uint32_t i = 0; i < job->point_count; i++) {
        const struct lull_slot_point *point = &job->points[i];
        struct lull_price_law *const law = &laws[point->type];
        const double gain_j = -point->cost_j;
        const double of_slot_j = gain_j / point->gpus / point->slots;

        if (point->slots == 0 || point->gpus >= law->gpus || gain_j <= 0.0)
            continue;
        law->least_j = law->gang == 0 ? of_slot_j : fmin(law->least_j, of_slot_j);
        law->most_j = fmax(law->most_j, gain_j / point->gpus);
        law->gang = point->gpus > law->gang ? point->gpus : law->gang;
    }
}
