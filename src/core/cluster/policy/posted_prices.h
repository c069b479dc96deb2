/*
 * Posted prices of GPUs by type and slot, which rise with what is booked, by the law that the proof
 * of PD-RATS is about (docs/competitive.md):
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

#include <stdbool.h>
#include <stdint.h>

#include "core/cluster/model/slots.h"

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

/* Creates prices with nothing booked; the laws are copied. Errors: -ENOMEM. */
int lull_prices_create(const struct lull_price_law *laws, uint32_t type_count,
                       struct lull_prices **prices_out);
void lull_prices_destroy(struct lull_prices *prices);

/* How many slots are known; later ones are free of charge. */
uint32_t lull_prices_slots(const struct lull_prices *prices);

/* GPUs booked in a known slot. */
uint32_t lull_prices_load(const struct lull_prices *prices, uint32_t type, uint32_t slot);

/* The price of a GPU over the known slots [first, first + slots), J. O(1), but for the first
 * question after a booking: O(slots) then. */
double lull_prices_sum(struct lull_prices *prices, uint32_t type, uint32_t first, uint32_t slots);

/* ---- the rule with a proof ------------------------------------------------------------------- */

/*
 * On arrival a job gets the schedule of its set that gains most after posted prices, for good, or
 * none. What it gains and what the prices come to are a primal and a dual solution of the same
 * linear program, so that their ratio bounds how far from the optimum the rule is:
 * docs/competitive.md has the theorem and its proof.
 *
 * A job is one of slots.h with reject_j 0: a schedule gains -(cost_j + delay_j (start - first)).
 * The set holds the schedules that gain at least L per GPU and slot, at most U per GPU, and take no
 * more than a gang of their type. All others are passed over, and the theorem says nothing of them.
 */

/* A job's best schedule. */
struct lull_bid {
    struct lull_slot_choice choice; /* LULL_SLOT_REJECTED: the set is empty */
    double gain_j;
    double price_j;
};

/*
 * Looks at all schedules of the set: the highest gain less price, the first operating point and
 * earliest start of equals. Makes slots known up to the job's last. True: gain is above price,
 * which means that there is room. -ENOMEM is false with an empty set. O(types * slots + starts *
 * operating points).
 */
bool lull_bid_choose(struct lull_prices *prices, const struct lull_slot_job *job,
                     struct lull_bid *bid_out);

/* Books the schedule that lull_bid_choose() found, if it was true. O(slots). */
void lull_bid_admit(struct lull_prices *prices, const struct lull_slot_job *job,
                    const struct lull_bid *bid);

/* The proven ratio of dual to primal: kappa + max(1, kappa), of the type where it is highest. */
double lull_bid_ratio(const struct lull_price_law *laws, uint32_t type_count);

/*
 * Widens the laws [type] of the types that a job's schedules take, so that they are in the set at
 * their first starts: gang, least_j and most_j, which are 0 where there was no job yet. An
 * operating point that could take all GPUs of its type, or gains nothing, stays out of the set.
 */
void lull_bid_widen(const struct lull_slot_job *job, struct lull_price_law *laws);

#endif
