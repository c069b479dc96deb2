/*
 * Posted prices of GPUs by type and slot, that rise with what is booked: the provable law of
 * PD-RATS (docs/competitive.md),
 *
 *   price(load) = least ((1 + most / least)^(load / (gpus - gang)) - 1).
 *
 * A slot in which another gang may not fit costs more per GPU than any job could pay, so nobody is
 * ever promised what is not there. Prices never fall.
 *
 * Slots reach as far as anyone has asked for; past the last booked slot all prices are 0. Pure; one
 * thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_CLUSTER_POLICY_POSTED_PRICES_H
#define LULL_CORE_CLUSTER_POLICY_POSTED_PRICES_H

#include <stdint.h>

/* How prices of one type of GPU rise. */
struct lull_price_law {
    uint32_t gpus;  /* C > gang */
    uint32_t gang;  /* the most GPUs that a schedule takes of it; 0: nobody may book any */
    double least_j; /* L > 0: no schedule gains less per GPU and slot */
    double most_j;  /* U >= L: none gains more per GPU */
};

/* J per GPU and slot. load <= gpus. */
double lull_price_of(const struct lull_price_law *law, uint32_t load);

/*
 * kappa of the theorem: C / (C - g) (e^x - 1) / x ln(1 + U / L) with x = g ln(1 + U / L) / (C - g):
 * what all GPUs of the type cost more after a booking is at most kappa times what the booking paid,
 * and L for each GPU and slot of it.
 */
double lull_price_kappa(const struct lull_price_law *law);

struct lull_prices; /* opaque */

/* Nothing booked. Laws are copied. -ENOMEM. */
int lull_prices_create(const struct lull_price_law *laws, uint32_t type_count,
                       struct lull_prices **prices_out);
void lull_prices_destroy(struct lull_prices *prices);

const struct lull_price_law *lull_prices_law(const struct lull_prices *prices, uint32_t type);

/* How many slots are known; later ones are free of charge. */
uint32_t lull_prices_slots(const struct lull_prices *prices);

/* Makes at least this many slots known. -ENOMEM. */
int lull_prices_reach(struct lull_prices *prices, uint32_t slots);

/* GPUs booked in a known slot. */
uint32_t lull_prices_load(const struct lull_prices *prices, uint32_t type, uint32_t slot);

/* Of a GPU in the known slots [first, first + slots), J. O(1), but for the first question after a
 * booking: O(slots) then. */
double lull_prices_sum(struct lull_prices *prices, uint32_t type, uint32_t first, uint32_t slots);

/* Books GPUs in known slots; there is room. O(slots). */
void lull_prices_book(struct lull_prices *prices, uint32_t type, uint32_t first, uint32_t slots,
                      uint32_t gpus);

/* What all GPUs of all types cost in all slots, J: sum of C price. O(slots * types). */
double lull_prices_worth(const struct lull_prices *prices);

#endif
