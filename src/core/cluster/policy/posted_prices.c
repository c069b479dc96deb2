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
    if (lull_prices_reach(prices, 1) < 0) {
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

const struct lull_price_law *lull_prices_law(const struct lull_prices *prices, uint32_t type)
{
    return &prices->rows[type].law;
}

uint32_t lull_prices_slots(const struct lull_prices *prices)
{
    return prices->slots;
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

int lull_prices_reach(struct lull_prices *prices, uint32_t slots)
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

void lull_prices_book(struct lull_prices *prices, uint32_t type, uint32_t first, uint32_t slots,
                      uint32_t gpus)
{
    struct posted_prices_row *const row = &prices->rows[type];

    for (uint32_t slot = first; slot < first + slots; slot++) {
        assert(row->slots[slot].load + gpus <= row->law.gpus);
        row->slots[slot].load += gpus;
        row->slots[slot].price_j = lull_price_of(&row->law, row->slots[slot].load);
    }
    if (first < row->summed)
        row->summed = first;
}

double lull_prices_worth(const struct lull_prices *prices)
{
    double sum_j = 0.0;

    for (uint32_t i = 0; i < prices->type_count; i++)
        for (uint32_t slot = 0; slot < prices->slots; slot++)
            sum_j += prices->rows[i].law.gpus * prices->rows[i].slots[slot].price_j;
    return sum_j;
}
