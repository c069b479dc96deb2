/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/policy/posted_prices.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

struct posted_prices_slot {
    double price_j;
    double before_j; /* the sum of the prices ahead of it, where that is known */
    uint32_t load;
};

struct posted_prices_row {
    struct lull_price_law law;
    struct posted_prices_slot *slots; /* one more than are known */
    uint32_t summed;                  /* before_j holds up to here */
};

struct lull_prices {
    uint32_t type_count;
    uint32_t slots;
    uint32_t room;
    struct posted_prices_row *rows;
};

double lull_price_of(const struct lull_price_law *law, uint32_t load)
{
    return law->least_j * expm1(log1p(law->most_j / law->least_j) * load / (law->gpus - law->gang));
}

double lull_price_kappa(const struct lull_price_law *law)
{
    const double rest = law->gpus - law->gang;
    const double log_range = log1p(law->most_j / law->least_j);
    const double x = law->gang * log_range / rest;

    return law->gpus / rest * (expm1(x) / x) * log_range;
}

static int grow(struct lull_prices *prices, uint32_t room)
{
    for (uint32_t i = 0; i < prices->type_count; i++) {
        struct posted_prices_slot *slots =
            realloc(prices->rows[i].slots, ((size_t)room + 1) * sizeof(*slots));

        if (slots == NULL)
            return -ENOMEM;
        prices->rows[i].slots = slots;
    }
    prices->room = room;
    return 0;
}

/* Makes at least this many slots known; nothing is booked in the new ones. */
static int reach(struct lull_prices *prices, uint32_t slots)
{
    const uint32_t from = prices->slots > 0 ? prices->slots + 1 : 0;

    if (slots <= prices->slots)
        return 0;
    if (slots > prices->room && grow(prices, slots < UINT32_MAX / 2 ? slots * 2 : slots) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < prices->type_count; i++)
        for (uint32_t slot = from; slot <= slots; slot++)
            prices->rows[i].slots[slot] = (struct posted_prices_slot){0};
    prices->slots = slots;
    return 0;
}

int lull_prices_create(const struct lull_price_law *laws, uint32_t type_count,
                       struct lull_prices **prices_out)
{
    struct lull_prices *prices = calloc(1, sizeof(*prices));

    if (prices == NULL)
        return -ENOMEM;
    prices->type_count = type_count;
    prices->rows = calloc(type_count, sizeof(*prices->rows));
    if (prices->rows == NULL) {
        free(prices);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < type_count; i++)
        prices->rows[i].law = laws[i];
    if (reach(prices, 1) < 0) {
        lull_prices_destroy(prices);
        return -ENOMEM;
    }
    *prices_out = prices;
    return 0;
}

void lull_prices_destroy(struct lull_prices *prices)
{
    if (prices == NULL)
        return;
    for (uint32_t i = 0; i < prices->type_count; i++)
        free(prices->rows[i].slots);
    free(prices->rows);
    free(prices);
}

uint32_t lull_prices_slots(const struct lull_prices *prices)
{
    return prices->slots;
}

uint32_t lull_prices_load(const struct lull_prices *prices, uint32_t type, uint32_t slot)
{
    return prices->rows[type].slots[slot].load;
}

double lull_prices_sum(struct lull_prices *prices, uint32_t type, uint32_t first, uint32_t slots)
{
    struct posted_prices_row *const row = &prices->rows[type];

    assert(first + slots <= prices->slots);
    for (; row->summed < prices->slots; row->summed++)
        row->slots[row->summed + 1].before_j =
            row->slots[row->summed].before_j + row->slots[row->summed].price_j;
    return row->slots[first + slots].before_j - row->slots[first].before_j;
}

/* ---- the rule with a proof ------------------------------------------------------------------- */

static double gain_at(const struct lull_slot_point *point, uint32_t start)
{
    return -(point->cost_j + point->delay_j * (double)(start - point->first));
}

/* Up to rounding: at the ends of the ranges lie the jobs that they were taken from. */
static bool is_in_set(const struct lull_price_law *law, const struct lull_slot_point *point,
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
    const struct lull_price_law *law = &prices->rows[point->type].law;

    for (uint32_t start = point->first; start <= point->last; start++) {
        const double gain_j = gain_at(point, start);
        const bool is_first = bid->choice.point == LULL_SLOT_REJECTED;
        double price_j;

        if (!is_first && gain_j <= bid->gain_j - bid->price_j)
            return; /* later starts gain no more, and prices are not below 0 */
        if (!is_in_set(law, point, gain_j))
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
        if (reach(prices, job->points[i].last + job->points[i].slots) < 0)
            return false;
    for (uint32_t i = 0; i < job->point_count; i++)
        bid_point(prices, &job->points[i], i, bid_out);
    return bid_out->choice.point != LULL_SLOT_REJECTED && bid_out->gain_j > bid_out->price_j;
}

void lull_bid_admit(struct lull_prices *prices, const struct lull_slot_job *job,
                    const struct lull_bid *bid)
{
    const struct lull_slot_point *point = &job->points[bid->choice.point];
    struct posted_prices_row *const row = &prices->rows[point->type];
    const uint32_t first = bid->choice.start;

    for (uint32_t slot = first; slot < first + point->slots; slot++) {
        assert(row->slots[slot].load + point->gpus <= row->law.gpus);
        row->slots[slot].load += point->gpus;
        row->slots[slot].price_j = lull_price_of(&row->law, row->slots[slot].load);
    }
    if (first < row->summed)
        row->summed = first;
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
